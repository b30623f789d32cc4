"""`jetspark counter`: numbers that many may add to, kept by a stream with `allow_msg_counter`.

Decided here: how a counter is shown, and that adding without a number adds one. The adding is the server's: it takes
an increment in a header and stores the new value. Numbers are of any size.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import click

from jetspark.cli.connect import jetstream
from jetspark.cli.context import Noun, Settings, pass_settings
from jetspark.cli.errors import CliError, NotFound, UsageError
from jetspark.cli.explain import no_stream_for, no_stream_named
from jetspark.cli.names import complete_stream, from_server
from jetspark.cli.output import Sheet, echo, emit_json
from jetspark.cli.prompts import given

if TYPE_CHECKING:
    from jetspark.client.sync.stream import StoredMsg
    from jetspark.sync import JetStream, Stream

INCREMENT_HEADER: Final = "Nats-Incr"
# Where a stream that sources others keeps what each of them had.
SOURCES_HEADER: Final = "Nats-Counter-Sources"
_NUMBER: Final = re.compile(r"[+-]?\d+")

stream_option = click.option(
    "--stream",
    "stream",
    default="",
    shell_complete=complete_stream,
    help="The stream; found by the subject if not given",
)


@click.group("counter", cls=Noun)
def counter() -> None:
    """Counters that many add to, one a subject, in a stream made with --allow-counter."""


def _find(js: JetStream, stream: str, subject: str) -> Stream:
    """The stream that counts the subject."""
    from jetspark.client.api_errors import StreamNotFoundError

    try:
        found = js.stream(stream or _owner(js, subject))
    except StreamNotFoundError:
        raise no_stream_named(js, stream) from None
    if not found.cached_info.config.allow_msg_counter:
        hint = "Make one that counts with: jetspark stream add NAME --subjects SUBJECT --allow-counter"
        raise CliError(f"stream {found.name} does not count", hint=hint)
    return found


def _owner(js: JetStream, subject: str) -> str:
    names = sorted(js.stream_names(subject))
    if not names:
        raise no_stream_for(js, subject)
    if len(names) > 1:
        raise UsageError(f"{subject} is in several streams: {', '.join(names)}", hint="Choose one with --stream.")
    return names[0]


def _read(stream: Stream, subject: str) -> StoredMsg:
    from jetspark.client.api_errors import MessageNotFoundError

    try:
        return stream.get_last_msg(subject)
    except MessageNotFoundError:
        hint = f"Begin it with: jetspark counter increment {subject} 1"
        raise NotFound(f"nothing was counted on {subject} in {stream.name} yet", hint=hint) from None


def _value(message: StoredMsg) -> str:
    """The number in a message, as written: it may be larger than other programs' numbers."""
    try:
        value = json.loads(message.data)["val"]
    except (ValueError, KeyError, TypeError):
        raise CliError(f"message {message.seq} on {message.subject} holds no counter") from None
    return str(value)


def _complete_counter(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Counters there are, of the stream named before or of all that count."""
    named = str(ctx.params.get("stream") or "")

    def ask(js: JetStream) -> list[str]:
        names = [named] if named else [one.name for one in js.streams() if one.config.allow_msg_counter]
        return [
            subject for name in names for subject in js.stream_handle(name).info(subjects_filter=">").state.subjects
        ]

    return [subject for subject in from_server(ctx, ask) if subject.startswith(incomplete)]


subject_argument = click.argument("subject", required=False, shell_complete=_complete_counter)


def _asked(subject: str | None) -> str:
    return given(subject, "Counter subject", argument="SUBJECT")


@counter.verb("get", aliases=("g",))
@subject_argument
@stream_option
@pass_settings
def get(settings: Settings, subject: str | None, stream: str) -> None:
    """Show the value of a counter."""
    subject = _asked(subject)
    with jetstream() as js:
        value = _value(_read(_find(js, stream, subject), subject))
    _show_value(settings, subject, value)


def _show_value(settings: Settings, subject: str, value: str) -> None:
    if settings.json:
        emit_json({"subject": subject, "value": value})
    else:
        echo(value)


@counter.verb("view", aliases=("v",))
@subject_argument
@stream_option
@pass_settings
def view(settings: Settings, subject: str | None, stream: str) -> None:
    """Show a counter with its last increment and what it got from other streams."""
    subject = _asked(subject)
    with jetstream() as js:
        found = _find(js, stream, subject)
        message = _read(found, subject)
    sources = _sources(message)
    increment = message.headers.get(INCREMENT_HEADER, "") if message.headers else ""
    if settings.json:
        document = {"stream": found.name, "subject": message.subject, "value": _value(message)}
        emit_json({**document, "increment": increment, "seq": message.seq, "sources": sources})
        return
    sheet = Sheet(f"Counter {message.subject}")
    sheet.row("Value", _grouped(_value(message)))
    sheet.row_if("Increment", _grouped(increment))
    sheet.row("Stream", found.name)
    sheet.row("Sequence", message.seq)
    if sources:
        sheet.section("Sources")
        for name, counts in sources.items():
            sheet.row(name, "\n".join(f"{origin}: {_grouped(value)}" for origin, value in counts.items()))
    sheet.show()


def _grouped(value: object) -> str:
    """A number for a person, of any size."""
    return f"{int(text):,}" if _NUMBER.fullmatch(text := str(value)) else text


def _sources(message: StoredMsg) -> dict[str, dict[str, Any]]:
    text = message.headers.get(SOURCES_HEADER, "") if message.headers else ""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# A negative number is a value here, not an option.
@counter.verb("increment", aliases=("incr", "i"), context_settings={"ignore_unknown_options": True})
@subject_argument
@click.argument("value", default="1")
@stream_option
@pass_settings
def increment(settings: Settings, subject: str | None, value: str, stream: str) -> None:
    """Add VALUE, which may be negative, to a counter and show the sum; without VALUE add one."""
    subject = _asked(subject)
    if not _NUMBER.fullmatch(value):
        raise UsageError(f"{value!r} is no whole number")
    with jetstream() as js:
        found = _find(js, stream, subject)
        # Checked here: a message that adds may not say which stream it is for.
        if stream and (owner := _owner(js, subject)) != found.name:
            raise UsageError(f"{subject} is counted in stream {owner}, not in {found.name}")
        ack = js.publish(subject, b"", headers={INCREMENT_HEADER: value})
    _show_value(settings, subject, str(ack.value))


@counter.verb("list", aliases=("ls", "l"))
@click.argument("subject", required=False)
@stream_option
@pass_settings
def ls(settings: Settings, subject: str | None, stream: str) -> None:
    """List the counters of a stream, or those whose subject matches a pattern such as 'hits.>'."""
    if not (subject or stream):
        raise UsageError(
            "give a subject, or --stream", hint="All counters of a stream: jetspark counter ls --stream NAME"
        )
    with jetstream() as js:
        found = _find(js, stream, subject or "")
        names = sorted(found.info(subjects_filter=subject or ">").state.subjects)
    if settings.json:
        emit_json(names)
    elif names:
        echo("\n".join(names))
    else:
        raise NotFound(f"no counters in {found.name} match {subject or '>'}")
