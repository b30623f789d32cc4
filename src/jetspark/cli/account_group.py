"""The group `account`, which the files with its commands add to."""

from __future__ import annotations

import click

from jetspark.cli.context import Noun


@click.group("account", cls=Noun)
def account() -> None:
    """Account information and status."""
