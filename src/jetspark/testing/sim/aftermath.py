"""After a start: what must be there, what may be, and nothing else.

What was durable and not removed since is there, unchanged. Whatever else is there was really published, and the
messages that survived an unfinished commit are its first ones. A consumer stands where one of its commits left it.
The models then go on from what was found.
"""

from __future__ import annotations

from jetspark.api.consumer_config import DeliverPolicy
from jetspark.api.stream_config import Retention
from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.stream import Stream
from jetspark.store.view import RecordView
from jetspark.testing.sim import model as models
from jetspark.testing.sim.consumer_marks import StateCopy, copy_of
from jetspark.testing.sim.consumer_model import ConsumerModel, Owed
from jetspark.testing.sim.known import KnownConsumer, KnownStream
from jetspark.testing.sim.life import Stage
from jetspark.testing.sim.model import Message, StreamModel
from jetspark.testing.sim.recounts import live_messages
from jetspark.testing.sim.violation import require
from jetspark.testing.sim.witness import Witness


def take_stock(witness: Witness, *, is_certain: bool) -> None:
    """Compare what a start found with what it must have found, and go on from there. Without certainty (a power failure
    where nothing was synced, a disk that rots) messages may be missing, but none is there that was never published."""
    found = dict(witness.jetstream.streams)
    lives = [*witness.streams.values(), *witness.leaving]
    witness.streams = {}
    witness.leaving = []
    witness.expected = {}
    witness.in_flight = None
    for known in lives:
        if known.model.in_memory:
            continue
        stream = found.get(known.model.name)
        if stream is None or stream.config.description != known.model.config.description:
            require(not known.life.must_exist, "a stream that was made is there after a crash", known.model.name)
            continue
        require(known.life.may_exist, "a stream that was deleted stays deleted", known.model.name)
        del found[known.model.name]
        compare_stream(stream, known, is_certain=is_certain)
        witness.streams[known.model.name] = known
    require(not found, "no stream comes from nowhere", list(found))


def compare_stream(stream: Stream, known: KnownStream, *, is_certain: bool) -> None:
    """One stream and its consumers."""
    model = known.model
    messages = live_messages(stream, model)
    model.config = known.collected_config = known.durable_config = stream.config
    for seq, message in messages.items():
        require(message in model.published.get(seq, []), "what is there was published", model.name, message)
    if is_certain and known.life.deleted <= Stage.DECIDED:
        check_durable(model, messages, stream)
    adopt(model, stream, messages, is_certain=is_certain)
    compare_consumers(stream, known, is_certain=is_certain)
    known.life.recovered()


def check_durable(model: StreamModel, found: dict[int, Message], stream: Stream) -> None:
    """Everything durable is there once, and nothing that was never published."""
    durable = model.durable
    name = model.name
    last_seq = int(stream.store.last_seq)
    require(last_seq >= durable.last_seq, "sequences are not used twice", name, last_seq, durable.last_seq)
    for message in still_due(model, found):
        if is_wanted(stream, message):
            require(found.get(message.seq) == message, "a durable message survives", name, message, list(found))
    for seq, message in found.items():
        if seq in durable.messages:
            require(message == durable.messages[seq], "a durable message is unchanged", name, message)
            continue
        require(seq > durable.last_seq, "a message that was removed does not come back", name, message)
        require(message in model.appended.get(seq, []), "what is there was published", name, message)
    if model.in_flight is not None and not model.has_failed and found:
        survivors_end = max(found)
        for seq, message in model.in_flight.messages.items():
            is_due = durable.last_seq < seq < survivors_end and seq not in model.removed
            if is_due and is_wanted(stream, message):
                require(seq in found, "of an unfinished commit the first messages survive", name, seq, list(found))


def is_wanted(stream: Stream, message: Message) -> bool:
    """Is there a consumer that has yet to deliver this message? Whoever else wanted it was kept in memory only."""
    if stream.config.retention != Retention.INTEREST:
        return True
    for consumer in stream.consumers.values():
        if not consumer.filter.accepts(message.subject):
            continue
        if consumer.config.deliver_policy == DeliverPolicy.LAST_PER_SUBJECT:
            if consumer.needs(message.seq):
                return True
        elif message.seq > consumer.state.delivered_stream_seq:
            return True
    return False


def still_due(model: StreamModel, found: dict[int, Message]) -> list[Message]:
    """Durable messages that nobody removed and that, with those found, are within the limits."""
    below = model.skipped_below if model.config.retention != Retention.LIMITS else 0
    excused = model.removed.keys() | model.came_late
    durable = {seq: message for seq, message in model.durable.messages.items() if seq not in excused and seq >= below}
    together = StreamModel(model.config, 0)
    for _, message in sorted({**durable, **found}.items()):
        together.put(message)
    together.enforce_all()
    return [message for seq, message in durable.items() if seq in together.messages]


def adopt(model: StreamModel, stream: Stream, found: dict[int, Message], *, is_certain: bool) -> None:
    """Go on from what is there."""
    model.messages = dict(found)
    model.seqs = list(found)
    model.byte_count = sum(model.size_of(m.subject, m.header, m.payload) for m in found.values())
    model.last_seq = int(stream.store.last_seq)
    model.last_ts_ns = int(stream.store.last_ts_ns)
    model.ids = find_ids(model, stream, found, is_certain=is_certain)
    last = found.get(model.last_seq)
    model.last_id = last.message_id if last is not None else b""
    model.failed_until_ns = 0
    model.changed_ns = int(stream.broker.now_ns)
    model.consumers = {}
    model.settle_durable()
    for seq, removed in removed_at_start(stream).items():
        # Gone by a rule, and back if the first commit fails.
        model.durable.messages[seq] = removed
        model.removed[seq] = model.collected_count
        if model.config.retention == Retention.WORKQUEUE:
            model.done[seq] = model.collected_count


def removed_at_start(stream: Stream) -> dict[int, Message]:
    """What the disk still had and a limit or a consumer took away at the start."""
    store = stream.store
    view = RecordView()
    found: dict[int, Message] = {}
    for seq in store.undo_removed:
        require(store.move_near(seq), "a removal that is not durable can be undone", stream.name, seq)
        block = store.near
        if not block.has_data or not block.has_index:
            store.load(block)
        block.read(seq - block.base_seq, view)
        found[seq] = models.message(int(view.seq), view.subject, view.header(), view.payload(), int(view.ts_ns))
    return found


def find_ids(
    model: StreamModel, stream: Stream, found: dict[int, Message], *, is_certain: bool
) -> dict[bytes, tuple[int, int]]:
    """The ids the stream knows: those of all messages within the window, and perhaps of some that have just left."""
    now_ns = int(stream.broker.now_ns)
    before = model.ids
    known = {name: (int(one.seq), int(one.ts_ns)) for name, one in stream.dedupe._known.items()}
    # An id that came past the window of an older one made the stream forget that, wherever the clock was set since.
    latest_ns = max([now_ns, *(message.ts_ns for message in found.values() if message.message_id)])
    for message in found.values():
        if message.message_id and message.ts_ns + model.config.duplicate_window > latest_ns:
            entry = known.get(message.message_id)
            require(entry is not None and entry[0] >= message.seq, "ids survive a start", model.name, message, entry)
    for name, (seq, _) in known.items() if is_certain else ():
        published = [*model.appended.get(seq, []), *filter(None, (model.durable.messages.get(seq), found.get(seq)))]
        # One whose message went at the last start may still be known.
        is_true = before.get(name, (0, 0))[0] == seq or any(message.message_id == name for message in published)
        require(is_true, "an id belongs to its message", model.name, name, seq)
    return known


def compare_consumers(stream: Stream, known: KnownStream, *, is_certain: bool) -> None:
    """The consumers of one stream."""
    found = dict(stream.consumers)
    lives = [*known.consumers.values(), *known.leaving]
    known.consumers = {}
    known.leaving = []
    for consumer in lives:
        own = found.get(consumer.model.name)
        if own is None or own.config.description != consumer.model.config.description:
            is_kept = not consumer.in_memory and consumer.life.must_exist and known.life.must_exist
            require(not is_kept, "a consumer that was made is there after a crash", stream.name, consumer.model.name)
            continue
        require(consumer.life.may_exist, "a consumer that was deleted stays deleted", consumer.model.name)
        del found[consumer.model.name]
        if is_certain:
            compare_state(own, consumer)
        else:
            consumer.model.confirmed.clear()
        adopt_consumer(own, consumer, known.model)
        known.consumers[consumer.model.name] = consumer
        known.model.consumers[consumer.model.name] = consumer.model
    require(not found, "no consumer comes from nowhere", list(found))


def compare_state(own: Consumer, known: KnownConsumer) -> None:
    """The consumer's state is one that was sent to the disk."""
    now = copy_of(own.state)
    candidates = known.marks.candidates()
    if known.life.created < Stage.DURABLE or known.life.deleted > Stage.DECIDED:
        # Half made or half deleted: it may begin anew.
        return
    stands = any(is_same(now, candidate, own) for candidate in candidates)
    require(stands, "a consumer stands where a commit left it", own.name, now, candidates)


def is_same(now: StateCopy, copy: StateCopy, own: Consumer) -> bool:
    """Is this what the recorded state comes to, when messages that are gone are no longer owed?"""
    store = own.stream.store
    if now.delivered != copy.delivered:
        return False
    live = {seq: entry for seq, entry in copy.pending.items() if store.is_live(seq)}
    if live != {seq: entry for seq, entry in now.pending.items() if store.is_live(seq)}:
        return False
    # What is no longer owed may have moved the floor.
    is_moved = len(live) < len(copy.pending)
    # A message that was given up may have left by a limit at the start.
    given_up = {seq: count for seq, count in copy.redelivered.items() if store.is_live(seq)}
    return is_moved or (now.floor == copy.floor and now.redelivered == given_up)


def adopt_consumer(own: Consumer, known: KnownConsumer, stream: StreamModel) -> None:
    """Go on from where it stands."""
    before = known.model
    model = ConsumerModel(stream, before.name, own.config, int(own.next_seq))
    model.first_list = list(own.first_list[own.first_list_at :])
    for seq, entry in own.state.pending.items():
        deliveries = int(entry.deliveries)
        model.pending[seq] = Owed(deliveries, int(entry.delivered_ts_ns) + model.wait_ns(deliveries))
    model.pending_before = len(model.pending)
    model.list_until_seq = int(own.list_until_seq)
    model.asked_seq = int(own.asked_seq)
    model.given_up = {seq for seq in own.state.redelivered if seq not in own.state.pending}
    model.consumer_seq = int(own.state.delivered_consumer_seq)
    model.delivered_seq = int(own.state.delivered_stream_seq)
    model.floor_seq = int(own.state.floor_stream_seq)
    until = own.config.pause_until
    model.paused_until_ns = until.unix_ns if until is not None else 0
    model.confirmed = before.confirmed
    model.settled = {seq for seq in before.settled if seq < model.next_seq and seq not in model.pending}
    back = {seq for seq in before.confirmed if seq in own.state.pending}
    require(not back, "what was confirmed is not owed again", own.name, back)
    if stream.config.retention == Retention.WORKQUEUE:
        left = before.confirmed & set(stream.seqs)
        require(not left, "an acknowledged message of a work queue is gone", own.name, left)
    known.model = model
    known.collected_config = known.durable_config = own.config
    known.marks.recovered(own.state)
    known.life.recovered()
    if own.log.size == 0:
        # Made, but nothing is written down yet of where it stands.
        known.life.created = Stage.IN_FLIGHT
