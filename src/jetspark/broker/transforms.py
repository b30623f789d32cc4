"""Subjects that change on their way: the stream's own transform, and republishing what was stored.

A stored message is republished when it is durable, never earlier. How a transform is written is the `api` room's.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api.stream_config import RePublish
from jetspark.api.subject_transform import SubjectTransformer
from jetspark.api.timestamps import format_time
from jetspark.protocol import headers
from jetspark.protocol.subjects import is_literal, is_valid_subject

if TYPE_CHECKING:
    from jetspark.broker.broker import Broker
    from jetspark.broker.publish import Publish
    from jetspark.broker.stream import Stream

REMEMBERED_MAX: Final = 16384


class SubjectRewriter:
    """A transform applied to subjects as bytes, with the results remembered."""

    def __init__(self, broker: Broker, source: str, destination: str) -> None:
        self._broker = broker
        self._transformer = SubjectTransformer.parse(source, destination)
        self._is_random: bool = "random" in destination.lower()
        self._known: dict[bytes, bytes] = {}

    def rewrite(self, subject: bytes) -> bytes:
        """The new subject; b"" when the subject does not fall under the source."""
        known = self._known.get(subject)
        if known is not None:
            return known
        text = self._transformer.transform(subject.decode("utf-8", "surrogateescape"), self._draw)
        result = b"" if text is None else text.encode("utf-8", "surrogateescape")
        if not self._is_random:
            if len(self._known) >= REMEMBERED_MAX:
                self._known.clear()
            self._known[subject] = result
        return result

    def _draw(self, count: int) -> int:
        return self._broker.random_index(count)


class Republication:
    """A stored message on its way out again."""

    def __init__(self, seq: i64, destination: bytes, header: bytes, payload: bytes) -> None:
        self.seq: i64 = seq
        self.destination = destination
        self.header = header
        self.payload = payload


class Republisher:
    """Sends stored messages to another subject once they are durable."""

    def __init__(self, stream: Stream, config: RePublish) -> None:
        self._stream = stream
        self._rewriter = SubjectRewriter(stream.broker, config.src, config.dest)
        self._headers_only: bool = config.headers_only
        self._waiting: deque[Republication] = deque()

    def stored(self, publish: Publish, seq: i64, previous_subject_seq: i64) -> None:
        destination = self._rewriter.rewrite(publish.subject)
        # A function of the destination may make an impossible subject; then there is nobody to tell.
        if not destination or not is_valid_subject(destination) or not is_literal(destination):
            return
        stream = self._stream
        origin = [
            (b"Nats-Stream", stream.name.encode()),
            (b"Nats-Subject", publish.subject),
            (b"Nats-Sequence", b"%d" % seq),
            (b"Nats-Time-Stamp", format_time(stream.store.last_ts_ns).encode()),
            (b"Nats-Last-Sequence", b"%d" % previous_subject_seq),
        ]
        payload = publish.payload
        if self._headers_only:
            origin.append((b"Nats-Msg-Size", b"%d" % len(payload)))
            payload = b""
        header = headers.append_headers(publish.header, origin)
        self._waiting.append(Republication(seq, destination, header, payload))

    def visible(self, seq: i64) -> None:
        waiting = self._waiting
        while waiting and waiting[0].seq <= seq:
            message = waiting.popleft()
            size = len(message.header)
            self._stream.account.publish_from_server(message.destination, b"", size, message.header + message.payload)

    def take_over(self, before: Republisher) -> None:
        """What was stored under the old rule goes out under it."""
        self._waiting = before._waiting

    def rolled_back(self, last_seq: i64) -> None:
        waiting = self._waiting
        while waiting and waiting[-1].seq > last_seq:
            waiting.pop()
