"""The group `stream`, which the files with its commands add to."""

from __future__ import annotations

import click

from jetspark.cli.context import Noun


@click.group("stream", cls=Noun)
def stream() -> None:
    """JetStream streams: make them, look at them, change, empty and back them up."""
