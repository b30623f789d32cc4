"""Streams on the move: backup, restore, and copies with their messages.

A backup is the folder `nats stream backup` writes: either command restores what the other saved. A copy with messages
is a backup restored under another name, so that sequences, times and consumers come along.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jetspark.cli.connect import jetstream
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import SIZE, human_count, human_duration, human_size
from jetspark.cli.errors import NotFound, UsageError
from jetspark.cli.names import complete_stream, pick_stream
from jetspark.cli.output import echo, emit_json
from jetspark.cli.progress import progress_bar
from jetspark.cli.stream_group import stream
from jetspark.cli.stream_options import read_config_file, split_words
from jetspark.cli.stream_show import plain_document, stream_sheet
from jetspark.clock import SystemClock

if TYPE_CHECKING:
    from jetspark.api.stream_config import StreamConfig
    from jetspark.client.sync.backup import BackupProgress
    from jetspark.sync import JetStream, Stream

SETTINGS_FILE = "backup.json"
DATA_FILE = "stream.tar.s2"
progress_option = click.option("--progress/--no-progress", default=True, help="Show a progress bar")


def back_up(picked: Stream, folder: Path, *, timeout_s: float, show: bool, **options: Any) -> BackupProgress:
    """Write a stream to a folder under a progress bar; the options are those of `Stream.backup`."""
    with progress_bar(f"Backing up {picked.name}", picked.cached_info.state.bytes, unit="bytes", show=show) as bar:
        done = picked.backup(folder, timeout=timeout_s, progress=lambda done: bar.move_to(done.byte_count), **options)
        # The snapshot is compressed: what was expected is known only now.
        bar.set_total(done.byte_count)
    return done


def bring_back(js: JetStream, folder: Path, *, timeout_s: float, show: bool) -> Stream:
    """Read a stream from a folder under a progress bar."""
    size_bytes = (folder / DATA_FILE).stat().st_size
    with progress_bar("Restoring", size_bytes, unit="bytes", show=show) as bar:
        return js.restore_stream(folder, timeout=timeout_s, progress=lambda done: bar.move_to(done.byte_count))


def patience_s(settings: Settings) -> float:
    """A chunk may wait for a disk: at least half a minute."""
    return max(30.0, settings.timeout_s)


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
    with jetstream() as js:
        picked = pick_stream(js, stream)
        show = progress and not settings.json
        given = {key: value for key, value in options.items() if value is not None}
        done = back_up(picked, folder, timeout_s=patience_s(settings), show=show, **given)
    took_ns = SystemClock().monotonic_ns() - started_ns
    state = picked.cached_info.state
    if settings.json:
        emit_json(
            {
                "stream": picked.name,
                "folder": str(folder),
                "messages": state.messages,
                "bytes": done.byte_count,
                "duration_ns": took_ns,
            }
        )
        return
    messages = f"{human_count(state.messages)} messages, {human_size(state.bytes)}"
    written = f"{human_size(done.byte_count)} in {human_duration(took_ns)}"
    echo(f"Backed up {picked.name} ({messages}) to {folder}: {written}")


@stream.verb("restore")
@click.argument("source", metavar="FOLDER", type=click.Path(file_okay=False))
@progress_option
@click.option("--config", "config_file", metavar="FILE", help="Restore with this configuration instead")
@click.option("--cluster", help="Place the stream in a specific cluster")
@click.option("--tag", "tags", multiple=True, help="Place the stream on servers with this tag")
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
    if not (folder / SETTINGS_FILE).exists() or not (folder / DATA_FILE).exists():
        raise NotFound(f"{folder} holds no backup: {SETTINGS_FILE} and {DATA_FILE} are expected in it")
    changes: dict[str, Any] = read_config_file(config_file) if config_file else {}
    if cluster or tags:
        changes["placement"] = {"cluster": cluster or "", "tags": split_words(tags)}
    if replicas is not None:
        changes["num_replicas"] = replicas
    show = progress and not settings.json
    with jetstream() as js, tempfile.TemporaryDirectory() as scratch:
        prepared = changed_backup(folder, Path(scratch), changes) if changes else folder
        made = bring_back(js, prepared, timeout_s=patience_s(settings), show=show)
    if settings.json:
        emit_json(plain_document(made.cached_info.raw))
        return
    echo(f"Restored stream {made.name} from {folder}\n")
    stream_sheet(made.cached_info).show()


def changed_backup(folder: Path, scratch: Path, changes: dict[str, Any]) -> Path:
    """The same backup with other settings, without touching the original."""
    document = json.loads((folder / SETTINGS_FILE).read_text("utf-8"))
    document["config"] = {**document["config"], **changes}
    (scratch / SETTINGS_FILE).write_text(json.dumps(document), "utf-8")
    (scratch / DATA_FILE).symlink_to((folder / DATA_FILE).resolve())
    return scratch


def copy_messages(origin: Stream, config: StreamConfig, *, show: bool) -> Stream:
    """A stream with another configuration and all that is in the first."""
    with tempfile.TemporaryDirectory() as scratch:
        saved, changed = Path(scratch) / "saved", Path(scratch) / "changed"
        changed.mkdir()
        back_up(origin, saved, timeout_s=30.0, show=show)
        prepared = changed_backup(saved, changed, dict(config.encode()))
        return bring_back(origin.jetstream, prepared, timeout_s=30.0, show=show)
