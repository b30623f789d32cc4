"""What is still there after the server stopped and came back."""

from __future__ import annotations

from tests.conformance.scenario import Run, Server, scenario

SECOND = 1_000_000_000
OWN = Server(own=True)


def restart(run: Run, *, kill: bool = False) -> None:
    for client in run.clients:
        client.close()
    run.server.restart(kill=kill)
    run.reconnect()


@scenario(OWN)
def streams_and_messages_survive(run: Run) -> None:
    run.stream("S", max_msgs=100, description="kept", metadata={"a": "b"})
    run.fill("S.a", 5)
    run.publish("S.b", "with headers", [("A", "1")])
    run.api("STREAM.MSG.DELETE.S", {"seq": 3})
    restart(run)
    run.stream_info("S", {"deleted_details": True, "subjects_filter": ">"})
    run.api("STREAM.MSG.GET.S", {"seq": 6})
    run.api("STREAM.MSG.GET.S", {"seq": 3})
    run.publish("S.a", "after")


@scenario(OWN)
def consumers_survive(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 6)
    run.consumer("S", "C", quiet=True)
    first, second, third = run.fetch("S", "C", 3)
    run.ack(first)
    run.ack(third)
    restart(run)
    run.consumer_info("S", "C")
    run.ack(second)
    run.consumer_info("S", "C")
    run.fetch("S", "C", 1)


@scenario(OWN)
def redelivery_continues(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 2)
    run.consumer("S", "C", ack_wait=SECOND, quiet=True)
    run.fetch("S", "C", 2)
    restart(run)
    run.fetch("S", "C", 2)
    run.consumer_info("S", "C")


@scenario(OWN)
def message_ids_survive(run: Run) -> None:
    run.stream("S", quiet=True)
    run.publish("S.a", "1", [("Nats-Msg-Id", "one")])
    restart(run)
    run.publish("S.a", "1", [("Nats-Msg-Id", "one")])
    run.publish("S.a", "2", [("Nats-Expected-Last-Msg-Id", "one")])


@scenario(OWN)
def memory_streams_are_gone(run: Run) -> None:
    run.stream("M", storage="memory", quiet=True)
    run.fill("M.a", 2)
    restart(run)
    run.stream_info("M")
    run.api("STREAM.NAMES")


@scenario(OWN)
def deleted_and_purged_stays_so(run: Run) -> None:
    run.stream("S", quiet=True)
    run.stream("T", quiet=True)
    run.fill("S.a", 4)
    run.api("STREAM.PURGE.S")
    run.api("STREAM.DELETE.T")
    restart(run)
    run.stream_info("S")
    run.stream_info("T")
    run.publish("S.a", "continues")


@scenario(OWN)
def updates_survive(run: Run) -> None:
    run.stream("S", quiet=True)
    run.update_stream("S", max_msgs=2, subjects=["S.>", "more"])
    run.consumer("S", "C", quiet=True)
    run.consumer("S", "C", description="updated", max_ack_pending=7)
    run.fill("more", 3)
    restart(run)
    run.stream_info("S")
    run.consumer_info("S", "C")


@scenario(OWN)
def first_seq_and_rollups_survive(run: Run) -> None:
    run.stream("S", first_seq=1000, allow_rollup_hdrs=True, quiet=True)
    run.fill("S.a", 3)
    run.publish("S.a", "sum", [("Nats-Rollup", "sub")])
    restart(run)
    run.stream_info("S")
    run.publish("S.a", "next")


@scenario(OWN)
def paused_and_priority_consumers_survive(run: Run) -> None:
    run.stream("S", quiet=True)
    run.consumer("S", "P", pause_until="2099-01-01T00:00:00Z", quiet=True)
    run.consumer("S", "G", priority_policy="overflow", priority_groups=["A"], quiet=True)
    restart(run)
    run.consumer_info("S", "P")
    run.consumer_info("S", "G")


@scenario(OWN)
def interest_and_workqueue_survive(run: Run) -> None:
    run.stream("I", retention="interest", quiet=True)
    run.stream("W", retention="workqueue", quiet=True)
    run.consumer("I", "C", quiet=True)
    run.fill("I.a", 2)
    run.fill("W.a", 2)
    run.ack(run.fetch("I", "C", 1)[0])
    run.until("STREAM.INFO.I", lambda document: document["state"]["messages"] == 1)
    restart(run)
    run.stream_info("I")
    run.stream_info("W")
    run.ack(run.fetch("I", "C", 1)[0])
    run.until("STREAM.INFO.I", lambda document: document["state"]["messages"] == 0)


@scenario(OWN)
def a_killed_server_keeps_what_it_acknowledged(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 20)
    restart(run, kill=True)
    run.stream_info("S")
    run.api("STREAM.MSG.GET.S", {"seq": 20})
    run.publish("S.a", "after")


@scenario(OWN)
def expiry_continues_after_a_restart(run: Run) -> None:
    run.stream("S", max_age=SECOND, quiet=True)
    run.fill("S.a", 3)
    restart(run)
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 0)


@scenario(OWN)
def mirrors_and_sources_continue(run: Run) -> None:
    run.stream("O", subjects=["o.>"], quiet=True)
    run.stream("M", mirror={"name": "O"}, quiet=True)
    run.stream("S", sources=[{"name": "O"}], quiet=True)
    run.fill("o.a", 2)
    run.until("STREAM.INFO.M", lambda document: document["state"]["messages"] == 2)
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 2)
    restart(run)
    run.fill("o.a", 1)
    run.until("STREAM.INFO.M", lambda document: document["state"]["messages"] == 3, timeout_s=25.0)
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 3, timeout_s=25.0)


@scenario(OWN)
def ephemeral_consumers_survive_until_their_threshold(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 1)
    run.consumer("S", "E", durable_name=None, inactive_threshold=30 * SECOND, quiet=True)
    restart(run)
    run.consumer_info("S", "E")
    run.fetch("S", "E", 1)
