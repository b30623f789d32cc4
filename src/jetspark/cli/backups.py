"""Streams as folders: written, read, changed and copied, under progress bars.

A backup is the folder `nats stream backup` writes: either command restores what the other saved. A copy with messages
is a backup restored under another name, so that sequences, times and consumers come along. Not known here: the
commands (`stream_transfer`, `stream_make`, `account`) and what they say.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from jetspark.cli.context import Settings
from jetspark.cli.errors import NotFound, UsageError
from jetspark.cli.progress import Bars, progress_bars
from jetspark.cli.stream_options import split_words

if TYPE_CHECKING:
    from jetspark.api.stream_config import StreamConfig
    from jetspark.sync import BackupProgress, JetStream, Stream

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
SETTINGS_FILE: Final = "backup.json"
DATA_FILE: Final = "stream.tar.s2"
# A chunk may wait for a disk.
PATIENCE_S: Final = 30.0


def patience_s(settings: Settings) -> float:
    """How long a chunk may take: at least half a minute."""
    return max(PATIENCE_S, settings.timeout_s)


def check_backup(folder: Path) -> None:
    """Refuse a folder that holds no backup."""
    if not (folder / SETTINGS_FILE).exists() or not (folder / DATA_FILE).exists():
        raise NotFound(f"{folder} holds no backup: {SETTINGS_FILE} and {DATA_FILE} are expected in it")


def back_up(picked: Stream, folder: Path, bars: Bars, *, timeout_s: float, **options: Any) -> BackupProgress:
    """Write a stream to a folder under a bar of its own; the options are those of `Stream.backup`."""
    bar = bars.add(f"Backing up {picked.name}", max(1, picked.cached_info.state.bytes))

    def move(done: BackupProgress) -> None:
        # The snapshot comes packed, and what is known of the stream is its size unpacked.
        bar.move_to(done.unpacked_byte_count)

    done = picked.backup(folder, timeout=timeout_s, progress=move, **options)
    bar.set_total(max(1, done.unpacked_byte_count))
    return done


def backup_document(picked: Stream, done: BackupProgress) -> dict[str, Any]:
    """A backup for a script."""
    return {"stream": picked.name, "messages": picked.cached_info.state.messages, "bytes": done.byte_count}


def placement_options(decorated: Decorated) -> Decorated:
    """Where in a cluster what is restored should be."""
    decorated = click.option("--tag", "tags", multiple=True, help="Place the stream on servers with this tag")(
        decorated
    )
    return click.option("--cluster", help="Place the stream in a specific cluster")(decorated)


def placement(cluster: str | None, tags: tuple[str, ...]) -> dict[str, Any]:
    """What the options above change in a stream's settings."""
    if not (cluster or tags):
        return {}
    return {"placement": {"cluster": cluster or "", "tags": split_words(tags)}}


def bring_back(
    js: JetStream, folder: Path, bars: Bars, *, timeout_s: float, changes: dict[str, Any] | None = None
) -> Stream:
    """Read a stream from a folder under a bar of its own, with some settings changed."""
    bar = bars.add("Restoring", max(1, (folder / DATA_FILE).stat().st_size))
    with tempfile.TemporaryDirectory() as scratch:
        prepared = changed_backup(folder, Path(scratch), changes) if changes else folder
        return js.restore_stream(prepared, timeout=timeout_s, progress=lambda done: bar.move_to(done.byte_count))


def changed_backup(folder: Path, scratch: Path, changes: dict[str, Any]) -> Path:
    """The same backup with other settings, without touching the original."""
    try:
        document = json.loads((folder / SETTINGS_FILE).read_text("utf-8"))
        document["config"] = {**document["config"], **changes}
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder / SETTINGS_FILE} is not of a backup: no configuration to change: {error}") from None
    (scratch / SETTINGS_FILE).write_text(json.dumps(document), "utf-8")
    (scratch / DATA_FILE).symlink_to((folder / DATA_FILE).resolve())
    return scratch


def copy_messages(origin: Stream, config: StreamConfig, *, show: bool) -> Stream:
    """A stream with another configuration and all that is in the first."""
    with tempfile.TemporaryDirectory() as scratch, progress_bars(show=show, unit="bytes") as bars:
        saved = Path(scratch)
        back_up(origin, saved, bars, timeout_s=PATIENCE_S)
        return bring_back(origin.jetstream, saved, bars, timeout_s=PATIENCE_S, changes=dict(config.encode()))
