"""The broker's own books against the models: after every turn the cheap ones, now and then all of them."""

from __future__ import annotations

from jetspark.api.stream_config import Discard
from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.stream import Stream
from jetspark.store.view import RecordView
from jetspark.testing.sim.consumer_model import ConsumerModel
from jetspark.testing.sim.model import Message, StreamModel, message
from jetspark.testing.sim.violation import require
from jetspark.testing.sim.witness import Witness

# Ages and lifetimes are looked at in steps; this late is late.
LATE_NS = 50_000_000
# A disk that failed is left alone for a moment, with all there is to write.
LATE_AFTER_CHANGE_NS = 350_000_000


def check_all(witness: Witness, now_ns: int, *, deep: bool) -> None:
    """Everything that can be compared right now."""
    streams = witness.jetstream.streams
    require(set(streams) == set(witness.streams), "the streams are those that were made", list(streams))
    for name, known in witness.streams.items():
        stream = streams[name]
        check_counts(stream, known.model)
        check_limits(known.model)
        if deep:
            check_content(stream, known.model)
        require(set(stream.consumers) == set(known.consumers), "the consumers are those that were made", name)
        for consumer_name, consumer in known.consumers.items():
            own = stream.consumers[consumer_name]
            check_consumer(own, consumer.model, now_ns)
            if witness.in_flight is None and not stream.is_dirty:
                # Removals make room for deliveries, but not before they are durable.
                check_busy(own, consumer.model, consumer_name)


def check_counts(stream: Stream, model: StreamModel) -> None:
    """Counters equal a recount."""
    store = stream.store
    name = model.name
    require(store.last_seq == model.last_seq, "last sequence", name, store.last_seq, model.last_seq)
    require(store.message_count == len(model.seqs), "message count", name, store.message_count, len(model.seqs))
    require(store.byte_count == model.byte_count, "byte count", name, store.byte_count, model.byte_count)
    require(store.first_seq == model.first_seq, "first sequence", name, store.first_seq, model.first_seq)
    require(store.visible_seq == model.visible_seq, "visible", name, store.visible_seq, model.visible_seq)


def check_limits(model: StreamModel) -> None:
    """The limits of the configuration hold; one that was lowered where new messages are discarded need not."""
    config = model.config
    if config.discard == Discard.NEW:
        return
    if config.max_msgs > 0:
        require(len(model.seqs) <= config.max_msgs, "no more than max_msgs", model.name)
    if config.max_bytes > 0:
        require(model.byte_count <= config.max_bytes, "no more than max_bytes", model.name)


def check_content(stream: Stream, model: StreamModel) -> None:
    """Every message, every subject."""
    store = stream.store
    found = live_messages(stream, model)
    require(list(found) == model.seqs, "live sequences", model.name, list(found), model.seqs)
    counts: dict[bytes, list[int]] = {}
    for seq, stored in found.items():
        require(stored == model.messages[seq], "stored as it was published", stored, model.messages[seq])
        counts.setdefault(stored.subject, []).append(seq)
    require(set(counts) == set(store.subjects), "subjects", model.name, sorted(store.subjects))
    for subject, seqs in counts.items():
        own = store.subjects[subject].message_count
        require(own == len(seqs), "count of a subject", model.name, subject, own, seqs)
        require(store.subject_first_seq(subject) == seqs[0], "first of a subject", model.name, subject, seqs)
        require(store.subject_last_seq(subject) == seqs[-1], "last of a subject", model.name, subject, seqs)
    if config_max := model.config.max_msgs_per_subject:
        over = [subject for subject, seqs in counts.items() if 0 < config_max < len(seqs)]
        require(not over, "no more than max_msgs_per_subject", model.name, over)


def live_messages(stream: Stream, model: StreamModel) -> dict[int, Message]:
    """What the store holds, message by message."""
    store = stream.store
    view = RecordView()
    found: dict[int, Message] = {}
    seq = store.next_live(store.first_seq)
    while seq:
        require(store.view(seq, view), "a live message can be read", model.name, seq)
        found[seq] = message(int(view.seq), view.subject, view.header(), view.payload(), int(view.ts_ns))
        seq = store.next_live(seq + 1)
    return found


def check_consumer(own: Consumer, model: ConsumerModel, now_ns: int) -> None:
    """A consumer's books."""
    state = own.state
    name = f"{model.stream.name} > {model.name}"
    model.accept_given_up(own.state.pending, now_ns)
    require(state.pending.keys() == model.pending.keys(), "what is owed", name, list(state.pending), model.pending)
    require(own.num_pending() == model.count_pending(), "pending", name, own.num_pending(), model.count_pending())
    if model.pending_max:
        allowed = max(model.pending_max, model.pending_before)
        require(len(state.pending) <= allowed, "pending within max_ack_pending", name, len(state.pending))
    require(state.delivered_consumer_seq == model.consumer_seq, "consumer sequence", name, model.consumer_seq)
    floor = int(state.floor_stream_seq)
    require(floor >= model.floor_seq, "the ack floor never falls", name, floor, model.floor_seq)
    model.floor_seq = floor
    if state.pending:
        require(floor < min(state.pending), "the ack floor is below what is owed", name, floor, list(state.pending))
    require(state.floor_consumer_seq <= state.delivered_consumer_seq, "the ack floor is at most delivered", name)


def check_busy(own: Consumer, model: ConsumerModel, name: str) -> None:
    """Whoever waits for a message that may be delivered has it."""
    if own.is_starting or own.lifecycle.is_paused or own.waits_for_drain or own.replays or own.pinning.is_needed:
        return
    if own.is_push:
        can_deliver = own.push.is_bound and not own.push.flow_control and model.config.rate_limit_bps == 0
    else:
        can_deliver = any(own.pulls.has_interest(pull) for pull in own.pulls.waiting)
    if not can_deliver:
        return
    require(
        not own.redelivery.queue, "a redelivery that is due goes to whoever waits", name, list(own.redelivery.queue)
    )
    if not model.pending_max or len(model.pending) < model.pending_max:
        waiting = model.next_new()
        require(waiting == 0, "a message that is there goes to whoever waits", name, waiting)


def mark_leaving(witness: Witness, now_ns: int) -> None:
    """Some messages have left for their age in this turn: its deliveries may have come before that or after it."""
    for name, known in witness.streams.items():
        model = known.model
        store = witness.jetstream.streams[name].store
        due = [seq for seq, kept in model.messages.items() if 0 < model.due_ns(kept) <= now_ns]
        model.leaving = {seq for seq in due if not store.is_live(seq)}


def accept_expired(witness: Witness, now_ns: int, *, on_time: bool) -> None:
    """Time has passed: messages may have left for their age, and must have if it was long ago."""
    for name, known in witness.streams.items():
        model = known.model
        store = witness.jetstream.streams[name].store
        model.leaving = set()
        for seq in list(model.seqs):
            due_ns = model.due_ns(model.messages[seq])
            if due_ns == 0:
                continue
            if not store.is_live(seq):
                require(due_ns <= now_ns, "a message lives as long as it may", name, model.messages[seq], now_ns)
                model.remove(seq)
                witness.count("expired")
            elif on_time:
                late_ns = max(max(due_ns, model.latest_due_ns(seq)) + LATE_NS, model.changed_ns + LATE_AFTER_CHANGE_NS)
                require(late_ns >= now_ns, "an expired message goes", name, model.messages[seq], now_ns)


def will_expire(witness: Witness, until_ns: int) -> bool:
    """May a message leave by then?"""
    for known in witness.streams.values():
        model = known.model
        if model.config.max_age > 0 or model.config.allow_msg_ttl:
            for kept in model.messages.values():
                if 0 < model.due_ns(kept) <= until_ns:
                    return True
    return False
