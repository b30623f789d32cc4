"""One task of the sink: the steps of `docs/exactly-once.md`, with their numbers, as a state machine.

    CONNECT -> BEGIN -> CLAIM -> ASK -> COMPARE -> SEND -> NOTE -> END

BEGIN, CLAIM and ASK repeat themselves while somebody else is faster or still at work, SEND until all rows are stored.
COMPARE ends at once when everything is stored. Whenever it is not known what became of a row or of a question, the
connection is given up and the next step is CONNECT. Rows that were taken before are still there then.

Only the driver's commit says that a task is complete. Here it never is: the rows may have ended because what comes
before the sink failed. What is stored, sent and waited for is somebody else's business: `Edge` is all this module knows
of the world.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from jetspark.client.errors import AuthorizationError, ClientError, JetsparkError
from jetspark.spark.connections import RETRY_WAIT_MAX_S
from jetspark.spark.dead_letter import SUFFIX
from jetspark.spark.options import Options
from jetspark.spark.sink_compare import OTHER_ROWS, check_same_partition, check_same_rows
from jetspark.spark.sink_connection import SinkError, Target
from jetspark.spark.sink_edge import Edge, Line
from jetspark.spark.sink_ids import Place, Run, rows_digest
from jetspark.spark.sink_ledger import Begun, Claim, ClaimLost, Note
from jetspark.spark.sink_limits import Limits
from jetspark.spark.sink_options import COLUMN, CONTENT, NONE
from jetspark.spark.sink_rows import RowPlan, RowReader
from jetspark.spark.sink_sending import BrokenOff, Sender, named, new_id_maker

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger("jetspark.spark")

POLL_S = 0.1


class Step(IntEnum):
    """What a task does next; the numbers are those of `docs/exactly-once.md`."""

    CONNECT = 1
    BEGIN = 2
    CLAIM = 3
    ASK = 4
    COMPARE = 5
    SEND = 6
    NOTE = 7
    END = 8


class SinkTask:
    """Stores the rows of one task. `write` takes all steps; `advance` takes one."""

    def __init__(
        self, edge: Edge, options: Options, place: Place, run: Run, plan: RowPlan, limits: Limits,
        targets: tuple[Target, ...], batches: Iterable[pyarrow.RecordBatch],
    ) -> None:  # fmt: skip
        self.step = Step.CONNECT
        self._edge = edge
        self._options = options
        self._place = place
        self._run = run
        self._plan = plan
        self._stream = targets[0].stream
        # What ids of this batch begin with; a user's own ids may begin with anything.
        self._id_prefix = b"" if plan.id_mode == COLUMN else place.batch_prefix
        self._sender = Sender(options, place, plan, limits, targets)
        self._batches = iter(batches)
        self._sender.take(self._batches)
        self._line: Line | None = None
        # All rows and their ids, when they are compared before the first of them is sent.
        self._held: list[pyarrow.RecordBatch] | None = None
        self._made: list[bytes] = []
        self._summary: dict[str, Any] | None = None
        self._tries = self._settled_at_last_try = 0
        # Of the connection there is now.
        self._owner = ""
        self._deadline_s = 0.0
        self._begun = Begun("", {})
        self._claim: Claim | None = None
        self._is_first = True
        self._is_committed = False
        self._is_told = False
        self._gone: set[str] = set()

    def write(self) -> dict[str, Any]:
        """Store every row; what was done, as numbers."""
        try:
            while self.step is not Step.END:
                self.advance()
            return self.summary()
        finally:
            self.close()

    def advance(self) -> None:
        """Take the next step, or a part of it. An error ends the task."""
        try:
            self.step = self._perform()
        except (SinkError, AuthorizationError):
            raise
        except BrokenOff as broken:
            self._break_off(broken.reason)
        except (JetsparkError, OSError) as error:
            # Later steps take rows from Spark, whose failures are not the connection's.
            if self.step > Step.ASK:
                raise
            self._break_off(error)

    def summary(self) -> dict[str, Any]:
        """What was done, as numbers."""
        return self._sender.summary() if self._summary is None else self._summary

    def close(self) -> None:
        """Send nothing more."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _perform(self) -> Step:
        if self.step is Step.CONNECT:
            return self._connect()
        assert self._line is not None, self.step
        if self.step is Step.BEGIN:
            return self._begin(self._line)
        if self.step is Step.CLAIM:
            return self._take_claim(self._line)
        if self.step is Step.ASK:
            return self._ask(self._line)
        if self.step is Step.COMPARE:
            return self._compare(self._line)
        if self.step is Step.SEND:
            return self._send()
        assert self.step is Step.NOTE, self.step
        return self._note(self._line)

    def _break_off(self, reason: BaseException) -> None:
        """Give the connection up. After a while there is another; SinkError when that was tried too often."""
        self.close()
        self._sender.break_off()
        self.step = Step.CONNECT
        if self._sender.settled_count > self._settled_at_last_try:
            self._tries, self._settled_at_last_try = 0, self._sender.settled_count
        self._tries += 1
        if self._tries > self._options["numRetries"]:
            raise SinkError(
                f"{self._sender.first_unsettled()} could not be stored: {reason} "
                f"({self._options['numRetries']} retries, option numRetries)"
            ) from reason
        wait_s = min(RETRY_WAIT_MAX_S, self._options["retryIntervalMs"] * 2.0 ** (self._tries - 1))
        log.warning("%s: %s; trying again in %g s", self._place, reason, wait_s)
        self._edge.sleep(wait_s)

    # 1 to 4: the right to send.

    def _connect(self) -> Step:
        self._line = line = self._edge.connect()
        if self._plan.id_mode == NONE:
            self._sender.resume(line.publish, set())
            return Step.SEND
        self._owner = line.listen()
        self._deadline_s = self._edge.now_s() + self._options["takeoverTimeoutMs"]
        return Step.BEGIN

    def _begin(self, line: Line) -> Step:
        """See that the record of the batch says that this run is at it."""
        found = line.ledger.begun(self._place)
        if found is None:
            mine = Begun(self._run.name, line.bases())
        elif found.run == self._run.name:
            self._begun = found
            return Step.CLAIM
        else:
            mine = replace(found, run=self._run.name, is_again=True)
        try:
            self._begun = line.ledger.put_begun(self._place, mine)
        except ClaimLost:
            return Step.BEGIN
        return Step.CLAIM

    def _take_claim(self, line: Line) -> Step:
        """Get the claim, from nobody or from a connection that is gone."""
        found = line.ledger.claim(self._place)
        if found is not None and not line.is_gone(found.owner):
            if not self._is_told:
                log.info("%s is being written by another attempt; waiting for it", self._place)
                self._is_told = True
            self._wait_for_others()
            return Step.CLAIM
        mine = Claim("", "") if found is None else found
        try:
            self._claim = line.ledger.put_claim(self._place, replace(mine, owner=self._owner, run=self._run.name))
        except ClaimLost:
            return Step.CLAIM
        # Nobody can have stored anything before: no earlier claim, and no other run of the batch.
        self._is_first = found is None and not self._begun.is_again
        return Step.ASK

    def _ask(self, line: Line) -> Step:
        """Is the batch committed? If not, is another run still at it, whose rows may be among these?

        Asked after claiming: a commit removes claims, so a late task must not take "no claim" for "nothing stored".
        And the claims are read before the commit, which removes those of the tasks that it waited for.
        """
        is_writing = self._begun.is_again and self._is_another_run_writing(line)
        self._is_committed = self._find_commit(line)
        if is_writing and not self._is_committed:
            self._wait_for_others()
            return Step.ASK
        return Step.COMPARE

    def _is_another_run_writing(self, line: Line) -> bool:
        for claim in line.ledger.claims(self._place).values():
            if claim.run != self._run.name and claim.owner not in self._gone:
                if not line.is_gone(claim.owner):
                    return True
                self._gone.add(claim.owner)
        return False

    def _wait_for_others(self) -> None:
        if self._edge.now_s() > self._deadline_s:
            raise SinkError(
                f"{self._place}: another attempt at these rows is still connected after "
                f"{self._options['takeoverTimeoutMs']:g} s (option takeoverTimeoutMs). End that process, or "
                "lower the server's ping_interval so that it notices dead machines sooner"
            )
        self._edge.sleep(POLL_S)

    def _find_commit(self, line: Line) -> bool:
        """Is the batch finished as a whole? SinkError when what is on record cannot be before or after it."""
        committed = line.ledger.committed(self._place.write)
        last = -1 if committed is None else committed.batch
        if last > self._place.batch and not self._run.is_query:
            raise SinkError(
                f"writeVersion {self._place.batch} of writeId {self._place.write} is to be written to stream "
                f"{self._stream} after version {last} was: versions only grow. A new checkpoint, whose batches are "
                "counted from 0 again, needs another writeId"
            )
        if last > self._place.batch:
            raise SinkError(
                f"{self._place} is to be written, but batch {last} of this query is already committed in "
                f"{self._stream}: the checkpoint is older than what the sink has written. Use the newest "
                "checkpoint, or start with a new one"
            )
        if last == self._place.batch:
            return True
        is_known = last == self._place.batch - 1 or not self._run.is_query
        if not is_known and (committed is not None or not line.ledger.knows_elsewhere(self._place.write)):
            self._lose(
                f"{self._place} is to be written to stream {self._stream}, and bucket {self._options['ledger']} "
                f"(option ledger) does not know of batch {self._place.batch - 1} before it: it was deleted or put "
                "back, or that batch was written with another ledger or without ids. What of this batch was stored is "
                "not known",
                "to write what this bucket does not know of",
            )
        return False

    def _lose(self, what: str, for_what: str) -> None:
        """What was stored cannot be known for certain: an error, unless the user wants to go on."""
        if self._options["failOnDataLoss"]:
            raise SinkError(f"{what}. Set option failOnDataLoss=false {for_what}")
        log.warning("%s; going on %s", what, for_what)

    # 5: what is stored, and what of it may be.

    def _compare(self, line: Line) -> Step:
        """Nothing is sent again, and nothing in vain: what is stored must be among the rows."""
        sender = self._sender
        if self._is_committed:
            sender.skip_rest()
            return Step.END
        if not sender.has_begun and self._is_first:
            # Nobody can have stored anything.
            sender.resume(line.publish, set())
            return Step.SEND
        if not sender.has_begun and self._is_noted():
            return Step.END
        try:
            stored = line.read_stored(self._begun.bases, self._id_prefix)
        except SinkError:
            raise
        except JetsparkError as error:
            raise BrokenOff(error) from error
        sender.resume(line.publish, stored.ids)
        if self._plan.id_mode != COLUMN:
            if self._held is None:
                self._check_alone(stored.ids)
            else:
                check_same_rows(self._place, self._made, stored.ids)
            if self._plan.id_mode == CONTENT and self._begun.is_again:
                check_same_partition(self._place, self._made, stored.ids, keeps_partitions=self._run.keeps_partitions)
        if stored.gaps and (self._held is None or not all(map(sender.is_settled, self._made))):
            gap = stored.gaps[0]
            self._lose(
                f"{self._place} was written in part before, and {gap.count} of the messages {gap.first} to {gap.last} "
                f"that stream {gap.stream} has received since are gone (a limit, their time to live, a purge, or "
                "acknowledged in a work queue), so what of the batch was stored is not known",
                "to write again what is not found",
            )
        return Step.SEND

    def _is_noted(self) -> bool:
        """Take all rows, and see whether an earlier attempt has noted exactly these as stored."""
        if self._held is None:
            self._held = list(self._batches)
            reader, make_ids = RowReader(self._plan), new_id_maker(self._plan, self._place)
            for batch in self._held:
                rows = reader.read(batch)
                if make_ids is not None:
                    rows.ids = make_ids(rows.subjects, rows.blocks, rows.payloads)
                self._made += named(rows)
            self._sender.take(iter(self._held))
        note = None if self._claim is None else self._claim.note
        digest = rows_digest(self._plan.id_mode, self._place, self._made)
        if note is None or (note.rows, note.digest) != (len(self._made), digest):
            return False
        self._summary = note.summary
        return True

    def _check_alone(self, stored: set[bytes]) -> None:
        """Rows were sent before the connection was lost, and those that were acknowledged are not kept. If more rows
        of this task are stored than it knows of, others have stored some: they must be among the rest of its rows.
        """
        sender = self._sender
        own_count = sum(one.startswith(self._place.prefix) and not one.endswith(SUFFIX) for one in stored)
        if own_count > sender.known_count() or self._begun.is_again:
            sender.read_rest()
            self._made = list(sender.open_ids())
        if own_count > sender.known_count():
            raise SinkError(
                f"{self._place}: another attempt has stored {own_count - sender.known_count()} rows that are not "
                f"among the rows of this one. {OTHER_ROWS}"
            )

    # 6 and 7: the rest.

    def _send(self) -> Step:
        if self._sender.advance():
            return Step.SEND
        return Step.END if self._plan.id_mode == NONE else Step.NOTE

    def _note(self, line: Line) -> Step:
        """Tell later attempts what is stored. They may have more rows than this one was given."""
        assert self._claim is not None, "rows were sent without a claim"
        done = self._sender.summary()
        try:
            line.ledger.put_claim(self._place, replace(self._claim, note=Note(done["rows"], done["digest"], done)))
        except ClaimLost:
            # Another attempt has the rows now, and will find all of them.
            pass
        except ClientError as error:
            # It spares a later attempt the search, and is not worth failing for.
            log.info("%s: everything is stored, which could not be noted: %s", self._place, error)
        return Step.END
