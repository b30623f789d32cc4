"""Messages with a lifetime of their own (`Nats-TTL`), and the markers an expired subject leaves behind.

Deadlines are kept in memory, in a heap of (deadline, sequence); after a restart they are read again from the headers
of the messages that have any. The age limit of the whole stream is in `retention.py`, which asks here before it lets
a message go.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.error_codes import ApiError
from jetspark.api.message_ttl import NEVER, parse_message_ttl
from jetspark.api.timestamps import format_duration
from jetspark.broker.bounds import TIME_MAX_NS
from jetspark.broker.publish import ROLLUP, TTL, Publish
from jetspark.broker.timers import Timer, TimerOwner
from jetspark.protocol import headers
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream

MARKER_REASON: Final = b"Nats-Marker-Reason"

SECOND_NS: Final = 1_000_000_000

TIMER_EXPIRY: Final = 1

# Deadlines are looked at no more often than this, and no more messages go in one turn than this.
EXPIRY_STEP_NS: Final = 10_000_000
EXPIRED_PER_TURN: Final = 4096
# Deadlines of messages that are long gone are swept out when they outnumber the living by this.
SLACK: Final = 4096


def lifetime_of(header: bytes) -> int:
    """The lifetime a stored header block asks for, 0 when it makes no sense."""
    value = headers.find_value(header, TTL)
    if not value:
        return 0
    try:
        return parse_message_ttl(value.decode("utf-8", "replace"))
    except ApiError:
        return 0


def is_marker(header: bytes) -> bool:
    """Does this message already say that its subject is gone?"""
    return bool(headers.find_value(header, MARKER_REASON)) or headers.find_value(header, b"KV-Operation") == b"PURGE"


class Lifetimes(TimerOwner):
    """The lifetimes of one stream's messages."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._counts_down: bool = stream.config.allow_msg_ttl
        self._marker_ttl_s: int = stream.config.subject_delete_marker_ttl // SECOND_NS
        self._deadlines: list[tuple[int, int]] = []
        # Deadlines of messages whose removal is not durable: since the last commit was gathered, and in that one.
        self._gone: list[tuple[int, int]] = []
        self._gone_collected: list[tuple[int, int]] = []
        self._timer = Timer(self, TIMER_EXPIRY)
        self._view = RecordView()

    def settle(self, publish: Publish) -> None:
        """With markers a lifetime is at least the marker's own, or a marker could outlive what it speaks about.
        A stream of one message a subject is excepted: there the marker replaces the message."""
        if self._marker_ttl_s <= 0 or self._stream.config.max_msgs_per_subject == 1:
            return
        if 0 < publish.lifetime_s < self._marker_ttl_s:
            publish.lifetime_s = self._marker_ttl_s
            kept = headers.remove_headers(publish.header, [TTL], [])
            publish.header = headers.append_headers(kept, [(TTL, b"%d" % self._marker_ttl_s)])

    def stored(self, seq: i64, lifetime_s: int) -> None:
        if self._counts_down:
            self._register(seq, self._stream.store.last_ts_ns, lifetime_s)

    def _register(self, seq: i64, ts_ns: i64, lifetime_s: int) -> None:
        deadline: int = int(ts_ns) + lifetime_s * SECOND_NS
        if deadline >= TIME_MAX_NS:
            # Centuries away.
            return
        if len(self._deadlines) > 2 * self._stream.store.message_count + SLACK:
            self._sweep()
        heappush(self._deadlines, (deadline, seq))
        self._arm()

    def _arm(self) -> None:
        broker = self._stream.broker
        # A disk that failed is left alone for a while.
        soonest = max(broker.now_ns + EXPIRY_STEP_NS, self._stream.failed_until_ns)
        due: i64 = max(self._deadlines[0][0], soonest)
        broker.timers.arm_if_earlier(self._timer, due)

    def _sweep(self) -> None:
        store = self._stream.store
        kept: list[tuple[int, int]] = []
        for entry in self._deadlines:
            (kept if store.is_live(entry[1]) else self._gone).append(entry)
        heapify(kept)
        self._deadlines = kept

    def forget(self) -> None:
        """Everything will be read again."""
        self._deadlines = []
        self._gone = []

    def collected(self) -> None:
        self._gone_collected = self._gone
        self._gone = []

    def settled(self) -> None:
        self._gone_collected = []
        if self._stream.in_memory:
            self._gone = []

    def rolled_back(self, last_seq: i64) -> None:
        """The disk refused what was stored after this sequence, and what was removed since is back."""
        again = self._deadlines + self._gone_collected + self._gone
        self._deadlines = [entry for entry in again if entry[1] <= last_seq]
        heapify(self._deadlines)
        self._gone_collected = []
        self._gone = []
        if self._deadlines:
            self._arm()

    def recover(self, view: RecordView) -> None:
        """A message with headers found on disk."""
        if self._counts_down:
            lifetime_s = lifetime_of(view.header())
            if lifetime_s > 0:
                self._register(view.seq, view.ts_ns, lifetime_s)

    def take_over(self, before: Lifetimes) -> None:
        self._deadlines = before._deadlines
        self._gone = before._gone
        self._gone_collected = before._gone_collected
        if self._deadlines:
            self._arm()

    def stop(self) -> None:
        self._stream.broker.timers.cancel(self._timer)

    # -- the end -------------------------------------------------------------------------------------------------

    def on_timer(self, kind: int, now_ns: i64) -> None:
        stream = self._stream
        if stream.deleted:
            return
        due: list[int] = []
        while self._deadlines and self._deadlines[0][0] <= now_ns and len(due) < EXPIRED_PER_TURN:
            entry = heappop(self._deadlines)
            due.append(entry[1])
            self._gone.append(entry)
        # In the order they were published: the last of a subject must be the last to go.
        due.sort()
        for seq in due:
            if stream.store.view(seq, self._view) and not self._leave_marker(self._view):
                stream.remove(seq, False)
        if self._deadlines:
            self._arm()

    def timer_failed(self, error: Exception) -> None:
        self._stream.fail(error)

    def expire(self, view: RecordView) -> bool:
        """The stream's age limit has come for a message: True when it stays, or has given way to a marker."""
        if view.header_size > 0:
            header = view.header()
            if lifetime_of(header) == NEVER:
                return True
        return self._leave_marker(view)

    def _leave_marker(self, view: RecordView) -> bool:
        """The last message of a subject gives way to a marker, which rolls it up."""
        if self._marker_ttl_s <= 0:
            return False
        stream = self._stream
        state = stream.store.subjects.get(view.subject)
        if state is None or state.message_count != 1:
            return False
        if view.header_size > 0 and is_marker(view.header()):
            return False
        lifetime = format_duration(self._marker_ttl_s * SECOND_NS).encode()
        block = headers.build([(MARKER_REASON, b"MaxAge"), (TTL, lifetime), (ROLLUP, b"sub")])
        return stream.store_own(Publish(view.subject, b"", block, b""))
