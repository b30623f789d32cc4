"""Messages that make other messages, at a time or again and again.

A schedule is a stored message; what it makes is stored in the same stream. Nothing else is written down: after a
restart the times are reckoned from the messages again. Every firing stores a message, so the time of the stream's last
message tells up to when schedules have fired; one that was due later fires once, at once, however often it was due.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.error_codes import ApiError
from jetspark.api.message_ttl import parse_message_ttl
from jetspark.api.schedule import Schedule, parse_schedule
from jetspark.api.timestamps import parse_time
from jetspark.broker.bounds import bounded_time
from jetspark.broker.publish import MESSAGE_ID, ROLLUP, SCHEDULE, SCHEDULE_NEXT, SCHEDULER, TTL, Publish
from jetspark.broker.schedule_rules import PURGE, SCHEDULE_ROLLUP, SCHEDULE_TTL, SOURCE, TARGET, TIME_ZONE
from jetspark.broker.timers import Timer, TimerOwner
from jetspark.protocol import headers
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream

TIMER_DUE: Final = 1

# Firing disturbs the stream, so it is not done more often than this.
FIRE_STEP_NS: Final = 250_000_000
# A stream that would not take the message (its disk failed) is asked again after this.
RETRY_NS: Final = 10_000_000_000


class Entry:
    """A schedule that waits for its time."""

    def __init__(self, seq: i64, due_ns: i64) -> None:
        self.seq: i64 = seq
        self.due_ns: i64 = due_ns


def schedule_of(header: bytes, now_ns: int) -> Schedule | None:
    """The schedule a stored message is, None when it is none."""
    pattern = headers.find_value(header, SCHEDULE)
    if not pattern:
        return None
    zone = headers.find_value(header, TIME_ZONE)
    try:
        return parse_schedule(
            pattern.decode("utf-8", "replace"), None if zone is None else zone.decode("utf-8", "replace"), now_ns
        )
    except ApiError:
        return None


class Schedules(TimerOwner):
    """The schedules of one stream, one a subject."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._entries: dict[bytes, Entry] = {}
        # What subjects had before changes that are not durable: since the last commit was gathered, and in that one.
        self._changes: list[tuple[bytes, Entry | None]] = []
        self._changes_collected: list[tuple[bytes, Entry | None]] = []
        # Each with its subject; an entry that was changed since has another time.
        self._heap: list[tuple[int, int, bytes]] = []
        self._timer = Timer(self, TIMER_DUE)
        self._view = RecordView()

    # -- in and out ------------------------------------------------------------------------------------------------

    def stored(self, publish: Publish, seq: i64) -> None:
        """A message on a schedule's subject replaces the schedule, or ends it."""
        if publish.fires_ns > 0:
            self._set(publish.subject, seq, publish.fires_ns)
            return
        scheduler = publish.asks.get(SCHEDULER)
        if not scheduler:
            self._drop(publish.subject)
        elif publish.ends_schedule:
            self._drop(scheduler)

    def _drop(self, subject: bytes) -> None:
        entry = self._entries.pop(subject, None)
        if entry is not None:
            self._changes.append((subject, entry))

    def _set(self, subject: bytes, seq: i64, due_ns: i64) -> None:
        self._changes.append((subject, self._entries.get(subject)))
        self._entries[subject] = Entry(seq, due_ns)
        heappush(self._heap, (due_ns, seq, subject))
        self._arm()

    def _arm(self) -> None:
        if self._heap:
            broker = self._stream.broker
            due = max(self._heap[0][0], broker.now_ns + FIRE_STEP_NS)
            broker.timers.arm_if_earlier(self._timer, due)

    def forget(self) -> None:
        """Everything will be read again."""
        self._entries = {}
        self._heap = []
        self._changes = []

    def collected(self) -> None:
        self._changes_collected = self._changes
        self._changes = []

    def settled(self) -> None:
        self._changes_collected = []
        if self._stream.in_memory:
            self._changes = []

    def rolled_back(self) -> None:
        """The disk refused: every subject has the schedule it had."""
        for subject, entry in reversed(self._changes_collected + self._changes):
            if entry is None:
                self._entries.pop(subject, None)
            else:
                self._entries[subject] = entry
        self._changes_collected = []
        self._changes = []
        self._heap = []
        for subject, entry in self._entries.items():
            heappush(self._heap, (entry.due_ns, entry.seq, subject))
        self._arm()

    # -- firing ------------------------------------------------------------------------------------------------------

    def on_timer(self, kind: int, now_ns: i64) -> None:
        if self._stream.deleted:
            return
        due: list[tuple[int, int, bytes]] = []
        while self._heap and self._heap[0][0] <= now_ns:
            due_ns, seq, subject = heappop(self._heap)
            entry = self._entries.get(subject)
            if entry is not None and entry.seq == seq and entry.due_ns == due_ns:
                due.append((seq, due_ns, subject))
        due.sort()
        for seq, due_ns, subject in due:
            self._fire(subject, seq, due_ns, now_ns)
        self._arm()

    def timer_failed(self, error: Exception) -> None:
        self._stream.fail(error)

    def _fire(self, subject: bytes, seq: i64, due_ns: i64, now_ns: i64) -> None:
        stream = self._stream
        view = self._view
        schedule = schedule_of(view.header(), now_ns) if stream.store.view(seq, view) else None
        if schedule is None:
            # Deleted, or not a schedule after all.
            self._drop(subject)
            return
        following = schedule.next_fire_ns(due_ns, now_ns) if schedule.repeats else None
        message = self._make(subject, b"" if following is None else schedule.format_fire(following).encode())
        if message is None:
            self._drop(subject)
        elif not stream.store_own(message):
            self._set(subject, seq, now_ns + RETRY_NS)
        elif following is not None:
            self._set(subject, seq, bounded_time(following))

    def _make(self, subject: bytes, following: bytes) -> Publish | None:
        """The message a schedule makes: its own content or that of another subject, without what made it special."""
        stream = self._stream
        view = self._view
        own = view.header()
        target = headers.find_value(own, TARGET)
        lifetime = headers.find_value(own, SCHEDULE_TTL) or b""
        if not target or not is_lifetime(lifetime):
            return None
        source = headers.find_value(own, SOURCE)
        if source:
            last = stream.store.subject_last_seq(source)
            if last > 0:
                stream.store.view(last, view)
        lines = [(SCHEDULER, subject), (SCHEDULE_NEXT, following or PURGE)]
        if lifetime:
            lines.append((TTL, lifetime))
        rollup = headers.find_value(own, SCHEDULE_ROLLUP)
        if rollup:
            lines.append((ROLLUP, rollup))
        kept = headers.remove_headers(view.header(), [MESSAGE_ID, TTL, ROLLUP], [b"Nats-Schedule", b"Nats-Expected-"])
        message = Publish(target, b"", headers.append_headers(kept, lines), view.payload())
        if not following:
            message.ends_schedule = subject
        return message

    # -- restart -----------------------------------------------------------------------------------------------------

    def recover(self, view: RecordView) -> None:
        """A message with headers that was stored before; they come in order."""
        header = view.header()
        schedule = schedule_of(header, self._stream.broker.now_ns)
        alive_ns = self._stream.store.last_ts_ns
        if schedule is not None:
            due_ns = schedule.resumed_fire_ns(view.ts_ns, alive_ns)
            if due_ns is not None:
                self._entries[view.subject] = Entry(view.seq, max(bounded_time(due_ns), 1))
            return
        scheduler = headers.find_value(header, SCHEDULER)
        if not scheduler:
            self._entries.pop(view.subject, None)
            return
        entry = self._entries.get(scheduler)
        following = headers.find_value(header, SCHEDULE_NEXT)
        if entry is not None and following and following != PURGE:
            entry.due_ns = self._resume(entry, read_time(following), alive_ns)

    def _resume(self, entry: Entry, following_ns: i64, alive_ns: i64) -> i64:
        """The time after one that is written down, unless that one is yet to come."""
        if following_ns > alive_ns or not self._stream.store.view(entry.seq, self._view):
            return following_ns
        schedule = schedule_of(self._view.header(), self._stream.broker.now_ns)
        due_ns = schedule.resumed_fire_ns(following_ns, alive_ns) if schedule is not None else None
        return following_ns if due_ns is None else bounded_time(due_ns)

    def finish_recovery(self) -> None:
        """Schedules that a later message without headers has ended are dropped; the rest may fire."""
        store = self._stream.store
        for subject, entry in list(self._entries.items()):
            last = store.subject_last_seq(subject)
            if last != entry.seq and not (
                store.view(last, self._view) and headers.find_value(self._view.header(), SCHEDULER)
            ):
                del self._entries[subject]
            else:
                heappush(self._heap, (entry.due_ns, entry.seq, subject))
        self._arm()

    def take_over(self, before: Schedules) -> None:
        self._entries = before._entries
        self._heap = before._heap
        self._changes = before._changes
        self._changes_collected = before._changes_collected
        self._arm()

    def stop(self) -> None:
        self._stream.broker.timers.cancel(self._timer)


def read_time(text: bytes) -> int:
    """A time in a header of our own writing; 1, long past, for anything else."""
    try:
        return max(bounded_time(parse_time(text.decode("utf-8", "replace")).unix_ns), 1)
    except ValueError:
        return 1


def is_lifetime(text: bytes) -> bool:
    try:
        parse_message_ttl(text.decode("utf-8", "replace"))
    except ApiError:
        return False
    return True
