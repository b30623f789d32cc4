"""Watches everything that goes into the broker and comes out, and holds it against the models.

`arrived` is told of each operation once its last byte is in, `saw` of each message that left, in between nothing else
happens; so the models see the same order as the broker. What a reply must say is noted when its request arrives.
"""

from __future__ import annotations

from typing import Any

from jetspark.broker.broker import Broker
from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.jetstream import JetStream
from jetspark.broker.pending_commit import PendingCommit
from jetspark.testing.sim import placing, refused, replies
from jetspark.testing.sim.consumer_model import ConsumerModel, Delivery
from jetspark.testing.sim.known import KnownConsumer, KnownStream
from jetspark.testing.sim.life import Stage
from jetspark.testing.sim.model import Outcome, StreamModel
from jetspark.testing.sim.replies import Expected
from jetspark.testing.sim.violation import Violation, require
from jetspark.testing.sim.wire import AckOp, ApiOp, Frame, Op, PublishOp, read_delivery

READS = ("STREAM.MSG.GET.", "DIRECT.GET.", "STREAM.INFO.", "CONSUMER.INFO.")


class Witness:
    """The models of a whole broker."""

    def __init__(self) -> None:
        self.streams: dict[str, KnownStream] = {}
        self.leaving: list[KnownStream] = []
        self.expected: dict[bytes, Expected] = {}
        self.counts: dict[str, int] = {}
        self.broker: Broker | None = None
        self.in_flight: PendingCommit | None = None
        # The ack floor and the place of a consumer just before it is changed.
        # The ack floor, and where a reset would go on after.
        self._ack_floor_before = 0
        self._floor_before = 0
        self._next_before = 0
        self._had_list = False
        # Where each consumer looks next, just before a commit ends.
        self._places: dict[Consumer, int] = {}

    def count(self, what: str) -> None:
        """Note that something worth knowing of happened."""
        self.counts[what] = self.counts.get(what, 0) + 1

    @property
    def jetstream(self) -> JetStream:
        """The broker's own streams."""
        assert self.broker is not None
        return self.broker.accounts["$G"].jetstream

    def model(self, name: str) -> StreamModel | None:
        """The model of a stream that exists."""
        known = self.streams.get(name)
        return known.model if known is not None else None

    def consumer(self, stream: str, name: str) -> ConsumerModel | None:
        """The model of a consumer that exists."""
        known = self.streams.get(stream)
        found = known.consumers.get(name) if known is not None else None
        return found.model if found is not None else None

    def _next_commit(self) -> int:
        """How many commits must be done before what is decided now is durable."""
        assert self.broker is not None
        return int(self.broker.commit_count) + (2 if self.in_flight is not None else 1)

    # -- what goes in --------------------------------------------------------------------------------------------

    def arriving(self, op: Op, now_ns: int) -> None:
        """The last byte of an operation is about to arrive."""
        if isinstance(op, PublishOp):
            known = self.streams.get(op.stream)
            if known is not None:
                # How long a disk that failed is left alone is the broker's own affair.
                target = self.jetstream.streams[op.stream]
                waits = target.broker.repairs.concern(target)
                known.model.failed_until_ns = now_ns + 1 if waits else int(target.failed_until_ns)
        elif isinstance(op, AckOp) or (isinstance(op, ApiOp) and op.verb.startswith("CONSUMER.")):
            stream = self.jetstream.streams.get(op.stream)
            own = stream.consumers.get(op.consumer) if stream is not None else None
            self._floor_before = self._ack_floor_before = 0
            if own is not None:
                self._ack_floor_before = int(own.state.floor_stream_seq)
                looked_at = min(own.settled_seq, own.next_seq - 1)
                self._floor_before = int(max(own.state.floor_stream_seq, looked_at))
            self._next_before = int(own.next_seq) if own is not None else 0
            self._had_list = own is not None and bool(own.first_list)
            model = self.consumer(op.stream, op.consumer)
            if own is not None and model is not None:
                model.accept_given_up(own.state.pending, now_ns)

    def arrived(self, op: Op, now_ns: int) -> None:
        """The broker has just dealt with an operation."""
        if isinstance(op, PublishOp):
            self._publish_arrived(op, now_ns)
        elif isinstance(op, AckOp):
            self._ack_arrived(op, now_ns)
        elif isinstance(op, ApiOp):
            self._api_arrived(op, now_ns)

    def _publish_arrived(self, op: PublishOp, now_ns: int) -> None:
        model = self.model(op.stream)
        if model is None:
            return
        assert op.attempt is not None
        outcome = model.publish(op.attempt, now_ns)
        if op.attempt.rollup:
            self._notice_jumps(model)
        self.count("publish refused" if outcome.refusal else "duplicate" if outcome.is_duplicate else "publish")
        if op.reply and not model.config.no_ack:
            waits = not model.in_memory and not outcome.refusal
            self.expected[op.reply] = Expected(self._next_commit() if waits else 0, outcome, model)

    def _ack_arrived(self, op: AckOp, now_ns: int) -> None:
        known = self.streams.get(op.stream)
        consumer = known.consumers.get(op.consumer) if known is not None else None
        if consumer is None or not consumer.model.acks:
            return
        model = consumer.model
        self.count("ack " + op.body[:4].decode())
        if op.seq >= self._next_before and not self._had_list:
            # Not delivered yet, or not any more: it means nothing.
            return
        model.acknowledged(op.seq, op.body, now_ns, self._ack_floor_before)
        if op.reply and not op.body.startswith(b"+NXT"):
            is_final = op.body in (b"", b"+ACK") or op.body.startswith(b"+TERM")
            waits = self._next_commit() if not consumer.in_memory else 0
            is_done = is_final and op.seq in model.settled
            ack_seq = op.seq if is_done else 0
            self.expected[op.reply] = Expected(waits, consumer=model, ack_seq=ack_seq, resets=model.resets)

    def _api_arrived(self, op: ApiOp, now_ns: int) -> None:
        self.count(op.verb.partition(".")[0] + "." + op.verb.split(".")[1])
        expected = Expected(0, is_removal=op.verb.startswith(("STREAM.DELETE.", "CONSUMER.DELETE.")))
        known = self.streams.get(op.stream)
        if op.verb.startswith("STREAM.CREATE."):
            self._notice_stream(op.stream, now_ns)
            known = self.streams.get(op.stream)
        waits = known is not None and not known.model.in_memory
        if op.verb.startswith("STREAM.DELETE."):
            self._notice_deleted_stream(op.stream)
        elif known is not None:
            if op.verb.startswith(READS):
                is_held = self._reads(known.model, op, expected)
            else:
                is_held = self._changes(known, op, expected, now_ns)
            waits = waits and is_held
        expected.commit_count = self._next_commit() if waits else 0
        if self._is_answered(op):
            self.expected[op.reply] = expected

    def _reads(self, model: StreamModel, op: ApiOp, expected: Expected) -> bool:
        """A call that only looks; True when it must wait for what it shows."""
        if op.verb.startswith(("STREAM.MSG.GET.", "DIRECT.GET.")):
            assert op.document is not None
            expected.message = replies.wanted_message(model, op.document)
            expected.error = expected.message is None
            expected.is_direct = op.verb.startswith("DIRECT.") and model.config.allow_direct
            return expected.message is not None and expected.message.seq > model.visible_seq
        if op.verb.startswith("STREAM.INFO."):
            expected.document = self._state_of(model)
        elif op.verb.startswith("CONSUMER.INFO."):
            consumer = model.consumers.get(op.consumer)
            if consumer is not None:
                numbers = {"num_pending": consumer.count_pending(), "num_ack_pending": len(consumer.pending)}
                expected.document = numbers
        return False

    def _changes(self, known: KnownStream, op: ApiOp, expected: Expected, now_ns: int) -> bool:
        """A call that changes something; True when its answer must be durable."""
        if op.verb.startswith("STREAM.UPDATE."):
            self._update_stream(known, now_ns)
        elif op.verb.startswith("STREAM.PURGE."):
            self._purge(known.model, op, expected)
        elif op.verb.startswith("STREAM.MSG.DELETE."):
            assert op.document is not None
            may_delete = not known.model.config.deny_delete and op.document["seq"] in known.model.messages
            expected.error = not (may_delete and known.model.remove(op.document["seq"]))
        elif op.verb.startswith("CONSUMER."):
            return self._consumer_call(known, op, now_ns)
        return True

    def _is_answered(self, op: ApiOp) -> bool:
        """Does anybody listen for such a request?"""
        if op.verb.startswith("CONSUMER.RESET."):
            return self.consumer(op.stream, op.consumer) is not None
        if op.verb.startswith("DIRECT.GET."):
            model = self.model(op.stream)
            return model is not None and model.config.allow_direct
        return True

    def _purge(self, model: StreamModel, op: ApiOp, expected: Expected) -> None:
        document = op.document or {}
        if model.config.deny_purge or model.config.sealed:
            expected.error = True
            return
        before = model.first_seq
        count = model.purge(document.get("filter", "").encode(), document.get("seq", 0), document.get("keep", 0))
        self._notice_jumps(model)
        expected.document = {"success": True, "purged": count}
        if model.first_seq != before:
            self.count("purge moved the first sequence")

    def _notice_jumps(self, model: StreamModel) -> None:
        """Where a purge sets a consumer is the broker's own affair."""
        for name, own in self.jetstream.streams[model.name].consumers.items():
            if name in model.consumers:
                model.consumers[name].purged_to(int(own.state.delivered_stream_seq) + 1)

    def _state_of(self, model: StreamModel) -> dict[str, Any]:
        is_new = model.last_seq == 0 and not model.was_purged_unused
        return {
            "messages": len(model.seqs),
            "bytes": model.byte_count,
            "first_seq": 0 if is_new else model.first_seq,
            "last_seq": model.last_seq,
            "consumer_count": len(model.consumers),
            "num_subjects": len({message.subject for message in model.messages.values()}),
        }

    def _consumer_call(self, known: KnownStream, op: ApiOp, now_ns: int) -> bool:
        """A call about a consumer; True when its answer must be durable."""
        verb = op.verb.split(".")[1]
        before = known.consumers.get(op.consumer)
        self.notice_consumers(known, now_ns, by_request=op.consumer)
        after = known.consumers.get(op.consumer)
        consumer = after or before
        if after is not None and after is before:
            own = self.jetstream.streams[known.model.name].consumers[op.consumer]
            if verb == "CREATE":
                had = after.model.patterns
                after.model.configure(own.config)
                if after.model.patterns != had:
                    # What the old filter has passed over stays passed over.
                    after.model.next_seq = max(after.model.next_seq, self._next_before)
                    known.model.skipped_below = max(known.model.skipped_below, after.model.next_seq)
                    known.model.interest_changed()
            elif verb == "RESET":
                asked_seq = (op.document or {}).get("seq", 0)
                seq = placing.reset_seq(after.model, asked_seq, self._floor_before)
                if seq > 0:
                    after.model.restarted_at(seq, asked_seq or after.model.asked_seq)
                    known.model.interest_changed()
            elif verb == "PAUSE":
                after.model.config = own.config
                until = own.config.pause_until
                after.model.paused_until_ns = until.unix_ns if until is not None else 0
        return verb != "UNPIN" and consumer is not None and not consumer.in_memory

    # -- streams and consumers come and go -----------------------------------------------------------------------

    def _notice_stream(self, name: str, now_ns: int) -> None:
        stream = self.jetstream.streams.get(name)
        if stream is not None and name not in self.streams:
            self.streams[name] = KnownStream(StreamModel(stream.config, now_ns))

    def _update_stream(self, known: KnownStream, now_ns: int) -> None:
        known.model.changed_ns = now_ns
        known.model.config = self.jetstream.streams[known.model.name].config
        known.model.enforce_all()

    def _notice_deleted_stream(self, name: str) -> None:
        known = self.streams.get(name)
        if known is not None and name not in self.jetstream.streams:
            del self.streams[name]
            known.life.deleted = Stage.DECIDED
            if not known.model.in_memory:
                self.leaving.append(known)

    def notice_consumers(self, known: KnownStream, now_ns: int, by_request: str = "") -> None:
        """Learn of consumers that were made or have gone."""
        stream = self.jetstream.streams[known.model.name]
        gone = [name for name in known.consumers if name not in stream.consumers]
        for name in gone:
            consumer = known.consumers.pop(name)
            may_go = name == by_request or placing.threshold_ns(consumer.model.config) > 0
            require(may_go, "a consumer goes only when asked to or long unused", known.model.name, name)
            del known.model.consumers[name]
            consumer.life.deleted = Stage.DECIDED
            if not consumer.in_memory:
                known.leaving.append(consumer)
            known.model.interest_changed()
        for name, own in stream.consumers.items():
            if name not in known.consumers:
                require(name == by_request, "a consumer comes only when asked for", name)
                model = ConsumerModel(known.model, name, own.config, 1)
                placing.place(model)
                known.model.consumers[name] = model
                known.consumers[name] = KnownConsumer(model, not own.log.enabled)

    # -- what comes out ------------------------------------------------------------------------------------------

    def saw(self, frames: list[Frame], now_ns: int) -> None:
        """Messages left the broker."""
        deliveries: list[Delivery] = []
        replies: list[Frame] = []
        for frame in frames:
            delivery = read_delivery(frame)
            if delivery is not None:
                deliveries.append(delivery)
            elif frame.subject in self.expected:
                replies.append(frame)
        # Several connections share a consumer: its own numbers tell the order. Several listeners of a push consumer get
        # the same message.
        unique = {(delivery.stream, delivery.consumer, delivery.consumer_seq): delivery for delivery in deliveries}
        for _, delivery in sorted(unique.items()):
            model = self.consumer(delivery.stream, delivery.consumer)
            if model is None:
                raise Violation(f"delivered by a consumer that does not exist: {delivery}")
            model.accept_given_up(
                self.jetstream.streams[delivery.stream].consumers[delivery.consumer].state.pending, now_ns
            )
            model.delivered(delivery, now_ns)
            self.count("delivery" if delivery.deliveries == 1 else "redelivery")
        for frame in replies:
            self._reply_left(frame)

    def _reply_left(self, frame: Frame) -> None:
        expected = self.expected.pop(frame.subject)
        assert self.broker is not None
        document = replies.check_reply(expected, frame, int(self.broker.commit_count))
        if document is None:
            return
        if expected.outcome is not None:
            replies.check_publish(expected, document)
            self._check_durable(expected.outcome, expected.stream)
        elif expected.consumer is not None:
            if expected.ack_seq and expected.resets == expected.consumer.resets:
                expected.consumer.confirmed.add(expected.ack_seq)
                self.count("double ack confirmed")
        else:
            replies.check_api(expected, document)

    def _check_durable(self, outcome: Outcome, model: StreamModel | None) -> None:
        # A stream may be deleted in the commit that carries its last message.
        if model is not None and not model.in_memory and self.model(model.name) is model and not outcome.refusal:
            require(outcome.seq <= model.visible_seq, "acknowledged means durable", outcome, model.visible_seq)

    # -- commits -------------------------------------------------------------------------------------------------

    def settled(self) -> None:
        """The turn is over: what is in memory is visible."""
        for known in self.streams.values():
            if known.model.in_memory:
                known.model.visible_seq = known.model.last_seq

    def collected(self, commit: PendingCommit) -> None:
        """A commit begins. A repair carries nothing that was decided since the last one."""
        self.in_flight = commit
        if commit.repair is not None:
            return
        names = {stream.name for stream in commit.streams}
        consumers = {(consumer.stream.name, consumer.name): consumer for consumer in commit.consumers}
        for known in [*self.streams.values(), *self.leaving]:
            known.collected()
            if known.model.name in names and known.life.deleted == Stage.NONE:
                known.model.collected()
        for (stream, name), own in consumers.items():
            known_stream = self.streams.get(stream)
            if known_stream is not None and name in known_stream.consumers:
                known_stream.consumers[name].marks.collected(own.state)

    def committed(self) -> None:
        """The commit is durable."""
        assert self.broker is not None
        assert self.in_flight is not None
        is_repair = self.in_flight.repair is not None
        self.in_flight = None
        for known in [*self.streams.values(), *self.leaving]:
            name = known.model.name
            known.life.committed(is_kept=refused.is_to_be_removed(self.broker, self.jetstream.stream_path(name)))
            if not is_repair:
                known.durable_config = known.collected_config
            for consumer in [*known.consumers.values(), *known.leaving]:
                folder = self.jetstream.consumer_path(name, consumer.model.name)
                consumer.life.committed(is_kept=refused.is_to_be_removed(self.broker, folder))
                if not is_repair:
                    consumer.durable_config = consumer.collected_config
                consumer.marks.committed()
            known.leaving = [consumer for consumer in known.leaving if consumer.life.deleted != Stage.DURABLE]
            if known.model.in_flight is not None:
                known.model.committed()
        self.leaving = [known for known in self.leaving if known.life.deleted != Stage.DURABLE]

    def committing(self) -> None:
        """A commit is about to end: consumers may be given a configuration back, and go on from where they stand."""
        self._places = {}
        for stream in self.jetstream.streams.values():
            for own in stream.consumers.values():
                self._places[own] = int(own.next_seq)

    def repair_failed(self) -> None:
        """A commit was refused that only puts right what others have left: nobody waits for it."""
        self.in_flight = None

    def commit_failed(self, touched: set[str], now_ns: int) -> None:
        """The disk refused the commit, and with it everything decided since."""
        self.in_flight = None
        self.count("commit failed")
        silent = [reply for reply, expected in self.expected.items() if expected.is_silent_on_failure]
        for reply in silent:
            del self.expected[reply]
        for expected in self.expected.values():
            expected.failed = expected.failed or (expected.commit_count > 0 and not expected.is_removal)
            expected.may_fail = True
        self.leaving.extend(refused.streams_gone(self.jetstream.streams, self.streams))
        for known in self.streams.values():
            refused.take_back(self.jetstream.streams[known.model.name], known, self._places)
            for made in known.consumers.values():
                made.marks.failed()
            stream = self.jetstream.streams[known.model.name]
            if known.model.name in touched:
                known.model.failed(now_ns)
                for made in known.consumers.values():
                    made.model.taken_back(was_purged=known.model.purged_at >= 0)
                    placing.place_again(made.model, is_new=made.life.created < Stage.DURABLE)
                known.model.tidy(stream.store.is_live)
