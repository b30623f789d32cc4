"""One attempt's right to write the rows of a task, and what earlier attempts have stored of them.

The right belongs to a connection, not to a process: a connection that is gone cannot send any more, and the server has
read everything it ever sent. So an attempt listens on a subject of its own, writes that subject into the claim, and
never reconnects; whoever comes after it waits until nobody listens there, takes the claim over, and only then reads
what is stored. `docs/exactly-once.md` has the argument. Neither rows nor ids are made here.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from jetspark.api.stream_config import Retention
from jetspark.client.api_errors import MessageNotFoundError, WrongLastSequenceError
from jetspark.client.core.publish_headers import MSG_ID
from jetspark.client.errors import ClientError, JetsparkError, NoRespondersError, RequestTimeoutError
from jetspark.spark.connections import new_connection
from jetspark.spark.options import Options
from jetspark.spark.sink_ids import Place, Run
from jetspark.spark.sink_ledger import Base, Begun, Claim, ClaimLost, Ledger

if TYPE_CHECKING:
    import pyarrow

    from jetspark.client.sync import JetStream, Stream

log = logging.getLogger("jetspark.spark")

PROBE_TIMEOUT_S = 0.2
POLL_S = 0.1
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


class Attempt:
    """One connection's turn at the rows of a task. Open it, publish through `jetstream`, then finish or close it."""

    def __init__(
        self, options: Options, place: Place, run: Run, targets: tuple[Target, ...],
        *, keeps_claim: bool, goes_on: bool = False,
    ) -> None:  # fmt: skip
        self._options = options
        self._place = place
        self._run = run
        self._targets = targets
        self._client = new_connection(options, allow_reconnect=False)
        self.jetstream: JetStream = self._client.jetstream(
            domain=options["domain"],
            api_prefix=options["apiPrefix"],
            timeout=options["requestTimeoutMs"],
            publish_window=options["maxInFlight"],
        )
        self._ledger = Ledger(self.jetstream, options["ledger"], targets[0].stream)
        self._claim: Claim | None = None
        # What was written, when another attempt has finished these rows or the whole batch.
        self.done: dict[str, Any] | None = None
        # The same, said by another run of the batch: to be believed when its rows are these rows.
        self.done_before: dict[str, Any] | None = None
        # The ids found in the streams. Empty for the first attempt: nobody can have stored anything.
        self.stored: set[bytes] = set()
        self._incomplete = ""
        try:
            if keeps_claim:
                self._take()
            if goes_on:
                # Rows were taken already: they are looked for one by one, whoever says that all are stored.
                self.go_on()
        except BaseException:
            self.close()
            raise

    # The claim.

    def _take(self) -> None:
        owner = self._client.new_inbox()
        heard = self._client.subscribe(owner)
        # The server knows of the subscription before anybody can read of it. A user who may not listen there, or ask
        # others there, would be taken for gone, or could never take over.
        self._client.publish(owner, b"")
        if heard.next(timeout=self._options["requestTimeoutMs"]) is None:
            raise RequestTimeoutError(
                f"what was sent to {owner} did not come back: the user must be allowed to publish and subscribe to "
                f"{self._options['inboxPrefix']}.>"
            )
        deadline_s = time.monotonic() + self._options["takeoverTimeoutMs"]
        begun = self._begin()
        claim, is_first = self._win(owner, deadline_s)
        self._claim = claim
        if claim.done is not None and claim.run == self._run.name:
            self.done = claim.done
            return
        # Asked after claiming: a commit removes claims, so a late task must not take "no claim" for "nothing stored".
        if self._is_committed():
            self.done = {}
            return
        self.done_before = claim.done
        if begun.is_again:
            self._wait_for_other_runs(deadline_s)
        if begun.is_again or not is_first:
            self._read_stored(begun)

    def _begin(self) -> Begun:
        """The record of the batch, which says now that this run is at it."""
        while True:
            with contextlib.suppress(ClaimLost):
                found = self._ledger.begun(self._place)
                if found is None:
                    bases = {target.stream: self._base(target) for target in self._targets}
                    return self._ledger.put_begun(self._place, Begun(self._run.name, bases))
                if found.run == self._run.name:
                    return found
                return self._ledger.put_begun(self._place, replace(found, run=self._run.name, is_again=True))

    def _is_committed(self) -> bool:
        """Is the batch finished as a whole? SinkError when what is on record cannot be before or after it."""
        committed = self._ledger.committed(self._place.write)
        last = -1 if committed is None else committed.batch
        stream = self._targets[0].stream
        if last > self._place.batch and not self._run.is_query:
            raise SinkError(
                f"writeVersion {self._place.batch} of writeId {self._place.write} is to be written to stream {stream} "
                f"after version {last} was: versions only grow. A new checkpoint, whose batches are counted from 0 "
                "again, needs another writeId"
            )
        if last > self._place.batch:
            raise SinkError(
                f"{self._place} is to be written, but batch {last} of this query is already committed in "
                f"{stream}: the checkpoint is older than what the sink has written. Use the newest "
                "checkpoint, or start with a new one"
            )
        if last == self._place.batch:
            return True
        is_known = last == self._place.batch - 1 or not self._run.is_query
        if not is_known and (committed is not None or not self._ledger.knows_elsewhere(self._place.write)):
            said = (
                f"{self._place} is to be written to stream {stream}, and bucket {self._options['ledger']} (option "
                f"ledger) does not know of batch {self._place.batch - 1} before it: it was deleted or put back, or "
                "that batch was written with another ledger or without ids. What of this batch was stored is not known"
            )
            if self._options["failOnDataLoss"]:
                raise SinkError(f"{said}. Set option failOnDataLoss=false to write what this bucket does not know of")
            log.warning("%s; going by what the ledger knows", said)
        return False

    def _win(self, owner: str, deadline_s: float) -> tuple[Claim, bool]:
        """The claim, ours now (or finished by our run), and whether nobody had it before."""
        is_told = False
        while True:
            found = self._ledger.claim(self._place)
            with contextlib.suppress(ClaimLost):
                if found is None:
                    return self._ledger.put_claim(self._place, Claim(owner, self._run.name)), True
                if found.done is not None and found.run == self._run.name:
                    return found, False
                if self._is_gone(found.owner):
                    # Finished by another run stays so, until it is seen whether its rows were these.
                    run = found.run if found.done is not None else self._run.name
                    return self._ledger.put_claim(self._place, replace(found, owner=owner, run=run)), False
                if not is_told:
                    log.info("%s is being written by another attempt; waiting for it", self._place)
                    is_told = True
                self._wait_for_others(deadline_s)

    def _wait_for_others(self, deadline_s: float) -> None:
        if time.monotonic() > deadline_s:
            raise SinkError(
                f"{self._place}: another attempt at these rows is still connected after "
                f"{self._options['takeoverTimeoutMs']:g} s (option takeoverTimeoutMs). End that process, or "
                "lower the server's ping_interval so that it notices dead machines sooner"
            )
        time.sleep(POLL_S)

    def _wait_for_other_runs(self, deadline_s: float) -> None:
        """Until no task of another run can send: its rows may be among ours, if Spark has cut the batch anew."""
        for claim in self._ledger.claims(self._place):
            while claim.done is None and claim.run != self._run.name and not self._is_gone(claim.owner):
                self._wait_for_others(deadline_s)

    def _base(self, target: Target) -> Base:
        info = self.jetstream.stream_info(target.stream)
        return Base(info.state.last_seq, info.created)

    def _is_gone(self, owner: str) -> bool:
        """Nobody listens there: the connection is closed, and the server has read all it sent."""
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

    def _read_stored(self, begun: Begun) -> None:
        for target in self._targets:
            base = begun.bases.get(target.stream)
            info = self.jetstream.stream_info(target.stream)
            # Deleted and made again: whatever is in it now came later.
            first = 1 if base is None or base.created != info.created else base.sequence + 1
            last = self._settled_sequence(target)
            if last >= first:
                self._scan(self.jetstream.stream(target.stream), first, last)
        if self.done_before is None:
            self._check_complete()

    def _settled_sequence(self, target: Target) -> int:
        """The last sequence, once everything the server has received before this question is stored.

        The question is a publish that must be refused: it goes the same way as the messages before it, and the refusal
        names the last sequence given out.
        """
        try:
            self.jetstream.publish(target.unused_subject, b"", expect_last_seq=NEVER_SEQUENCE)
        except WrongLastSequenceError as error:
            told = _LAST_SEQUENCE.search(error.description)
        else:
            raise SinkError(f"stream {target.stream} took a message that expected sequence {NEVER_SEQUENCE}")
        given_out = int(told[1]) if told else 0
        deadline_s = time.monotonic() + self._options["requestTimeoutMs"]
        while True:
            last = self.jetstream.stream_info(target.stream).state.last_seq
            if last >= given_out:
                return last
            if time.monotonic() > deadline_s:
                raise RequestTimeoutError(f"stream {target.stream} is at {last}, and has given out {given_out}")
            time.sleep(POLL_S / 10)

    def _scan(self, stream: Stream, first: int, last: int) -> None:
        if stream.cached_info.config.retention is Retention.LIMITS:
            count = self._scan_rows(stream, first, last)
        else:
            # A consumer would change what such a stream keeps.
            count = self._scan_singly(stream, first, last)
        missing = last - first + 1 - count
        if missing:
            self._incomplete = (
                f"{self._place} was written in part before, and {missing} of the messages {first} to {last} that "
                f"stream {stream.name} has received since are gone (a limit, their time to live, a purge, or "
                "acknowledged in a work queue), so what of the batch was stored is not known"
            )

    def _scan_singly(self, stream: Stream, first: int, last: int) -> int:
        count = 0
        with contextlib.suppress(MessageNotFoundError):
            while first <= last:
                found = stream.get_msg(first, next_by_subject=">", direct=False)
                first = found.seq + 1
                if found.seq <= last:
                    count += 1
                    self.stored.update(value.encode() for value in found.headers.get_all(MSG_ID))
        return count

    def _scan_rows(self, stream: Stream, first: int, last: int) -> int:
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
                count += self._note(batch, last)
        finally:
            with contextlib.suppress(JetsparkError):
                consumer.delete()
        return count

    def _note(self, batch: pyarrow.RecordBatch, last: int) -> int:
        """Remember the ids in a batch; how many of its rows are within the range."""
        import pyarrow.compute as pc

        within = pc.sum(pc.less_equal(batch.column(0), last)).as_py() or 0
        pairs = batch.column(1).flatten()
        values = pairs.field(1).filter(pc.equal(pairs.field(0), MSG_ID))
        self.stored.update(value.encode() for value in values.to_pylist())
        return int(within)

    def go_on(self) -> None:
        """These are not the rows another run has finished: what of them was not found will be sent."""
        if self.done_before is None:
            return
        assert self._claim is not None, "what was done before is told by a claim"
        self._check_complete()
        try:
            self._claim = self._ledger.put_claim(self._place, replace(self._claim, run=self._run.name, done=None))
        except ClaimLost:
            raise SinkError(f"{self._place} was taken over by another attempt") from None
        self.done_before = None

    def _check_complete(self) -> None:
        """Were all messages there to be read? Before anything is sent that was not found."""
        if not self._incomplete:
            return
        if self._options["failOnDataLoss"]:
            raise SinkError(f"{self._incomplete}. Set option failOnDataLoss=false to write again what is not found")
        log.warning("%s; writing again what is not found", self._incomplete)

    # The end.

    def finish(self, done: dict[str, Any]) -> None:
        """Everything is stored: tell later attempts."""
        if self._claim is not None and self.done is None:
            # Lost: another attempt has the rows now, and will find all of them. So would any later one if the
            # server is away just now: the note spares it the search, and is not worth failing for.
            try:
                self._ledger.put_claim(self._place, replace(self._claim, run=self._run.name, done=done))
            except ClaimLost:
                return
            except ClientError as error:
                log.info("%s: everything is stored, which could not be noted: %s", self._place, error)

    def close(self) -> None:
        """Nothing more will be sent."""
        self._client.close()
