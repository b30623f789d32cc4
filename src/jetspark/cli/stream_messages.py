"""Messages of a stream, one by one: get, view, rmm."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from jetspark.cli.connect import jetstream
from jetspark.cli.context import Settings, pass_settings
from jetspark.cli.durations import DURATION, SECOND_NS, human_duration, local_time, now_ns
from jetspark.cli.errors import NotFound, UsageError
from jetspark.cli.messages import iso_time, raw_option, show_headers, translate_option, translated
from jetspark.cli.names import pick_stream, stream_argument
from jetspark.cli.output import echo, emit_json, emit_json_line, is_terminal, message_document, text_of, write_bytes
from jetspark.cli.prompts import ask, can_ask, confirm
from jetspark.cli.stream_group import stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jetspark.sync import StoredMsg, Stream

PAGE_MAX = 25
PAGE = 10


def _document(message: StoredMsg) -> dict[str, object]:
    time = iso_time(message.timestamp_ns)
    return message_document(message.subject, message.data, message.headers, seq=message.seq, time=time)


@stream.verb("get")
@stream_argument
@click.argument("sequence", metavar="[ID]", type=int, required=False)
@click.option("--last-for", "-S", metavar="SUBJECT", default="", help="The last message of a subject")
@raw_option
@translate_option
@pass_settings
def get(
    settings: Settings, stream: str | None, sequence: int | None, last_for: str, raw: bool, translate: str | None
) -> None:
    """Show one message: by its sequence, or the last of a subject."""
    from jetspark.client.api_errors import MessageNotFoundError

    with jetstream() as js:
        picked = pick_stream(js, stream)
        if not last_for and sequence is None:
            sequence = int(ask("Message sequence", argument="ID (or --last-for SUBJECT)", kind=int))
        try:
            message = picked.get_msg(sequence or 0, last_by_subject=last_for)
        except MessageNotFoundError:
            raise _no_message(picked, sequence, last_for) from None
    if settings.json:
        emit_json(_document(message))
    elif raw:
        write_bytes(translated(message.data, translate))
    else:
        age = human_duration(max(0, now_ns() - message.timestamp_ns))
        when = local_time(message.timestamp_ns, fraction=True)
        echo(f"Item: {picked.name}#{message.seq} received {when} ({age}) on Subject {message.subject}\n")
        show_headers(message.headers)
        echo(text_of(translated(message.data, translate)))


def _no_message(picked: Stream, sequence: int | None, last_for: str) -> NotFound:
    state = picked.cached_info.state
    if last_for:
        hint = f"Subjects it has: jetspark stream subjects {picked.name}"
        return NotFound(f"no message of {last_for} in {picked.name}", hint=hint)
    return NotFound(f"no message {sequence} in {picked.name}, which holds {state.first_seq} to {state.last_seq}")


@stream.verb("view")
@stream_argument
@click.argument("size", type=click.IntRange(1, PAGE_MAX), required=False)
@click.option("--id", "start_seq", type=int, help="Start at this sequence")
@click.option("--since", type=DURATION, help="Start so long ago, like 1d3h5m2s")
@raw_option
@click.option("--subject", default="", help="Only messages of this subject")
@translate_option
@pass_settings
def view(
    settings: Settings,
    stream: str | None,
    size: int | None,
    start_seq: int | None,
    since: int | None,
    raw: bool,
    subject: str,
    translate: str | None,
) -> None:
    """Page through a stream's messages, SIZE (at most 25) at a time.

    At a terminal it asks before the next page. In a pipe, and with --json, one page is shown, or without SIZE
    everything.
    """
    if start_seq is not None and since is not None:
        raise UsageError("give --id or --since, not both")
    asks = can_ask() and is_terminal() and not settings.json
    page = size or PAGE
    with jetstream() as js:
        picked = pick_stream(js, stream)
        for number, message in enumerate(_messages(picked, start_seq, since, subject)):
            if number and number % page == 0 and (asks or size):
                if not asks or not click.confirm("Next page?", default=True, err=True):
                    return
            if settings.json:
                emit_json_line(_document(message))
            elif raw:
                write_bytes(translated(message.data, translate) + b"\n")
            else:
                when = local_time(message.timestamp_ns)
                echo(f"[{message.seq}] Subject: {message.subject} Received: {when}")
                show_headers(message.headers)
                echo(text_of(translated(message.data, translate)) + "\n")


def _messages(picked: Stream, start_seq: int | None, since: int | None, subject: str) -> Iterator[StoredMsg]:
    """From the start to what is now the last message, in order; leaves nothing behind on the server."""
    from jetspark.client.api_errors import MessageNotFoundError

    state = picked.cached_info.state
    at = max(start_seq or 1, state.first_seq)
    begin = None if since is None else datetime.fromtimestamp((now_ns() - since) / SECOND_NS, UTC)
    while at <= state.last_seq:
        try:
            if begin is not None:
                message = picked.get_msg(start_time=begin, next_by_subject=subject or ">", direct=False)
            else:
                message = picked.get_msg(at, next_by_subject=subject or ">")
        except MessageNotFoundError:
            return
        if message.seq > state.last_seq:
            return
        yield message
        begin, at = None, message.seq + 1


def _delete(picked: Stream, sequence: int) -> None:
    """Delete a message; the server says of one that is not there what it says of any it could not delete."""
    from jetspark.api.error_codes import ApiError
    from jetspark.client.api_errors import MessageNotFoundError

    try:
        picked.delete_msg(sequence)
    except ApiError:
        try:
            picked.get_msg(sequence)
        except MessageNotFoundError:
            raise _no_message(picked, sequence, "") from None
        raise


@stream.verb("rmm")
@stream_argument
@click.argument("sequence", metavar="[ID]", type=int, required=False)
@click.option("--force", "-f", is_flag=True, help="Do it without asking")
@pass_settings
def rmm(settings: Settings, stream: str | None, sequence: int | None, force: bool) -> None:
    """Remove one message and overwrite its bytes."""
    with jetstream() as js:
        picked = pick_stream(js, stream)
        if sequence is None:
            sequence = int(ask("Message sequence", argument="ID", kind=int))
        if not confirm(f"Really remove message {sequence} from stream {picked.name}", force=force):
            return
        _delete(picked, sequence)
    if settings.json:
        emit_json({"stream": picked.name, "seq": sequence, "deleted": True})
