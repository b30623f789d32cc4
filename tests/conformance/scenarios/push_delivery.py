"""Push consumers: binding, heartbeats, flow control, rate limits, groups, inactivity."""

from __future__ import annotations

from typing import Any

from tests.conformance.scenario import Run, scenario
from tests.conformance.wire import Frame

SECOND = 1_000_000_000


def filled(run: Run, count: int = 3) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", count)


@scenario()
def delivers_while_someone_listens(run: Run) -> None:
    filled(run)
    run.consumer("S", "P", deliver_subject="d")
    run.consumer_info("S", "P")
    listener = run.subscribe("d")
    for message in listener.take(3):
        run.ack(message)
    run.consumer_info("S", "P")
    run.publish("S.b", "live")
    listener.take(1)
    listener.close()
    run.until("CONSUMER.INFO.S.P", lambda document: not document.get("push_bound"))


@scenario()
def ack_none_push(run: Run) -> None:
    filled(run)
    listener = run.subscribe("d")
    run.consumer("S", "P", deliver_subject="d", ack_policy="none")
    listener.take(3)
    run.consumer_info("S", "P")


@scenario()
def listening_before_creation(run: Run) -> None:
    filled(run)
    listener = run.subscribe("d.x")
    run.consumer("S", "P", deliver_subject="d.x", deliver_policy="new", quiet=True)
    run.publish("S.a", "live")
    listener.take(1)


@scenario()
def a_wildcard_listener_does_not_bind(run: Run) -> None:
    filled(run)
    listener = run.subscribe("d.*")
    run.consumer("S", "P", deliver_subject="d.x", quiet=True)
    listener.nothing()
    run.consumer_info("S", "P")


@scenario()
def redelivery_to_a_push_consumer(run: Run) -> None:
    filled(run, 2)
    listener = run.subscribe("d")
    run.consumer("S", "P", deliver_subject="d", ack_wait=SECOND // 4, quiet=True)
    listener.take(4)
    run.consumer_info("S", "P")


@scenario()
def rebinding_continues(run: Run) -> None:
    filled(run)
    run.consumer("S", "P", deliver_subject="d", max_ack_pending=2, quiet=True)
    listener = run.subscribe("d")
    first, _second = listener.take(2)
    run.ack(first)
    listener.take(1)
    listener.close()
    run.until("CONSUMER.INFO.S.P", lambda document: not document.get("push_bound"))
    run.publish("S.a", "while away")
    run.consumer_info("S", "P")


@scenario()
def deliver_group_needs_a_queue_subscription(run: Run) -> None:
    filled(run)
    run.consumer("S", "P", deliver_subject="d", deliver_group="g", quiet=True)
    plain = run.subscribe("d")
    plain.nothing()
    run.consumer_info("S", "P")
    member = run.subscribe("d", queue="g")
    member.take(3)
    run.until("CONSUMER.INFO.S.P", lambda document: bool(document.get("push_bound")))


@scenario()
def others_hear_what_a_deliver_group_is_sent(run: Run) -> None:
    filled(run)
    listeners = [run.subscribe("d"), run.subscribe("d.>"), run.subscribe("*"), run.subscribe("d", queue="other")]
    run.consumer("S", "P", deliver_subject="d", deliver_group="g", idle_heartbeat=SECOND // 4, quiet=True)
    listeners[0].nothing()
    member = run.subscribe("d", queue="g")
    for listener in (member, listeners[0], listeners[2], listeners[3]):
        listener.take(4)
    listeners[1].nothing()


@scenario()
def idle_heartbeats_while_bound(run: Run) -> None:
    filled(run)
    listener = run.subscribe("d")
    run.consumer("S", "P", deliver_subject="d", idle_heartbeat=SECOND // 4, quiet=True)
    listener.take(5)


@scenario()
def idle_heartbeats_with_a_filter(run: Run) -> None:
    run.stream("S", quiet=True)
    for subject in ("S.a", "S.b", "S.b"):
        run.fill(subject, 1)
    listener = run.subscribe("d")
    run.consumer("S", "P", deliver_subject="d", filter_subject="S.a", idle_heartbeat=SECOND // 4, quiet=True)
    listener.take(2)


@scenario()
def flow_control_asks_and_stalls(run: Run) -> None:
    run.stream("S", quiet=True)
    for _ in range(24):
        run.client.request("S.a", b"x" * 100_000)
    listener = run.subscribe("d")
    config: dict[str, Any] = {"deliver_subject": "d", "flow_control": True, "idle_heartbeat": SECOND // 2}
    run.consumer("S", "P", ack_policy="none", **config)
    frames: list[Frame] = []
    while not frames or not frames[-1].header("Nats-Consumer-Stalled"):
        frames.append(run.client.next_message(listener.sid))
    statuses = [number for number, frame in enumerate(frames) if frame.status]
    run.record("frames", positions=statuses, last=run.message(frames[-1]))
    asked = frames[statuses[0]]
    run.record("asked", frame=run.message(asked), same=asked.reply == frames[-1].header("Nats-Consumer-Stalled"))
    run.client.publish(asked.reply)
    run.record("resumed", frame=run.message(run.client.next_message(listener.sid)))


@scenario()
def rate_limit_slows_but_delivers(run: Run) -> None:
    run.stream("S", max_msg_size=2000, quiet=True)
    run.fill("S.a", 4, "x" * 1000)
    listener = run.subscribe("d")
    run.consumer("S", "P", deliver_subject="d", ack_policy="none", rate_limit_bps=80_000)
    listener.take(4)


@scenario()
def replay_original_on_push(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 1)
    run.client.drain_arrived(0.4)
    run.fill("S.a", 1)
    listener = run.subscribe("d")
    run.consumer("S", "P", deliver_subject="d", ack_policy="none", replay_policy="original", quiet=True)
    listener.take(1)
    listener.nothing(0.2)
    listener.take(1)


@scenario()
def headers_only_on_push(run: Run) -> None:
    filled(run, 1)
    listener = run.subscribe("d")
    run.consumer("S", "P", deliver_subject="d", headers_only=True, quiet=True)
    listener.take(1)


@scenario()
def unused_ephemeral_push_consumers_are_removed(run: Run) -> None:
    filled(run, 1)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.*")
    listener = run.subscribe("d")
    name = run.ephemeral("S", deliver_subject="d", ack_policy="none", inactive_threshold=SECOND // 4)
    listener.take(1)
    listener.close()
    advisories.take(1)
    run.consumer_info("S", name)


@scenario()
def unused_pull_consumers_are_removed(run: Run) -> None:
    filled(run, 1)
    advisories = run.subscribe("$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.*")
    run.consumer("S", "D", inactive_threshold=SECOND // 4, quiet=True)
    advisories.take(1)
    run.consumer_info("S", "D")


@scenario()
def waiting_requests_keep_a_consumer_alive(run: Run) -> None:
    run.stream("S", quiet=True)
    run.consumer("S", "D", durable_name=None, inactive_threshold=SECOND // 4, quiet=True)
    inbox = run.pull("S", "D", {"batch": 1, "expires": 2 * SECOND})
    inbox.take(1)
    run.consumer_info("S", "D")


@scenario()
def ordered_consumers_as_clients_make_them(run: Run) -> None:
    filled(run)
    listener = run.subscribe("d")
    name = run.ephemeral(
        "S",
        deliver_subject="d",
        ack_policy="none",
        max_deliver=1,
        flow_control=True,
        idle_heartbeat=5 * SECOND,
        mem_storage=True,
        num_replicas=1,
    )
    listener.take(3)
    run.consumer_info("S", name)
    run.api(f"CONSUMER.DELETE.S.{name}")


@scenario()
def two_push_consumers_are_independent(run: Run) -> None:
    filled(run)
    one, two = run.subscribe("d1"), run.subscribe("d2")
    run.consumer("S", "P1", deliver_subject="d1", quiet=True)
    run.consumer("S", "P2", deliver_subject="d2", deliver_policy="last", quiet=True)
    one.take(3)
    two.take(1)
