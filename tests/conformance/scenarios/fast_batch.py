"""Fast batches (2.14): the state of a batch is in its reply subjects."""

from __future__ import annotations

from tests.conformance.scenario import Inbox, Run, scenario


def send(run: Run, inbox: Inbox, identity: str, sequence: int | str, operation: int | str, payload: str = "x") -> None:
    reply = f"{inbox.subject}.{identity}.2.ok.{sequence}.{operation}.$FI"
    run.client.publish("S.a", payload.encode(), reply=reply)


@scenario()
def a_fast_batch_is_acknowledged_and_committed(run: Run) -> None:
    run.stream("S", allow_batched=True)
    inbox = run.subscribe(run.client.new_inbox() + ".>")
    inbox.subject = inbox.subject.removesuffix(".>")
    send(run, inbox, "b1", 1, 0)
    inbox.take(1)
    send(run, inbox, "b1", 2, 2)
    inbox.take_until_status(1)
    run.until("STREAM.INFO.S", lambda document: document["state"]["messages"] == 2)


@scenario()
def fast_batches_must_be_enabled(run: Run) -> None:
    run.stream("S")
    inbox = run.subscribe(run.client.new_inbox() + ".>")
    inbox.subject = inbox.subject.removesuffix(".>")
    send(run, inbox, "b1", 1, 0)
    inbox.take(1)
    run.stream_info("S")


@scenario()
def fast_batches_of_unknown_identity(run: Run) -> None:
    run.stream("S", allow_batched=True)
    inbox = run.subscribe(run.client.new_inbox() + ".>")
    inbox.subject = inbox.subject.removesuffix(".>")
    send(run, inbox, "b1", 5, 1)
    inbox.take(1)
    run.stream_info("S")
