"""Streams on the move: backup and restore. How they are written and read is in `backups`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jetspark.cli.backups import (
    SETTINGS_FILE,
    back_up,
    backup_document,
    bring_back,
    check_backup,
    patience_s,
    placement,
    placement_options,
)
from jetspark.cli.configurations import read_config_file
from jetspark.cli.connect import jetstream
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import SIZE, human_count, human_duration, human_size
from jetspark.cli.errors import UsageError
from jetspark.cli.names import complete_stream, pick_stream
from jetspark.cli.output import echo, emit_json
from jetspark.cli.progress import progress_bars, progress_option
from jetspark.cli.stream_group import stream
from jetspark.cli.stream_show import plain_document, stream_sheet
from jetspark.clock import SystemClock


@stream.verb("backup", aliases=("snapshot",))
@click.argument("stream", shell_complete=complete_stream)
@click.argument("target", type=click.Path(file_okay=False))
@progress_option
@click.option("--consumers/--no-consumers", default=True, help="Include the consumers")
@click.option("--check", is_flag=True, help="Have the server look for damage first")
@click.option("--chunk-size", "chunk_bytes", type=SIZE, help="Size of the pieces the server sends")
@click.option("--window-size", "window_bytes", type=SIZE, help="How far the server sends ahead")
@pass_settings
def backup(settings: Settings, /, stream: str, target: str, progress: bool, **options: Any) -> None:
    """Save a stream to the folder TARGET, through the network."""
    folder = Path(target)
    if (folder / SETTINGS_FILE).exists():
        raise UsageError(f"{folder} already holds a backup", hint="Name a new folder.")
    started_ns = SystemClock().monotonic_ns()
    with jetstream() as js, progress_bars(show=progress and not settings.json, unit="bytes") as bars:
        picked = pick_stream(js, stream)
        given = {key: value for key, value in options.items() if value is not None}
        done = back_up(picked, folder, bars, timeout_s=patience_s(settings), **given)
    took_ns = SystemClock().monotonic_ns() - started_ns
    state = picked.cached_info.state
    if settings.json:
        emit_json({**backup_document(picked, done), "folder": str(folder), "duration_ns": took_ns})
        return
    messages = f"{human_count(state.messages)} messages, {human_size(state.bytes)}"
    written = f"{human_size(done.byte_count)} in {human_duration(took_ns)}"
    echo(f"Backed up {picked.name} ({messages}) to {folder}: {written}")


@stream.verb("restore")
@click.argument("source", metavar="FOLDER", type=click.Path(file_okay=False))
@progress_option
@click.option(
    "--config", "config_file", metavar="FILE", type=click.Path(), help="Restore with this configuration instead"
)
@placement_options
@click.option("--replicas", type=int, help="How many replicas of the data to keep")
@pass_settings
def restore(
    settings: Settings,
    source: str,
    progress: bool,
    config_file: str | None,
    cluster: str | None,
    tags: tuple[str, ...],
    replicas: int | None,
) -> None:
    """Make a stream again from a backup folder, of this command or of `nats`."""
    folder = Path(source)
    check_backup(folder)
    changes = {**read_config_file(config_file), **placement(cluster, tags)}
    if replicas is not None:
        changes["num_replicas"] = replicas
    with jetstream() as js, progress_bars(show=progress and not settings.json, unit="bytes") as bars:
        made = bring_back(js, folder, bars, timeout_s=patience_s(settings), changes=changes)
    if settings.json:
        emit_json(plain_document(made.cached_info.raw))
        return
    echo(f"Restored stream {made.name} from {folder}\n")
    stream_sheet(made.cached_info).show()
