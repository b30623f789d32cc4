# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""Backing a stream up to a folder and restoring it from one.

The folder holds `backup.json` (settings and state) and `stream.tar.s2` (the server's snapshot as it came), the layout
of the `nats` command, so that each can read what the other wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from jetspark.client.durations import Seconds, seconds
from jetspark.client.errors import BadOptionError, JetStreamError, RequestTimeoutError
from jetspark.client.infos import StreamInfo, read_answer
from jetspark.client.sync.waiting import blocking
from jetspark.client.unpacked import UnpackedCount

if TYPE_CHECKING:
    from jetspark.client.sync.jetstream import JetStream
    from jetspark.client.sync.stream import Stream

SETTINGS_FILE = "backup.json"
DATA_FILE = "stream.tar.s2"
CHUNK_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class BackupProgress:
    """The progress of a backup or restore."""

    chunk_count: int
    """Chunks so far."""
    byte_count: int
    """Bytes so far."""
    is_done: bool
    """Whether it is finished."""
    unpacked_byte_count: int = 0
    """Size of a backup once it is unpacked, about `StreamState.bytes` at its end; 0 for a restore."""


Progress = Callable[[BackupProgress], Any]


def _write_settings(folder: Path, answer: dict[str, Any]) -> BinaryIO:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SETTINGS_FILE).write_text(json.dumps(answer, indent=2), "utf-8")
    return (folder / DATA_FILE).open("wb")


def backup(
    stream: Stream, folder: str | Path, progress: Progress | None, request: dict[str, Any], timeout: Seconds
) -> BackupProgress:
    """See `Stream.backup`."""
    jetstream = stream.jetstream
    connection = jetstream.connection
    inbox = connection.new_inbox()
    subscription = connection.subscribe(inbox, pending_count_max=0, pending_bytes_max=0)
    with subscription:
        document = {**request, "deliver_subject": inbox}
        answer = jetstream.api_request(f"STREAM.SNAPSHOT.{stream.name}", document, timeout=timeout)
        file = blocking(_write_settings, Path(folder), answer)
        chunk_count = byte_count = 0
        unpacked = UnpackedCount()
        try:
            while True:
                message = subscription.next(seconds(timeout))
                if message is None:
                    raise RequestTimeoutError(f"the snapshot of {stream.name} stopped after {byte_count} bytes")
                if message.status_code not in (0, 204):
                    raise JetStreamError(f"snapshot failed: {message.status_code} {message.status_text}")
                if not message.data:
                    break
                blocking(file.write, message.data)
                chunk_count += 1
                byte_count += len(message.data)
                unpacked.feed(message.data)
                if message.reply_bytes:
                    message.respond()
                if progress is not None:
                    progress(BackupProgress(chunk_count, byte_count, False, unpacked.byte_count))
        finally:
            blocking(file.close)
    done = BackupProgress(chunk_count, byte_count, True, unpacked.byte_count)
    if progress is not None:
        progress(done)
    return done


def _read_settings(folder: Path) -> tuple[dict[str, Any], dict[str, Any], BinaryIO]:
    """The stream's settings and state, and its snapshot to be read."""
    path = folder / SETTINGS_FILE
    try:
        config, state = _settings_in(path.read_bytes())
        return config, state, (folder / DATA_FILE).open("rb")
    except OSError as error:
        raise BadOptionError(f"{folder} holds no backup: {error}") from None
    except ValueError as error:
        raise BadOptionError(f"{path} is not of a backup: {error}") from None


def _settings_in(text: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    config, state = document.get("config"), document.get("state")
    if not isinstance(config, dict) or not isinstance(config.get("name"), str):
        raise ValueError("it has no config with a name")
    if not isinstance(state, dict):
        raise ValueError("it has no state")
    return config, state


def restore(
    jetstream: JetStream, folder: str | Path, name: str, progress: Progress | None, timeout: Seconds
) -> StreamInfo:
    """See `JetStream.restore_stream`."""
    config, state, file = blocking(_read_settings, Path(folder))
    if name:
        config["name"] = name
    timeout_s = seconds(timeout)
    chunk_count = byte_count = 0
    try:
        request = {"config": config, "state": state}
        answer = jetstream.api_request(f"STREAM.RESTORE.{config['name']}", request, timeout=timeout)
        target = str(answer["deliver_subject"])
        while chunk := blocking(file.read, CHUNK_BYTES):
            reply = jetstream._link.request(target, b"", chunk, timeout_s)
            if reply.data:
                read_answer(reply.data)
            chunk_count += 1
            byte_count += len(chunk)
            if progress is not None:
                progress(BackupProgress(chunk_count, byte_count, False))
        reply = jetstream._link.request(target, b"", b"", timeout_s)
    finally:
        blocking(file.close)
    if progress is not None:
        progress(BackupProgress(chunk_count, byte_count, True))
    return StreamInfo.read(read_answer(reply.data))
