"""`jetspark events`: what JetStream and the server tell about themselves, as it happens.

Decided here: which subjects are listened to, and the words for each kind of event. An event of a kind that is not known
here is shown all the same, as its fields. Not known here: when events are sent; see `api.advisories`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from jetspark.api.api_subjects import ADVISORY_PREFIX, METRIC_PREFIX
from jetspark.cli.connect import connected, effective, make_jetstream
from jetspark.cli.context import Command, Settings, pass_settings
from jetspark.cli.durations import (
    DURATION,
    SECOND_NS,
    human_count,
    human_duration,
    human_size,
    local_time,
    now_ns,
    wire_ns,
)
from jetspark.cli.errors import UsageError
from jetspark.cli.output import echo, emit_json_line, note, text_of

if TYPE_CHECKING:
    from jetspark.sync import Connection, JetStream, Msg

SERVER_SUBJECTS: Final = (
    "$SYS.ACCOUNT.*.CONNECT",
    "$SYS.ACCOUNT.*.DISCONNECT",
    "$SYS.SERVER.*.CLIENT.AUTH.ERR",
)
VALUE_CHARACTERS: Final = 160
# What every event has, and what its head line already says.
HEAD_KEYS: Final = {"type", "id", "timestamp", "schema"}

_SENTENCES: Final = {
    "api_audit": ("JetStream API Access", "{subject}"),
    "stream_action": ("Stream Action", "stream {stream}: {action}"),
    "consumer_action": ("Consumer Action", "consumer {stream} > {consumer}: {action}"),
    "consumer_pause": ("Consumer Pause", "consumer {stream} > {consumer}: paused {paused} until {pause_until}"),
    "max_deliver": (
        "Consumer Delivery Exceeded",
        "message {stream_seq} of {stream} > {consumer} was delivered {deliveries} times without an acknowledgement",
    ),
    "nak": ("Message Nacked", "message {stream_seq} of {stream} > {consumer}, delivery {deliveries}"),
    "terminated": (
        "Message Terminated",
        "message {stream_seq} of {stream} > {consumer}, delivery {deliveries}: {reason}",
    ),
    "consumer_ack": (
        "Consumer Acknowledgement",
        "message {stream_seq} of {stream} > {consumer} acknowledged after {ack_time}, delivery {deliveries}",
    ),
    "consumer_group_pinned": ("Client Pinned", "{stream} > {consumer} group {group}: {pinned_id} is pinned now"),
    "consumer_group_unpinned": ("Client Unpinned", "{stream} > {consumer} group {group}: nobody is pinned ({reason})"),
    "snapshot_create": ("Stream Snapshot Created", "stream {stream}"),
    "snapshot_complete": ("Stream Snapshot Completed", "stream {stream} {error}"),
    "restore_create": ("Stream Restore Started", "stream {stream}"),
    "restore_complete": ("Stream Restore Completed", "stream {stream}, {bytes}"),
    "stream_batch_abandoned": ("Atomic Batch Abandoned", "stream {stream} batch {batch}: {reason}"),
    "server_out_of_space": ("Server Out Of Space", "server {server} stream {stream}"),
    "api_limit_reached": ("API Limit Reached", "server {server} dropped {dropped} requests"),
    "client_connect": ("Client Connection", "{client[name]} from {client[host]} as client {client[id]}"),
    "client_disconnect": ("Client Disconnection", "{client[name]} from {client[host]}: {reason}"),
}


class _Fields(dict[str, Any]):
    """An event's fields for a sentence: what is missing is left blank."""

    def __missing__(self, key: str) -> str:
        return ""


def kind_of(event: dict[str, Any]) -> str:
    """`io.nats.jetstream.advisory.v1.nak` is a `nak`."""
    return str(event.get("type", "")).rpartition(".")[2]


def sentence(event: dict[str, Any]) -> tuple[str, str]:
    """The title of an event and what it says, for a person."""
    kind = kind_of(event)
    title, words = _SENTENCES.get(kind, (kind.replace("_", " ").title() or "Event", ""))
    if not words:
        fields = (f"{key} {value}" for key, value in event.items() if key not in HEAD_KEYS)
        return title, ", ".join(fields)
    shown = _Fields(event)
    for key in ("ack_time", "bytes"):
        if key in shown:
            shown[key] = human_duration(int(shown[key])) if key == "ack_time" else human_size(int(shown[key]))
    if isinstance(shown.get("client"), dict):
        shown["client"] = _Fields(shown["client"])
    return title, words.format_map(shown).strip(" :")


def head(event: dict[str, Any]) -> str:
    """When it happened, and which of its kind it is."""
    time_ns = wire_ns(str(event.get("timestamp", ""))) or now_ns()
    return f"[{local_time(time_ns)[11:]}] [{event.get('id', '')}]"


def show(event: dict[str, Any], *, short: bool) -> None:
    """One event for a person."""
    title, words = sentence(event)
    styled = click.style(title, bold=True)
    if short:
        echo(f"{head(event)} {styled}: {text_of(words.encode())}")
        return
    echo(f"{head(event)} {styled}\n")
    echo(f"    {text_of(words.encode())}\n")
    rows = [(key, value) for key, value in event.items() if key not in HEAD_KEYS and not isinstance(value, dict)]
    width = max((len(key) for key, _ in rows), default=0) + 6
    for key, value in rows:
        label = key.replace("_", " ")
        written = human_duration(value) if key == "ack_time" else human_count(value) if type(value) is int else value
        echo(f"{label:>{width}}: {_cut(text_of(str(written).encode()))}")
    for key in ("client", "server"):
        if isinstance(event.get(key), dict):
            facts = ", ".join(
                f"{name} {event[key][name]}" for name in ("name", "host", "id", "user") if event[key].get(name)
            )
            echo(f"{key:>{width}}: {text_of(facts.encode())}")
    echo()


def cloud_event(event: dict[str, Any]) -> dict[str, Any]:
    """An event in the envelope of CloudEvents 1.0; who says it and what about are words of its type."""
    kind = str(event.get("type", ""))
    words = kind.split(".")
    source, subject = words[2:4] if len(words) > 3 else ("server", "event")
    return {
        "type": kind,
        "time": event.get("timestamp", ""),
        "id": event.get("id", ""),
        "source": f"urn:nats:{source}",
        "specversion": "1.0",
        "subject": subject,
        "data": event,
    }


def _cut(text: str) -> str:
    """API audits carry whole documents: a person gets their beginning, a script (--json) all."""
    more = len(text) - VALUE_CHARACTERS
    return text if more <= 0 else f"{text[:VALUE_CHARACTERS]}... ({human_count(more)} more)"


def read(data: bytes) -> dict[str, Any] | None:
    """An event, if it is one."""
    try:
        event = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    return event if isinstance(event, dict) else None


@click.command("events", cls=Command)
@click.option("--all", "-a", "everything", is_flag=True, help="Show all events")
@click.option("--short", is_flag=True, help="One line an event")
@click.option("--cloudevent", is_flag=True, help="A CloudEvents 1.0 document an event")
@click.option("--filter", "pattern", default=".", metavar="REGEX", help="Only events whose text matches")
@click.option("--js-metric", is_flag=True, help="Show JetStream metrics, such as sampled acknowledgements")
@click.option("--js-advisory", is_flag=True, help="Show JetStream advisories")
@click.option("--srv-advisory/--no-srv-advisory", default=None, help="Show advisories of the server (system account)")
@click.option("--subjects", multiple=True, metavar="SUBJECT", help="Show events received on these subjects too")
@click.option("--stream", help="Read events from a stream that stores them")
@click.option("--since", type=DURATION, help="With --stream: from so long ago")
@click.option("--count", type=click.IntRange(min=1), help="Stop after so many")
@pass_settings
def events(
    settings: Settings,
    /,
    *,
    pattern: str,
    short: bool,
    cloudevent: bool,
    stream: str | None,
    since: int | None,
    count: int | None,
    **chosen: Any,
) -> None:
    """Show advisories and metrics as they come. Without options: JetStream's, both kinds."""
    try:
        matching = re.compile(pattern.encode())
    except re.error as error:
        raise UsageError(f"--filter {pattern!r} is no regular expression: {error}") from None
    subjects = wanted_subjects(settings, chosen)
    if stream and (chosen["subjects"] or chosen["js_metric"] or chosen["js_advisory"]):
        raise UsageError("--stream reads what the stream stores; give it alone, without subjects or kinds")
    with connected() as connection:
        if stream:
            source = _stored(make_jetstream(connection, effective(settings)), stream, since)
        else:
            source = _live(connection, subjects)
        shown = 0
        for message in source:
            event = read(message.data)
            if event is None or not matching.search(message.data):
                continue
            if cloudevent:
                emit_json_line(cloud_event(event))
            elif settings.json:
                emit_json_line(event)
            else:
                show(event, short=short)
            shown += 1
            if shown == count:
                return


def wanted_subjects(settings: Settings, chosen: dict[str, Any]) -> list[str]:
    """What to listen to."""
    every, named = chosen["everything"], list(chosen["subjects"])
    none_named = not (named or chosen["js_metric"] or chosen["js_advisory"] or chosen["srv_advisory"])
    prefix = settings.js_event_prefix.rstrip(".")
    made: list[str] = []
    for wanted, subject in ((chosen["js_advisory"], ADVISORY_PREFIX), (chosen["js_metric"], METRIC_PREFIX)):
        if every or wanted or none_named:
            made.append(f"{prefix}.{subject.rpartition('.')[2]}.>" if prefix else f"{subject}.>")
    if every or chosen["srv_advisory"]:
        made.extend(SERVER_SUBJECTS)
    return made + named


def _live(connection: Connection, subjects: list[str]) -> Iterator[Msg]:
    """Messages of several subjects as they come, through one queue."""
    import queue

    arrived: queue.SimpleQueue[Msg] = queue.SimpleQueue()
    for subject in subjects:
        connection.subscribe(subject, callback=arrived.put)
    connection.flush()
    # Said only now: whoever reads it may rely on not missing anything.
    for subject in subjects:
        note(f"Listening for events on {subject}")
    while True:
        yield arrived.get()


def _stored(js: JetStream, stream: str, since_ns: int | None) -> Iterator[Msg]:
    """The events a stream keeps, and those it will get."""
    options: dict[str, Any] = {"deliver_policy": "new"}
    if since_ns is not None:
        start_s = (now_ns() - since_ns) / SECOND_NS
        options = {"deliver_policy": "by_start_time", "opt_start_time": datetime.fromtimestamp(start_s, UTC)}
    note(f"Listening for events in stream {stream}")
    js.stream(stream)
    with js.ordered_consumer(stream, **options).consume() as messages:
        yield from messages
