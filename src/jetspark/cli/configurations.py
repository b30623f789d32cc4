"""Configurations of streams and consumers as documents: from a file, to a file, through an editor, and compared.

Decided here: what `add` and `edit` of both nouns have in common. Not known here: the settings themselves
(`stream_options`, `consumer_options`), and which of them the server takes.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import click

from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.error_codes import ApiError
from jetspark.api.stream_config import StreamConfig
from jetspark.cli.errors import UsageError
from jetspark.cli.output import echo, note
from jetspark.cli.prompts import confirm, force_option

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Config = TypeVar("Config", StreamConfig, ConsumerConfig)

_config_option = click.option(
    "--config", "config_file", metavar="FILE", type=click.Path(), help="JSON file to read the configuration from"
)


def add_options(decorated: Decorated) -> Decorated:
    """Where a new configuration may come from, and what may be done with it instead of making it."""
    decorated = click.option(
        "--output", metavar="FILE", type=click.Path(), help="Save the configuration instead of using it"
    )(decorated)
    decorated = click.option("--validate", is_flag=True, help="Only check the configuration")(decorated)
    return _config_option(decorated)


def edit_options(decorated: Decorated) -> Decorated:
    """How a configuration is changed, and whether it is meant."""
    decorated = click.option("--dry-run", is_flag=True, help="Only show the differences")(decorated)
    decorated = click.option("--interactive", "-i", is_flag=True, help="Edit the configuration in your editor")(
        decorated
    )
    return _config_option(force_option(decorated))


def read_config_file(path: str | None) -> dict[str, Any]:
    """A configuration as `--output` writes it, or as an info's JSON has it; nothing without a file."""
    if path is None:
        return {}
    try:
        document = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"the configuration in {path} cannot be read: {error}") from None
    if isinstance(document, dict) and isinstance(document.get("config"), dict):
        document = document["config"]
    if not isinstance(document, dict):
        raise UsageError(f"the configuration in {path} is not a JSON object")
    return document


def read_config(kind: type[Config], document: dict[str, Any]) -> Config:
    """A document as a configuration; what does not fit is named."""
    try:
        return kind.decode(document, strict=True)
    except ApiError as error:
        noun = "stream" if kind is StreamConfig else "consumer"
        raise UsageError(f"not a {noun} configuration: {error.description}") from None


def save_or_approve(config: StreamConfig | ConsumerConfig, name: str, output: str | None) -> None:
    """What --output and --validate do with a configuration that could be read."""
    if output:
        Path(output).write_text(json.dumps(config.encode(), indent=2) + "\n", "utf-8")
        note(f"Saved the configuration of {name} to {output}")
    else:
        echo(f"The configuration of {name} is valid")


def proposed(
    before: dict[str, Any], changes: dict[str, Any], *, removed: Collection[str] = (), interactive: bool
) -> dict[str, Any]:
    """A configuration with changes, and after a visit to the user's editor when that is wanted."""
    after = {key: value for key, value in {**before, **changes}.items() if key not in removed}
    return _edited(after) if interactive else after


def _edited(document: dict[str, Any]) -> dict[str, Any]:
    text = click.edit(json.dumps(document, indent=2), extension=".json")
    if text is None:
        raise UsageError("the editor was left without saving: nothing was changed")
    try:
        changed: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise UsageError(f"not JSON any more: {error}") from None
    return changed


def agreed(before: dict[str, Any], after: dict[str, Any], question: str, *, force: bool, dry_run: bool) -> bool:
    """Show what would change and ask; False when there is nothing to do or nobody wants it."""
    old, new = (json.dumps(one, indent=2, sort_keys=True).splitlines() for one in (before, after))
    lines = [line for line in difflib.unified_diff(old, new, "now", "then", lineterm="", n=0) if line[:2] != "@@"]
    if not lines:
        note("No difference in configuration")
        return False
    note("Differences:\n" + "\n".join(lines[2:]) + "\n")
    return not dry_run and confirm(question, force=force)
