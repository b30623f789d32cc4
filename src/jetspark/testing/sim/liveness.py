"""The faults stop: everything must come to rest in bounded time, with nothing left undone.

One client comes, listens everywhere and pulls from everybody; all acknowledge what they get. In the end every request
has its answer, every consumer has delivered what it had, nothing is owed, and work queues are empty.
"""

from __future__ import annotations

from jetspark.api.stream_config import Retention
from jetspark.testing.sim.client import SimClient
from jetspark.testing.sim.consumer_model import ConsumerModel
from jetspark.testing.sim.violation import Violation, require
from jetspark.testing.sim.wire import AckOp, PullOp, api_bytes, publish_bytes
from jetspark.testing.sim.world import World

SECOND_NS = 1_000_000_000
# Without progress. Longer than any wait, pause or pin a configuration asks for, several times over.
VIRTUAL_TIME_MAX_NS = 150 * SECOND_NS
STEP_NS = SECOND_NS // 2
BATCH = 1000


def come_to_rest(world: World) -> None:
    """Let everything happen that is still to happen, and see that it did."""
    world.faults_on = False
    world.empty_disk()
    world.note("the faults stop")
    for client in [client for client in world.clients if client.is_stalled]:
        world.stall(client)
    helper = world.connect()
    listened: set[tuple[str, str]] = set()
    until_ns = world.now_ns + VIRTUAL_TIME_MAX_NS
    furthest: dict[ConsumerModel, int] = {}
    while not is_at_rest(world):
        reached = {consumer: consumer.next_seq for consumer in consumers(world)}
        if any(seq > furthest.get(consumer, 0) for consumer, seq in reached.items()):
            # A consumer that may owe one message at a time needs its time, and gets on; another may end meanwhile.
            furthest = reached
            until_ns = world.now_ns + VIRTUAL_TIME_MAX_NS
        require(world.now_ns < until_ns, "everything comes to rest", *what_is_left(world))
        listen_everywhere(world, helper, listened)
        pull_everywhere(world, helper)
        flush(world)
        acknowledge_all(world)
        flush(world)
        world.advance(STEP_NS, on_time=True)
    check_at_rest(world)


def flush(world: World) -> None:
    """Deliver everything that is on its way, and finish every commit."""
    while any(client.outgoing for client in world.clients) or world.commit is not None:
        for client in world.clients:
            if client.outgoing:
                world.deliver_input(client, len(client.outgoing), 0.0)
        world.finish_commit()


def consumers(world: World) -> list[ConsumerModel]:
    """Every consumer there is."""
    return [consumer for known in world.witness.streams.values() for consumer in known.model.consumers.values()]


def is_at_rest(world: World) -> bool:
    """Is there nothing left to do?"""
    if world.commit is not None or any(client.outgoing for client in world.clients):
        return False
    return not any(consumer.count_pending() or consumer.pending for consumer in consumers(world))


def what_is_left(world: World) -> list[str]:
    """What did not come to rest, for the report."""
    return [
        f"{consumer.stream.name} > {consumer.name}: {consumer.count_pending()} to deliver, owed {consumer.pending}"
        for consumer in consumers(world)
        if consumer.count_pending() or consumer.pending
    ]


def check_at_rest(world: World) -> None:
    """Everything is done: what should be gone is, and everybody has an answer."""
    for known in world.witness.streams.values():
        model = known.model
        if model.config.retention == Retention.WORKQUEUE:
            for seq in [seq for seq in model.seqs if seq not in model.came_late]:
                subject = model.messages[seq].subject
                readers = [consumer for consumer in model.consumers.values() if consumer.accepts(subject)]
                left = [c.name for c in readers if seq not in c.given_up and seq >= model.skipped_below]
                require(not left, "a work queue that was worked off is empty", model.name, seq, left)
    alive = tuple(client.inbox + b"." for client in world.clients)
    unanswered = [reply for reply in world.witness.expected if reply.startswith(alive)]
    if unanswered:
        raise Violation(f"every request is answered: {unanswered[0]!r} {world.witness.expected[unanswered[0]]}")


def listen_everywhere(world: World, helper: SimClient, listened: set[tuple[str, str]]) -> None:
    """Listen on every push consumer's subject."""
    for consumer in consumers(world):
        place = (consumer.config.deliver_subject, consumer.config.deliver_group)
        if place[0] and place not in listened:
            listened.add(place)
            helper.listen(place[0].encode(), place[1].encode())


def pull_everywhere(world: World, helper: SimClient) -> None:
    """Pull from every consumer that has something and nobody of ours waiting."""
    for consumer in consumers(world):
        if consumer.config.deliver_subject or not (consumer.count_pending() or consumer.pending):
            continue
        document = helper.pull_document(consumer, {"batch": BATCH, "expires": STEP_NS - 1})
        reply = helper.new_reply()
        verb = f"CONSUMER.MSG.NEXT.{consumer.stream.name}.{consumer.name}"
        stream = consumer.stream.name
        helper.send(PullOp(api_bytes(verb, reply, document), reply, stream=stream, consumer=consumer.name))


def acknowledge_all(world: World) -> None:
    """Acknowledge everything that came, every other one with a reply."""
    for client in world.clients:
        client.read(len(client.mailbox))
        for number, (token, delivery) in enumerate(client.held):
            reply = client.new_reply() if number % 2 else b""
            data = publish_bytes(token, reply, b"", b"+ACK")
            stream, consumer = delivery.stream, delivery.consumer
            client.send(AckOp(data, reply, stream=stream, consumer=consumer, seq=delivery.seq, body=b"+ACK"))
        client.held.clear()
