"""How received messages are shown: one by one, as `nats sub` and `nats consumer next` do, or a JSON line each."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import click

from jetspark.cli.durations import clock_time, human_duration, local_time, now_ns
from jetspark.cli.errors import CliError
from jetspark.cli.output import echo, emit_json_line, message_document, text_of, write_bytes

if TYPE_CHECKING:
    from jetspark.client.headers import Headers
    from jetspark.sync import Msg, StoredMsg

translate_option = click.option("--translate", metavar="COMMAND", help="Run the data through this command first")
raw_option = click.option("--raw", "-r", is_flag=True, help="Show only the data")


def translated(data: bytes, command: str | None) -> bytes:
    """The data as a command's output."""
    if not command:
        return data
    try:
        result = subprocess.run(shlex.split(command), input=data, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError, ValueError) as error:
        raise CliError(f"--translate {command!r} failed: {error}") from None
    return result.stdout


def show_headers(headers: Headers) -> None:
    """Headers as they are on the wire, a line each."""
    for name, value in headers.all_items():
        echo(text_of(f"{name}: {value}".encode("utf-8", "backslashreplace")))
    if headers:
        echo()


def iso_time(unix_ns: int) -> str:
    """A moment for a script, to the nanosecond."""
    from jetspark.api.timestamps import format_time

    return format_time(unix_ns)


@dataclass(frozen=True, slots=True)
class Direct:
    """A message that was got from a stream, not delivered by a consumer."""

    stream: str
    stored: StoredMsg

    @property
    def subject(self) -> str:
        """Where it was published."""
        return self.stored.subject

    @property
    def data(self) -> bytes:
        """What it carries."""
        return self.stored.data

    @property
    def headers(self) -> Headers:
        """What goes with it."""
        return self.stored.headers


Shown = Union["Msg", Direct]


def stream_seq(message: Shown) -> int:
    """Where it stands in its stream; 0 when it is of none."""
    if isinstance(message, Direct):
        return message.stored.seq
    return message.metadata.stream_sequence if message.is_jetstream else 0


def received_document(message: Shown) -> dict[str, Any]:
    """A message for a script, with where it stands in its stream."""
    more: dict[str, Any] = {}
    if isinstance(message, Direct):
        stored = message.stored
        more = {"stream": message.stream, "stream_seq": stored.seq, "time": iso_time(stored.timestamp_ns)}
    elif message.is_jetstream:
        meta = message.metadata
        more = {
            "stream": meta.stream,
            "consumer": meta.consumer,
            "stream_seq": meta.stream_sequence,
            "consumer_seq": meta.consumer_sequence,
            "deliveries": meta.delivery_count,
            "pending": meta.pending_count,
            "time": iso_time(meta.timestamp_ns),
        }
    elif message.reply:
        more = {"reply": message.reply}
    return message_document(message.subject, message.data, message.headers, **more)


def show_delivery(message: Msg, *, raw: bool, as_json: bool) -> None:
    """A message taken from a consumer, as `nats consumer next` shows it."""
    if as_json:
        emit_json_line(received_document(message))
        return
    if raw:
        write_bytes(message.data + b"\n")
        return
    meta = message.metadata
    sequences = f"cons seq: {meta.consumer_sequence} / str seq: {meta.stream_sequence}"
    place = f"subj: {message.subject} / tries: {meta.delivery_count} / {sequences} / pending: {meta.pending_count}"
    echo(f"[{clock_time(now_ns())}] {place}\n")
    show_headers(message.headers)
    echo(text_of(message.data) + "\n")


@dataclass
class Printer:
    """Shows the messages of a subscription, each with its number."""

    raw: bool = False
    headers_only: bool = False
    subjects_only: bool = False
    timestamp: bool = False
    delta_time: bool = False
    as_json: bool = False
    translate: str | None = None
    dump: str | None = None
    count: int = 0
    started_ns: int = field(default_factory=now_ns)

    @property
    def is_bare(self) -> bool:
        """Nothing but data is shown."""
        return self.raw or self.as_json or self.dump == "-"

    def show(self, message: Shown, reply: Msg | None = None) -> None:
        """One more message, with the reply it got."""
        self.count += 1
        if self.dump is not None:
            # A message of a stream has a number of its own, which stays the same from run to run.
            number = stream_seq(message) or self.count
            self._dump(message, f"{number}.json")
            if reply is not None:
                self._dump(reply, f"{number}_reply.json")
        elif self.as_json:
            more = {} if reply is None else {"matched_reply": received_document(reply)}
            emit_json_line({**received_document(message), **more})
        elif self.subjects_only:
            echo(message.subject)
        elif self.raw:
            for one in (message,) if reply is None else (message, reply):
                write_bytes(translated(one.data, self.translate) + b"\n")
        else:
            self._show_whole(message, self._told(message))
            if reply is not None:
                self._show_whole(reply, f'Matched reply on "{reply.subject}"')

    def _told(self, message: Shown) -> str:
        if isinstance(message, Direct):
            stored = message.stored
            place = f"stream: {message.stream} seq: {stored.seq} / subject: {stored.subject}"
            return f"Received JetStream message (direct): {place} / time: {local_time(stored.timestamp_ns)}"
        if message.is_jetstream:
            meta = message.metadata
            place = f"stream: {meta.stream} seq: {meta.stream_sequence} / pending: {meta.pending_count}"
            return (
                f"Received JetStream message: {place} / subject: {message.subject}"
                f" / time: {local_time(meta.timestamp_ns)}"
            )
        reply = f' with reply "{message.reply}"' if message.reply else ""
        return f'Received on "{message.subject}"{reply}'

    def _show_whole(self, message: Shown, told: str) -> None:
        echo(f"[#{self.count}]{self._when()} {told}")
        show_headers(message.headers)
        if not self.headers_only:
            echo(text_of(translated(message.data, self.translate)) + "\n")

    def _when(self) -> str:
        at_ns = now_ns()
        if self.delta_time:
            return f" @ {human_duration(at_ns - self.started_ns)}"
        return f" @ {local_time(at_ns, fraction=True)}" if self.timestamp else ""

    def _dump(self, message: Shown, file_name: str) -> None:
        """A file for each message, or the data with a zero byte after it."""
        assert self.dump is not None
        data = translated(message.data, self.translate)
        if self.dump == "-":
            write_bytes(data + b"\0")
            return
        folder = Path(self.dump)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file_name).write_text(_text(received_document(message)), "utf-8")


def _text(document: dict[str, Any]) -> str:
    import json

    return json.dumps(document, indent=2, ensure_ascii=False)
