"""A stream on its way out: its archive, sent chunk by chunk to whoever asked for it.

Decided here: what goes into the archive, how much may be unconfirmed, and when a receiver is given up. Messages are
read as they are sent, a little each turn, so a large stream neither fills the memory nor holds up the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import i64

from jetspark.api import advisories
from jetspark.api.requests import SnapshotRequest
from jetspark.api.responses import encode_json
from jetspark.api.stream_state import StreamState
from jetspark.broker import advisories as announcements
from jetspark.broker.info import client_document
from jetspark.broker.interest import Route
from jetspark.broker.timers import Timer, TimerOwner
from jetspark.broker.transfer import archive, s2_frames
from jetspark.protocol import headers
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.broker.restores import Restores
    from jetspark.broker.session import Session
    from jetspark.broker.stream import Stream

TIMER_GO_ON: Final = 1

SECOND_NS: Final = 1_000_000_000
FLOW_TIMEOUT_NS: Final = 5 * SECOND_NS
# The receiver may still be on its way to subscribe.
INTEREST_GRACE_NS: Final = 2 * SECOND_NS
# Tools subscribe to the very subject only when they have the answer; until then their wildcard for replies would take
# the chunks and drop them. Whoever has nothing but a wildcard is served after this.
WILDCARD_GRACE_NS: Final = SECOND_NS // 5
SOON_NS: Final = 2_000_000
# What is read and framed in one turn.
TURN_BYTES: Final = s2_frames.CHUNK_SIZE

FINISHED: Final = headers.status_block(204, b"", [])


def consumer_entry(consumer: Consumer) -> dict[str, Any]:
    """What an archive says of a consumer."""
    state = consumer.state
    document: dict[str, Any] = {
        "delivered": {"consumer_seq": state.delivered_consumer_seq, "stream_seq": state.delivered_stream_seq},
        "ack_floor": {"consumer_seq": state.floor_consumer_seq, "stream_seq": state.floor_stream_seq},
    }
    if state.pending:
        document["pending"] = {
            str(seq): {"Sequence": entry.consumer_seq, "Timestamp": entry.delivered_ts_ns}
            for seq, entry in state.pending.items()
        }
    if state.redelivered:
        # Archives count the deliveries after the first.
        document["redelivered"] = {str(seq): max(count - 1, 0) for seq, count in state.redelivered.items()}
    return {"config": consumer.config.encode(), "state": document}


def is_named(route: Route, subject: bytes) -> bool:
    """Does a subscription name this subject itself, rather than through a wildcard?"""
    for subscription in route.plain:
        if subscription.subject == subject:
            return True
    for members in route.queues:
        for member in members:
            if member.subject == subject:
                return True
    return False


class Snapshot(TimerOwner):
    """One archive on its way out."""

    def __init__(
        self, restores: Restores, stream: Stream, session: Session, request: SnapshotRequest, state: StreamState
    ) -> None:
        broker = stream.broker
        self._restores = restores
        self._stream = stream
        self._client = client_document(session)
        self._subject = request.deliver_subject.encode()
        self._chunk_size: i64 = request.chunk_bytes
        self._chunks_max: i64 = max(request.window_bytes // request.chunk_bytes, 1)
        self._started_ns: i64 = broker.now_ns
        self._progress_ns: i64 = broker.now_ns
        self._seq: i64 = stream.store.first_seq
        self._until_seq: i64 = stream.store.last_seq
        self._is_read: bool = False
        # Archive bytes that are not framed yet, and framed ones that do not fill a chunk yet.
        self._unframed: list[bytes] = []
        self._ready: bytes = s2_frames.START
        self._sent_count: i64 = 0
        self._confirmed_count: i64 = 0
        self._view = RecordView()
        self._timer = Timer(self, TIMER_GO_ON)
        self.key: str = f"{stream.name}.{broker.nuid.next()}"
        self._put_documents(state, request.no_consumers)

    def _put_documents(self, state: StreamState, without_consumers: bool) -> None:
        now_ns = self._stream.broker.now_ns
        parts = self._unframed
        parts.append(archive.MAGIC)
        parts.append(archive.encode_entry(archive.STATE_NAME, now_ns, 0, b"", encode_json(state.encode())))
        if not without_consumers:
            for name in sorted(self._stream.consumers):
                consumer = self._stream.consumers[name]
                if not consumer.config.direct:
                    document = encode_json(consumer_entry(consumer))
                    entry_name = archive.CONSUMER_PREFIX + name.encode()
                    parts.append(archive.encode_entry(entry_name, now_ns, 0, b"", document))

    def start(self, state: StreamState) -> None:
        account = self._stream.account
        if announcements.is_heard(account, f"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_CREATE.{self._stream.name}"):
            stamp = announcements.stamp(account)
            event = advisories.snapshot_create(stamp, stream=self._stream.name, state=state, client=self._client)
            announcements.announce(account, event)
        self._come_back(self._stream.broker.now_ns)

    def _come_back(self, at_ns: i64) -> None:
        self._stream.broker.timers.arm(self._timer, at_ns)

    def on_timer(self, kind: int, now_ns: i64) -> None:
        self._go_on()

    def timer_failed(self, error: Exception) -> None:
        self._stream.broker.failed(f"Snapshot of stream {self._stream.name} is given up", error)
        self._restores.forget_snapshot(self)

    def confirmed(self) -> None:
        """The receiver has one more chunk."""
        self._confirmed_count += 1
        self._progress_ns = self._stream.broker.now_ns
        self._go_on()

    # -- sending -----------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Send what may be sent now; come back for the rest."""
        stream = self._stream
        now_ns = stream.broker.now_ns
        if stream.deleted:
            self._end(headers.status_block(500, b"stream deleted", []), "stream deleted")
            return
        if not self._may_send(now_ns):
            return
        budget: i64 = TURN_BYTES
        while self._sent_count - self._confirmed_count < self._chunks_max:
            if len(self._ready) < self._chunk_size and not self._is_read:
                if budget <= 0:
                    self._come_back(now_ns)
                    return
                try:
                    budget -= self._read()
                except OSError as error:
                    stream.read_failed(error)
                    reason = f"stored message cannot be read: {error.strerror or error}"
                    self._end(headers.status_block(500, reason.encode("utf-8", "replace"), []), reason)
                    return
            elif len(self._ready) >= self._chunk_size:
                self._send_chunk()
            else:
                self._send_last()
                return
        if now_ns - self._progress_ns >= FLOW_TIMEOUT_NS:
            self._end(headers.status_block(408, b"No Flow Response", []), "no flow response")
        else:
            self._come_back(self._progress_ns + FLOW_TIMEOUT_NS)

    def _may_send(self, now_ns: i64) -> bool:
        """Is somebody there to receive, and is everything durable that will be sent? If not yet, look again soon."""
        store = self._stream.store
        route = self._stream.account.interest.route(self._subject)
        waited_ns = now_ns - self._started_ns
        if not route.has_subscribers:
            if self._sent_count > 0 or waited_ns >= INTEREST_GRACE_NS:
                self._end(headers.status_block(408, b"No Interest", []), "no interest")
                return False
        elif self._sent_count > 0 or waited_ns >= WILDCARD_GRACE_NS or is_named(route, self._subject):
            if self._until_seq <= store.visible_seq or self._until_seq > store.last_seq:
                return True
        self._come_back(now_ns + SOON_NS)
        return False

    def _read(self) -> i64:
        """Frame some more messages; returns how many bytes they were."""
        store = self._stream.store
        view = self._view
        parts = self._unframed
        self._unframed = []
        size: i64 = 0
        while size < s2_frames.CHUNK_SIZE:
            seq = store.next_live(self._seq)
            if seq == 0 or seq > self._until_seq:
                parts.append(archive.END)
                self._is_read = True
                break
            self._seq = seq + 1
            if store.view(seq, view):
                entry = archive.encode_entry(view.subject, view.ts_ns, seq, view.header(), view.payload())
                parts.append(entry)
                size += len(entry)
        self._ready += s2_frames.encode_frames(b"".join(parts))
        return size

    def _send_chunk(self) -> None:
        self._sent_count += 1
        reply = f"$JS.SNAPSHOT.ACK.{self.key}.{self._chunk_size}.{self._sent_count}"
        chunk = self._ready[: self._chunk_size]
        self._ready = self._ready[self._chunk_size :]
        self._stream.account.publish_internal(self._subject, reply.encode(), 0, chunk)

    def _send_last(self) -> None:
        if self._ready:
            self._stream.account.publish_internal(self._subject, b"", 0, self._ready)
        # The receiver of a single chunk expects the end without a status.
        self._end(FINISHED if self._sent_count > 0 else b"", "")

    def _end(self, block: bytes, error: str) -> None:
        account = self._stream.account
        account.publish_internal(self._subject, b"", len(block), block)
        self._stream.broker.timers.cancel(self._timer)
        self._restores.forget_snapshot(self)
        if announcements.is_heard(account, f"$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.{self._stream.name}"):
            event = advisories.snapshot_complete(
                announcements.stamp(account),
                stream=self._stream.name,
                start_ns=self._started_ns,
                end_ns=self._stream.broker.now_ns,
                client=self._client,
                error=error,
            )
            announcements.announce(account, event)
