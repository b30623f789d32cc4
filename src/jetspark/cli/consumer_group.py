"""The group `consumer`, which the files with its commands add to."""

from __future__ import annotations

import click

from jetspark.cli.context import Noun


@click.group("consumer", cls=Noun)
def consumer() -> None:
    """JetStream consumers: make them, look at them, change them, take messages from them."""
