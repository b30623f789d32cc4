"""`jetspark subscribe`: show messages as they come, from core NATS or from a stream.

Decided here: which options mean a stream is read. Without --durable the stream is read in order by a consumer that
leaves nothing behind; with it, a durable is made or used and its messages are acknowledged.
"""

from __future__ import annotations

import contextlib
import queue
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from jetspark.cli.connect import jetstream
from jetspark.cli.consumer_messages import next_of
from jetspark.cli.context import Command, Settings, pass_settings
from jetspark.cli.durations import DURATION, SECOND_NS, human_count, now_ns
from jetspark.cli.errors import UsageError
from jetspark.cli.explain import no_stream_for
from jetspark.cli.messages import Printer, raw_option, translate_option
from jetspark.cli.names import complete_stream, pick_stream
from jetspark.cli.output import emit_json, note, show_table
from jetspark.cli.stream_options import split_words
from jetspark.errors import JetsparkError

if TYPE_CHECKING:
    from jetspark.sync import Connection, Consumer, JetStream, Msg, Stream

# Gives the next message, or None when none came in so many seconds.
Source = Callable[[float | None], "Msg | None"]
STARTS = ("deliver_all", "deliver_new", "deliver_last", "last_per_subject", "start_sequence", "since")


@click.command("subscribe", cls=Command)
@click.argument("subjects", nargs=-1)
@click.option("--queue", "queue_group", default="", help="Join a queue group: each message goes to one member")
@click.option("--inbox", "-i", is_flag=True, help="Subscribe to a new inbox subject")
@click.option("--stream", shell_complete=complete_stream, help="Read from this stream")
@click.option("--durable", default="", metavar="NAME", help="Use a durable consumer, made when it is not there")
@click.option("--all", "deliver_all", is_flag=True, help="From the stream's first message on")
@click.option("--new", "deliver_new", is_flag=True, help="Only messages to come, from the stream")
@click.option("--last", "deliver_last", is_flag=True, help="From the stream's last message on")
@click.option("--last-per-subject", is_flag=True, help="From each subject's last message on")
@click.option("--since", type=DURATION, help="From so long ago on, like 1d3h5m2s")
@click.option("--start-sequence", type=int, help="From this stream sequence on")
@click.option("--ack/--no-ack", default=None, help="Acknowledge messages that want it")
@click.option("--terminate-at-end", "-T", is_flag=True, help="End once everything in the stream was shown")
@click.option("--count", type=int, default=0, help="End after so many messages")
@click.option("--wait", type=DURATION, help="End after so long without a message")
@raw_option
@translate_option
@click.option("--headers-only", is_flag=True, help="Show headers and no data")
@click.option("--subjects-only", is_flag=True, help="Show only the subjects")
@click.option("--timestamp", "-t", is_flag=True, help="Show when each message came")
@click.option("--delta-time", "-d", is_flag=True, help="Show the time since the start")
@click.option("--dump", metavar="FOLDER", help="A file for each message; - writes data and a zero byte to stdout")
@click.option("--ignore-subject", "-I", "ignored", multiple=True, metavar="SUBJECT", help="Leave these out")
@click.option("--report-subjects", is_flag=True, help="Count messages by subject and show the counts at the end")
@click.option("--report-top", type=int, default=10, show_default=True, help="How many subjects the report shows")
@pass_settings
def subscribe(
    settings: Settings,
    /,
    subjects: tuple[str, ...],
    inbox: bool,
    count: int,
    wait: int | None,
    ignored: tuple[str, ...],
    report_subjects: bool,
    report_top: int,
    ack: bool | None,
    terminate_at_end: bool,
    **options: Any,
) -> None:
    """Show the messages of SUBJECTS as they come; end with Ctrl-C.

    \b
    jetspark sub 'ORDERS.*'
    jetspark sub --stream ORDERS --all -T
    """
    printer = Printer(
        as_json=settings.json,
        **{name: options.pop(name) for name in ("raw", "headers_only", "subjects_only", "timestamp", "delta_time")},
        **{name: options.pop(name) for name in ("translate", "dump")},
    )
    wanted = split_words(subjects)
    with jetstream() as js:
        if inbox:
            wanted.append(js.connection.new_inbox())
            note(f"Subscribing on {wanted[-1]}")
        if not wanted and not options.get("stream"):
            raise UsageError("missing SUBJECTS", hint="Name a subject, --stream or --inbox.")
        is_stream = bool(options["stream"] or options["durable"] or _starts(options))
        told = _nothing if printer.is_bare else note
        if is_stream:
            reading = _from_stream(js, wanted, options, told)
        else:
            reading = _from_core(js.connection, wanted, options, told)
        counts: Counter[str] = Counter()
        with reading as source:
            for message in _messages(source, count, wait, ignored, at_end=terminate_at_end and is_stream):
                counts[message.subject] += 1
                if not report_subjects:
                    printer.show(message)
                if message.is_jetstream and (ack or (ack is None and options["durable"])):
                    message.ack(wait=True)
    if report_subjects:
        _report(counts, report_top, settings)


def _nothing(text: str) -> None:
    """Where a script reads, the doing is not told."""


def _starts(options: dict[str, Any]) -> list[str]:
    chosen = [name for name in STARTS if options.get(name)]
    if len(chosen) > 1:
        raise UsageError("give one place to start: --all, --new, --last, --last-per-subject, --since, --start-sequence")
    return chosen


def _messages(source: Source, count: int, wait: int | None, ignored: tuple[str, ...], *, at_end: bool) -> Iterator[Msg]:
    """Until there were enough, none came for a while, or the stream's end is reached."""
    from jetspark.protocol.subjects import matches

    shown = 0
    wait_s = None if wait is None else wait / SECOND_NS
    # At the end of a stream nothing more comes; half a second of silence tells an empty one.
    while (message := source(0.5 if at_end and wait_s is None else wait_s)) is not None:
        is_last = at_end and message.metadata.pending_count == 0
        if not any(matches(pattern.encode(), message.subject_bytes) for pattern in ignored):
            shown += 1
            yield message
        if is_last or (count and shown >= count):
            return


@contextlib.contextmanager
def _from_core(
    connection: Connection, subjects: list[str], options: dict[str, Any], told: Callable[[str], None]
) -> Iterator[Source]:
    """One queue for all subjects."""
    arrived: queue.SimpleQueue[Msg] = queue.SimpleQueue()
    for subject in subjects:
        connection.subscribe(subject, queue=options["queue_group"], callback=arrived.put)
    connection.flush()
    group = f" in group {options['queue_group']}" if options["queue_group"] else ""
    told(f"Subscribing on {', '.join(subjects)}{group}")

    def take(timeout_s: float | None) -> Msg | None:
        try:
            return arrived.get(timeout=timeout_s)
        except queue.Empty:
            return None

    yield take


@contextlib.contextmanager
def _from_stream(
    js: JetStream, subjects: list[str], options: dict[str, Any], told: Callable[[str], None]
) -> Iterator[Source]:
    """An ordered reader, or the durable named."""
    found = _stream_with(js, subjects, options["stream"])
    start = _start(options)
    if subjects or start.get("deliver_policy") == "last_per_subject":
        # The server wants to be told whose last messages are meant.
        start["filter_subjects"] = subjects or [">"]
    if options["durable"]:
        durable = _durable(found, options["durable"], start)
        told(f"Subscribing to stream {found.name} with durable {options['durable']}")
        # One at a time: a buffer would take more than is shown, and leave the rest unacknowledged.
        yield lambda timeout_s: next_of(durable, timeout_s)
        return
    reader = found.ordered_consumer(**start)
    try:
        with reader.consume() as consuming:
            told(f"Subscribing to stream {found.name}{' for ' + ', '.join(subjects) if subjects else ''}")
            yield consuming.next
    finally:
        with contextlib.suppress(JetsparkError):
            reader.delete()


def _stream_with(js: JetStream, subjects: list[str], name: str | None) -> Stream:
    if name:
        return pick_stream(js, name)
    names = js.stream_names(subjects[0])
    if not names:
        raise no_stream_for(js, subjects[0])
    if len(names) > 1:
        raise UsageError(f"{subjects[0]} is in several streams: {', '.join(names)}", hint="Name one with --stream.")
    return js.stream(names[0])


def _start(options: dict[str, Any]) -> dict[str, Any]:
    """Where to begin; with a stream or durable alone, at messages to come, as `nats` does."""
    chosen = _starts(options)
    match chosen[0] if chosen else "":
        case "deliver_all":
            return {"deliver_policy": "all"}
        case "deliver_last":
            return {"deliver_policy": "last"}
        case "last_per_subject":
            return {"deliver_policy": "last_per_subject"}
        case "start_sequence":
            return {"opt_start_seq": options["start_sequence"]}
        case "since":
            return {"opt_start_time": datetime.fromtimestamp((now_ns() - options["since"]) / SECOND_NS, UTC)}
    return {"deliver_policy": "new" if chosen else "all"}


def _durable(found: Stream, name: str, start: dict[str, Any]) -> Consumer:
    """The durable of that name; made when it is not there."""
    from jetspark.client.api_errors import ConsumerNotFoundError

    try:
        return found.consumer(name)
    except ConsumerNotFoundError:
        return found.create_consumer(name, **start)


def _report(counts: Counter[str], top: int, settings: Settings) -> None:
    if settings.json:
        emit_json(dict(counts.most_common(top)))
        return
    rows = [(subject, human_count(number)) for subject, number in counts.most_common(top)]
    show_table("Subjects", ("Subject", "Messages"), rows, right=("Messages",), empty="No messages came")
