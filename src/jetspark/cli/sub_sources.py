"""Where `jetspark subscribe` gets its messages: core subscriptions, a stream's consumer, or gets without a consumer.

Decided here: how each of them is read one message at a time, and how replies find their requests. Not known here: what
is done with a message, and when there were enough.
"""

from __future__ import annotations

import contextlib
import queue
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from jetspark.cli.consumer_messages import next_of
from jetspark.cli.durations import SECOND_NS, now_ns
from jetspark.cli.errors import UsageError
from jetspark.cli.explain import no_stream_for
from jetspark.cli.messages import Direct, Shown
from jetspark.cli.names import pick_stream
from jetspark.errors import JetsparkError

if TYPE_CHECKING:
    from jetspark.sync import Connection, Consumer, JetStream, Msg, Stream

STARTS: Final = ("deliver_all", "deliver_new", "deliver_last", "last_per_subject", "start_sequence", "since")
# Requests without a reply yet, and replies without a request yet, that are kept; older ones are given up.
UNMATCHED_MAX: Final = 10_000
# Between two looks for a message that is not there yet: nothing tells when one comes that is only got.
LOOK_INTERVAL_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message, and by which of the subscriptions it came."""

    message: Shown
    pattern: str
    reply: Msg | None = None
    is_last: bool = False
    """The stream has no more."""


# Gives the next message, or None when none came in so many seconds.
Source = Callable[[float | None], Arrival | None]
Tell = Callable[[str], None]


def starts(options: dict[str, Any]) -> list[str]:
    """Which place to start at was named: one, or none."""
    chosen = [name for name in STARTS if options.get(name)]
    if len(chosen) > 1:
        raise UsageError("give one place to start: --all, --new, --last, --last-per-subject, --since, --start-sequence")
    return chosen


class Matcher:
    """Requests with their replies. They come by different ways, so that either may be the first."""

    def __init__(self) -> None:
        self._requests: OrderedDict[str, Arrival] = OrderedDict()
        self._replies: OrderedDict[str, Msg] = OrderedDict()

    def request(self, arrival: Arrival, reply_subject: str) -> Arrival | None:
        """A request came; what it is with its reply, when that is here."""
        reply = self._replies.pop(reply_subject, None)
        if reply is not None:
            return Arrival(arrival.message, arrival.pattern, reply)
        self._requests[reply_subject] = arrival
        if len(self._requests) > UNMATCHED_MAX:
            self._requests.popitem(last=False)
        return None

    def reply(self, message: Msg) -> Arrival | None:
        """A reply came; what it is with its request, when that is here."""
        arrival = self._requests.pop(message.subject, None)
        if arrival is not None:
            return Arrival(arrival.message, arrival.pattern, message)
        self._replies[message.subject] = message
        if len(self._replies) > UNMATCHED_MAX:
            self._replies.popitem(last=False)
        return None


@contextlib.contextmanager
def from_core(
    connection: Connection, subjects: list[str], queue_group: str, told: Tell, *, match_replies: bool
) -> Iterator[Source]:
    """One queue for all subjects."""
    arrived: queue.SimpleQueue[tuple[str, Msg]] = queue.SimpleQueue()

    def listen(subject: str, pattern: str, group: str) -> None:
        connection.subscribe(subject, queue=group, callback=lambda message: arrived.put((pattern, message)))

    matcher = Matcher() if match_replies else None
    if matcher is not None:
        inboxes = f"{connection.new_inbox().rpartition('.')[0]}.>"
        listen(inboxes, "", "")
        told(f"Matching replies with inbox prefix {inboxes}")
    for subject in subjects:
        listen(subject, subject, queue_group)
    connection.flush()
    group = f" in group {queue_group}" if queue_group else ""
    told(f"Subscribing on {', '.join(subjects)}{group}")

    def take(timeout_s: float | None) -> Arrival | None:
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            try:
                left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
                pattern, message = arrived.get(timeout=left_s)
            except queue.Empty:
                return None
            whole: Arrival | None = Arrival(message, pattern)
            if matcher is not None and not pattern:
                whole = matcher.reply(message)
            elif matcher is not None and message.reply and whole is not None:
                whole = matcher.request(whole, message.reply)
            if whole is not None:
                return whole

    yield take


@contextlib.contextmanager
def from_stream(js: JetStream, subjects: list[str], options: dict[str, Any], told: Tell) -> Iterator[Source]:
    """An ordered reader, the durable named, or gets: what is read once only must not be read by a consumer."""
    found = _stream_with(js, subjects, options["stream"])
    pattern = ", ".join(subjects) or found.name
    if options["durable"] and options["direct"]:
        raise UsageError("--direct uses no consumer: leave --durable out")
    if options["direct"] or (not options["durable"] and found.cached_info.config.retention != "limits"):
        told(f"Subscribing to stream {found.name} by direct gets{' for ' + pattern if subjects else ''}")
        yield _direct_source(found, subjects, options, pattern)
        return
    start = _start(options)
    if subjects or start.get("deliver_policy") == "last_per_subject":
        # The server wants to be told whose last messages are meant.
        start["filter_subjects"] = subjects or [">"]
    if options["durable"]:
        durable = _durable(found, options["durable"], start)
        told(f"Subscribing to stream {found.name} with durable {options['durable']}")
        # One at a time: a buffer would take more than is shown, and leave the rest unacknowledged.
        yield lambda timeout_s: _delivered(next_of(durable, timeout_s), pattern)
        return
    reader = found.ordered_consumer(**start)
    try:
        with reader.consume() as consuming:
            told(f"Subscribing to stream {found.name}{' for ' + pattern if subjects else ''}")
            yield lambda timeout_s: _delivered(consuming.next(timeout_s), pattern)
    finally:
        with contextlib.suppress(JetsparkError):
            reader.delete()


def _delivered(message: Msg | None, pattern: str) -> Arrival | None:
    return None if message is None else Arrival(message, pattern, is_last=message.metadata.pending_count == 0)


def _stream_with(js: JetStream, subjects: list[str], name: str | None) -> Stream:
    if name:
        return pick_stream(js, name)
    names = js.stream_names(subjects[0])
    if not names:
        raise no_stream_for(js, subjects[0])
    if len(names) > 1:
        raise UsageError(f"{subjects[0]} is in several streams: {', '.join(names)}", hint="Name one with --stream.")
    return js.stream(names[0])


def _since(options: dict[str, Any]) -> datetime:
    return datetime.fromtimestamp((now_ns() - options["since"]) / SECOND_NS, UTC)


def _start(options: dict[str, Any]) -> dict[str, Any]:
    """Where to begin; with a stream or durable alone, at its first message, as `nats` does."""
    chosen = starts(options)
    match chosen[0] if chosen else "":
        case "deliver_new":
            return {"deliver_policy": "new"}
        case "deliver_last":
            return {"deliver_policy": "last"}
        case "last_per_subject":
            return {"deliver_policy": "last_per_subject"}
        case "start_sequence":
            return {"opt_start_seq": options["start_sequence"]}
        case "since":
            return {"opt_start_time": _since(options)}
    return {"deliver_policy": "all"}


def _durable(found: Stream, name: str, start: dict[str, Any]) -> Consumer:
    """The durable of that name; made when it is not there."""
    from jetspark.client.api_errors import ConsumerNotFoundError

    try:
        return found.consumer(name)
    except ConsumerNotFoundError:
        return found.create_consumer(name, **start)


# Gets, one after another.


def _direct_source(found: Stream, subjects: list[str], options: dict[str, Any], pattern: str) -> Source:
    if len(subjects) > 1:
        raise UsageError("gets are for one subject, or for all of them", hint="Name one subject.")
    gets = _gets(found, subjects[0] if subjects else ">", options)

    def take(timeout_s: float | None) -> Arrival | None:
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while (message := next(gets)) is None:
            if deadline_s is not None and time.monotonic() >= deadline_s:
                return None
            time.sleep(LOOK_INTERVAL_S)
        return Arrival(message, pattern)

    return take


def _gets(found: Stream, subject: str, options: dict[str, Any]) -> Iterator[Direct | None]:
    """Message after message; None each time there is none yet."""
    from jetspark.client.api_errors import MessageNotFoundError

    chosen, state = starts(options), found.cached_info.state
    begin: datetime | None = None
    at = 1
    match chosen[0] if chosen else "":
        case "deliver_new":
            at = state.last_seq + 1
        case "deliver_last":
            at = max(1, state.last_seq)
        case "start_sequence":
            at = options["start_sequence"]
        case "since":
            begin = _since(options)
        case "last_per_subject":
            at = state.last_seq + 1
            subjects = found.info(subjects_filter=subject).state.subjects
            last = [found.get_msg(last_by_subject=one) for one in subjects]
            yield from (Direct(found.name, one) for one in sorted(last, key=lambda one: one.seq))
    while True:
        try:
            if begin is not None:
                stored = found.get_msg(start_time=begin, next_by_subject=subject, direct=False)
            else:
                stored = found.get_msg(at, next_by_subject=subject)
        except MessageNotFoundError:
            yield None
            continue
        begin, at = None, stored.seq + 1
        yield Direct(found.name, stored)
