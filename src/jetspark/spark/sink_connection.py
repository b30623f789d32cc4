"""One connection of a task: the right to send belongs to it, and what is stored is read over it.

A connection that is gone cannot send any more, and the server has read everything it ever sent. So it listens on a
subject of its own for as long as it lives, and never reconnects. What follows from that is decided in `sink_task`.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jetspark.api.stream_config import Retention
from jetspark.client.api_errors import MessageNotFoundError, WrongLastSequenceError
from jetspark.client.core.publish_headers import MSG_ID
from jetspark.client.errors import JetsparkError, NoRespondersError, RequestTimeoutError
from jetspark.spark.connections import new_connection
from jetspark.spark.options import Options
from jetspark.spark.sink_ledger import Base, Ledger
from jetspark.spark.sink_rows import Rows

if TYPE_CHECKING:
    import pyarrow

    from jetspark.client.sync import PublishBlock, Stream

PROBE_TIMEOUT_S = 0.2
SETTLE_POLL_S = 0.01
# In a cluster, news of a subscription and of its end travel; they are believed when heard twice, this far apart.
CLUSTER_NEWS_S = 0.5
NEVER_SEQUENCE = 2**62
SCAN_ROWS = 20_000
SCAN_WAIT_S = 5.0
_LAST_SEQUENCE = re.compile(r"wrong last sequence: (\d+)")


class SinkError(JetsparkError):
    """The sink cannot go on; the text says why and what to do."""


@dataclass(frozen=True)
class Target:
    """A stream rows go to, and a subject it takes that nobody uses."""

    stream: str
    unused_subject: str


@dataclass(frozen=True)
class Gap:
    """Messages of a stream that were to be read and are gone."""

    stream: str
    first: int
    last: int
    count: int


@dataclass
class Stored:
    """What was found in the streams since a batch was begun."""

    ids: set[bytes] = field(default_factory=set)
    gaps: list[Gap] = field(default_factory=list)


class SinkConnection:
    """A connection that never reconnects, and what a task asks over it."""

    def __init__(self, options: Options, targets: tuple[Target, ...]) -> None:
        self._options = options
        self._targets = targets
        self._client = new_connection(options, allow_reconnect=False)
        self._jetstream = self._client.jetstream(
            domain=options["domain"],
            api_prefix=options["apiPrefix"],
            timeout=options["requestTimeoutMs"],
            publish_window=options["maxInFlight"],
        )
        self.ledger = Ledger(self._jetstream, options["ledger"], targets[0].stream)

    # Who is there.

    def listen(self) -> str:
        """Listen on a new subject, which others ask on; its name. The server knows of it before anybody reads of it."""
        owner = self._client.new_inbox()
        heard = self._client.subscribe(owner)
        # A user who may not listen there, or ask others there, would be taken for gone, or could never take over.
        self._client.publish(owner, b"")
        if heard.next(timeout=self._options["requestTimeoutMs"]) is None:
            raise RequestTimeoutError(
                f"what was sent to {owner} did not come back: the user must be allowed to publish and subscribe to "
                f"{self._options['inboxPrefix']}.>"
            )
        return owner

    def is_gone(self, owner: str) -> bool:
        """Nobody listens there: that connection is closed, and the server has read all it sent."""
        if not self._hears_nobody(owner):
            return False
        if not self._client.server_info.get("cluster"):
            return True
        time.sleep(CLUSTER_NEWS_S)
        return self._hears_nobody(owner)

    def _hears_nobody(self, owner: str) -> bool:
        try:
            self._client.request(owner, b"", timeout=PROBE_TIMEOUT_S)
        except NoRespondersError:
            return True
        except RequestTimeoutError:
            return False
        return False

    # What is stored.

    def bases(self) -> dict[str, Base]:
        """The streams as they are now."""
        infos = {target.stream: self._jetstream.stream_info(target.stream) for target in self._targets}
        return {name: Base(info.state.last_seq, info.created) for name, info in infos.items()}

    def read_stored(self, bases: Mapping[str, Base], prefix: bytes) -> Stored:
        """The ids stored since then that begin with `prefix`: everything the server has received before this call."""
        found = Stored()
        for target in self._targets:
            base = bases.get(target.stream)
            info = self._jetstream.stream_info(target.stream)
            # Deleted and made again: whatever is in it now came later.
            first = 1 if base is None or base.created != info.created else base.sequence + 1
            last = self._settled_sequence(target)
            if last < first:
                continue
            count = self._scan(self._jetstream.stream(target.stream), first, last, prefix.decode(), found.ids)
            if missing := last - first + 1 - count:
                found.gaps.append(Gap(target.stream, first, last, missing))
        return found

    def _settled_sequence(self, target: Target) -> int:
        """The last sequence, once everything the server has received before this question is stored.

        The question is a publish that must be refused: it goes the same way as the messages before it, and the refusal
        names the last sequence given out.
        """
        try:
            self._jetstream.publish(target.unused_subject, b"", expect_last_seq=NEVER_SEQUENCE)
        except WrongLastSequenceError as error:
            told = _LAST_SEQUENCE.search(error.description)
        else:
            raise SinkError(f"stream {target.stream} took a message that expected sequence {NEVER_SEQUENCE}")
        if told is None:
            raise SinkError(
                f"stream {target.stream} refused a message that expected sequence {NEVER_SEQUENCE} without naming its "
                "last sequence, so what it has received cannot be told from what is on its way"
            )
        given_out = int(told[1])
        deadline_s = time.monotonic() + self._options["requestTimeoutMs"]
        while True:
            last = self._jetstream.stream_info(target.stream).state.last_seq
            if last >= given_out:
                return last
            if time.monotonic() > deadline_s:
                raise RequestTimeoutError(f"stream {target.stream} is at {last}, and has given out {given_out}")
            time.sleep(SETTLE_POLL_S)

    def _scan(self, stream: Stream, first: int, last: int, prefix: str, ids: set[bytes]) -> int:
        """Add the ids of a range; how many messages it has."""
        if stream.cached_info.config.retention is Retention.LIMITS:
            return self._scan_rows(stream, first, last, prefix, ids)
        # A consumer would change what such a stream keeps.
        return self._scan_singly(stream, first, last, prefix, ids)

    def _scan_singly(self, stream: Stream, first: int, last: int, prefix: str, ids: set[bytes]) -> int:
        count = 0
        with contextlib.suppress(MessageNotFoundError):
            while first <= last:
                found = stream.get_msg(first, next_by_subject=">", direct=False)
                first = found.seq + 1
                if found.seq <= last:
                    count += 1
                    _keep(found.headers.get_all(MSG_ID), prefix, ids)
        return count

    def _scan_rows(self, stream: Stream, first: int, last: int, prefix: str, ids: set[bytes]) -> int:
        count = 0
        consumer = stream.ordered_consumer(
            deliver_policy="by_start_sequence", opt_start_seq=first, headers_only=True, inactive_threshold=30.0
        )
        try:
            consumer.make()
            pending, position = consumer.cached_info.num_pending, 0
            while position < last and pending:
                rows = min(SCAN_ROWS, pending, last - max(position, first - 1))
                batch = consumer.fetch_arrow(
                    rows, expires=SCAN_WAIT_S, columns=["sequence", "headers", "pending_count"]
                )
                if not batch.num_rows:
                    pending = consumer.info().num_pending
                    continue
                position = batch.column(0)[-1].as_py()
                pending = batch.column(2)[-1].as_py()
                count += _note(batch, last, prefix, ids)
        finally:
            with contextlib.suppress(JetsparkError):
                consumer.delete()
        return count

    # Sending.

    def publish(self, rows: Rows) -> PublishBlock:
        """Send rows that can be sent, all with ids or all without."""
        ids = rows.ids if rows.ids[0] else ()
        return self._jetstream.publish_many(rows.subjects, rows.blocks, rows.payloads, ids)

    def close(self) -> None:
        """Nothing more will be sent."""
        self._client.close()


def _note(batch: pyarrow.RecordBatch, last: int, prefix: str, ids: set[bytes]) -> int:
    """Remember the ids in a batch; how many of its rows are within the range."""
    import pyarrow.compute as pc

    within = pc.sum(pc.less_equal(batch.column(0), last)).as_py() or 0
    pairs = batch.column(1).flatten()
    values = pairs.field(1).filter(pc.equal(pairs.field(0), MSG_ID))
    _keep(values.to_pylist(), prefix, ids)
    return int(within)


def _keep(found: list[str], prefix: str, ids: set[bytes]) -> None:
    ids.update(one.encode() for one in found if one.startswith(prefix))
