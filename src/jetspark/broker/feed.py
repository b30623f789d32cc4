"""One origin's messages on their way into another stream of the same account: what mirrors and sources share.

A feed reads the origin's store directly, never beyond what is durable there, some hundred messages a turn, and stops
when the stream it fills is too far ahead of its disk or refuses a message; then it tries again. An origin that keeps
messages only as long as somebody needs them is told when their copies are durable.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import i64

from jetspark.api import responses
from jetspark.api.error_codes import ErrorCode, make
from jetspark.api.stream_config import StreamSource
from jetspark.broker.timers import Timer, TimerOwner
from jetspark.broker.transforms import SubjectRewriter
from jetspark.protocol import headers
from jetspark.protocol.subjects import SubjectFilter
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream

TIMER_PUMP: Final = 1

COPIED_PER_TURN: Final = 512
# How much may wait for the disk before the feed waits too.
AHEAD_BYTES_MAX: Final = 16 * 1024 * 1024
# A stream that refused a message is offered it again after this.
RETRY_NS: Final = 2_000_000_000
# An origin that is not there may be on its way; only then is it missing.
LOOK_AGAIN_NS: Final = 200_000_000
# What two servers would tell each other when there is nothing to tell; seen in the age of a feed's last news.
HEARTBEAT_NS: Final = 1_000_000_000


class Feed(TimerOwner):
    """Fills a stream from an origin."""

    def __init__(self, stream: Stream, config: StreamSource) -> None:
        self.stream = stream
        self.config = config
        self.origin: Stream | None = None
        # The origin's sequence that was taken over last, and where to look next.
        self.position: i64 = 0
        self._next_seq: i64 = 1
        self._is_prepared: bool = False
        # Until it has looked for its origin, a feed has nothing to say about it.
        self._has_looked: bool = False
        self._is_refused: bool = False
        self._heard_ns: i64 = 0
        self._ahead_bytes: i64 = 0
        self._timer = Timer(self, TIMER_PUMP)
        self._view = RecordView()
        # Copies that are not durable yet, of an origin that waits for them: its sequence and ours.
        self._unsettled: deque[tuple[int, int]] = deque()
        patterns = [transform.src or ">" for transform in config.subject_transforms]
        if config.filter_subject:
            patterns.append(config.filter_subject)
        self.wanted = SubjectFilter([pattern.encode() for pattern in patterns])
        self._rewriters: list[SubjectRewriter] = [
            SubjectRewriter(stream.broker, transform.src, transform.dest)
            for transform in config.subject_transforms
            if transform.dest
        ]

    # -- what differs ----------------------------------------------------------------------------------------------

    def _prepare(self, origin: Stream) -> None:
        """Find where to start: set `_next_seq`."""
        raise NotImplementedError

    def _take(self, view: RecordView) -> bool:
        """Store a copy; False when the stream refuses it."""
        raise NotImplementedError

    # -- the origin ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        jetstream = self.stream.account.jetstream
        jetstream.followers.of(self.config.name).append(self)
        origin = jetstream.streams.get(self.config.name)
        if origin is not None:
            self.origin_appeared(origin)
        else:
            self.stream.broker.timers.arm(self._timer, self.stream.broker.now_ns + LOOK_AGAIN_NS)

    def origin_appeared(self, origin: Stream) -> None:
        if self.is_foreign():
            return
        self.origin = origin
        self._is_prepared = False
        self._go_on_soon()

    def origin_gone(self) -> None:
        self._beat()
        self.origin = None
        self._unsettled.clear()

    def is_foreign(self) -> bool:
        """Is the origin of another account or domain, which cannot be reached from here?"""
        external = self.config.external
        if external is None:
            return False
        domain = self.stream.broker.options.domain
        return not domain or external.api != f"$JS.{domain}.API"

    def stop(self) -> None:
        self.stream.broker.timers.cancel(self._timer)
        followers = self.stream.account.jetstream.followers.of(self.config.name)
        if self in followers:
            followers.remove(self)
        if self.origin is not None and self.origin.keeps_by_interest and not self.origin.deleted:
            self.origin.retention.interest_changed()
        self.origin = None

    def needs(self, seq: i64) -> bool:
        """Must the origin keep this message for us?"""
        settled: i64 = self._next_seq - 1
        if self._unsettled:
            settled = self._unsettled[0][0] - 1
        return not self._is_prepared or seq > settled

    # -- copying ---------------------------------------------------------------------------------------------------

    def _go_on_soon(self) -> None:
        broker = self.stream.broker
        broker.timers.arm(self._timer, broker.now_ns)

    def on_timer(self, kind: int, now_ns: i64) -> None:
        self._is_refused = False
        self._has_looked = True
        self.pump()

    def timer_failed(self, error: Exception) -> None:
        self.stream.fail(error)

    def origin_visible(self) -> None:
        """The origin has something new."""
        if self._is_prepared and not self._is_refused:
            self.pump()

    def pump(self) -> None:
        try:
            self._copy()
        except OSError as error:
            origin = self.origin
            if origin is not None:
                origin.read_failed(error)
            self._is_refused = True
            self.stream.broker.timers.arm(self._timer, self.stream.broker.now_ns + RETRY_NS)

    def _copy(self) -> None:
        origin = self.origin
        stream = self.stream
        if origin is None or stream.deleted or origin.deleted:
            return
        if not self._is_prepared:
            self._prepare(origin)
            self._is_prepared = True
            self._beat()
            self._own_up_to(origin)
        view = self._view
        upto = origin.store.visible_seq
        for _ in range(COPIED_PER_TURN):
            if self._ahead_bytes > AHEAD_BYTES_MAX:
                return
            seq = origin.store.next_match(self._next_seq, upto, self.wanted, view)
            if seq == 0:
                self._next_seq = max(self._next_seq, upto + 1)
                return
            if not self._take(view):
                self._is_refused = True
                stream.broker.timers.arm(self._timer, stream.broker.now_ns + RETRY_NS)
                return
            self._took(origin, seq, view)
        self._go_on_soon()

    def _took(self, origin: Stream, seq: i64, view: RecordView) -> None:
        self.position = seq
        self._next_seq = seq + 1
        self._heard_ns = self.stream.broker.now_ns
        self._ahead_bytes += view.raw_size()
        if origin.keeps_by_interest:
            self._unsettled.append((seq, self.stream.store.last_seq))

    def copied_subject(self, subject: bytes) -> bytes:
        for rewriter in self._rewriters:
            rewritten = rewriter.rewrite(subject)
            if rewritten:
                return rewritten
        return subject

    def copied_header(self, view: RecordView, others: list[bytes]) -> bytes:
        """The header block without what only the origin could check."""
        if view.header_size == 0:
            return b""
        header = view.header()
        if b"\r\nNats-" not in header:
            return header
        return headers.remove_headers(header, others, [b"Nats-Expected-", b"Nats-Batch-"])

    # -- copies become durable -------------------------------------------------------------------------------------

    def visible(self, own_seq: i64) -> None:
        """Our stream is durable up to here."""
        was_ahead = self._ahead_bytes > AHEAD_BYTES_MAX
        self._ahead_bytes = 0
        origin = self.origin
        unsettled = self._unsettled
        while unsettled and unsettled[0][1] <= own_seq:
            seq = unsettled.popleft()[0]
            if origin is not None:
                origin.retention.consumed(seq)
        if was_ahead:
            self._go_on_soon()

    def _own_up_to(self, origin: Stream) -> None:
        """Copies of an earlier life, whose originals are still there: they count when our stream is durable."""
        if not origin.keeps_by_interest:
            return
        store = self.stream.store
        seq = origin.store.next_match(1, self.position, self.wanted, self._view)
        while seq > 0:
            self._unsettled.append((seq, store.last_seq))
            seq = origin.store.next_match(seq + 1, self.position, self.wanted, self._view)
        if store.visible_seq >= store.last_seq:
            self.visible(store.last_seq)

    def rolled_back(self) -> None:
        """The disk refused our last copies: find out again what there is, and go on from there."""
        self._is_prepared = False
        self._ahead_bytes = 0
        self._unsettled.clear()
        self._is_refused = True
        self.stream.broker.timers.arm(self._timer, self.stream.broker.now_ns + RETRY_NS)

    # -- news ------------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        """News of the origin are never older than a heartbeat while it is there."""
        now_ns = self.stream.broker.now_ns
        if self.origin is not None:
            if self._heard_ns == 0:
                self._heard_ns = now_ns
            self._heard_ns = now_ns - (now_ns - self._heard_ns) % HEARTBEAT_NS

    def info(self) -> dict[str, Any]:
        """How far the copying has come."""
        config = self.config
        origin = self.origin
        is_source = self.stream.config.mirror is None
        shows_filter = is_source or self._has_looked
        lag = 0
        if origin is not None and self._is_prepared:
            self._beat()
            lag = origin.store.count_match(self._next_seq, self.wanted)
        external: dict[str, Any] | None = None
        if config.external is not None:
            external = {"api": config.external.api, "deliver": config.external.deliver}
        return responses.source_info(
            config.name,
            lag=lag,
            active_ns=self.stream.broker.now_ns - self._heard_ns if self._heard_ns > 0 else -1,
            seq=self.position if is_source else 0,
            external=external,
            error=make(ErrorCode.STREAM_NOT_FOUND) if origin is None and self._has_looked else None,
            filter_subject=config.filter_subject if shows_filter else "",
            subject_transforms=[{"src": each.src, "dest": each.dest} for each in config.subject_transforms],
        )
