"""nats-py with this server, a crash in the middle, and every number checked at the end.

Starts `jetspark server` on a free port with a temporary store. nats-py publishes numbered messages and consumes them
from a durable consumer, acknowledging each. Half way the server is killed with SIGKILL and started again on the same
store; publisher and consumer go on. Ends with status 0 only if every number adds up. Needs nats-py.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable

import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, StreamConfig

from jetspark.testing.processes import ServerProcess, server_command, server_process

STREAM = "ORDERS"
SUBJECT = "orders.new"
DURABLE = "billing"
PUBLISH_WINDOW = 100
FETCH_BATCH = 200
ACK_WAIT_S = 2.0
FINISH_TIMEOUT_S = 120.0


class Ledger:
    """What both sides were promised, to be compared with what the server has in the end."""

    def __init__(self, message_count: int) -> None:
        self.message_count = message_count
        self.sequence_of: dict[int, int] = {}  # message number -> stream sequence of its PubAck
        self.duplicate_acks = 0
        self.confirmed: set[int] = set()  # message numbers whose ack the server confirmed
        self.delivery_count = 0
        self.problems: list[str] = []

    def note_delivery(self, number: int, sequence: int) -> None:
        self.delivery_count += 1
        if number in self.confirmed:
            self.problems.append(f"message {number} came again after its ack was confirmed")
        if sequence != number:
            self.problems.append(f"message {number} was delivered with sequence {sequence}")

    def check_stream(self, messages: int, first_seq: int, last_seq: int) -> None:
        expected = (self.message_count, 1, self.message_count)
        if (messages, first_seq, last_seq) != expected:
            self.problems.append(f"the stream holds {(messages, first_seq, last_seq)}, not {expected}")
        moved = [number for number, sequence in self.sequence_of.items() if number != sequence]
        if moved or len(self.sequence_of) != self.message_count:
            self.problems.append(f"{len(self.sequence_of)} messages acked, {len(moved)} out of order")

    def check_consumer(self, ack_floor_seq: int, ack_pending: int, pending: int) -> None:
        found = (ack_floor_seq, ack_pending, pending)
        if found != (self.message_count, 0, 0):
            self.problems.append(f"the consumer ended at (ack floor, ack pending, pending) = {found}")
        if len(self.confirmed) != self.message_count:
            self.problems.append(f"{len(self.confirmed)} messages consumed, not {self.message_count}")


async def ignore_client_error(error: Exception) -> None:
    """The crash is part of the show; nats-py would print a traceback for it."""


async def connect(server: ServerProcess) -> Client:
    return await nats.connect(
        f"nats://{server.host}:{server.port}", allow_reconnect=False, error_cb=ignore_client_error
    )


async def create_stream_and_consumer(server: ServerProcess) -> None:
    async with await connect(server) as client:
        stream = client.jetstream()
        await stream.add_stream(StreamConfig(name=STREAM, subjects=["orders.*"]))
        await stream.add_consumer(
            STREAM,
            ConsumerConfig(
                durable_name=DURABLE, ack_policy=AckPolicy.EXPLICIT, ack_wait=ACK_WAIT_S, max_ack_pending=10_000
            ),
        )


async def publish_all(server: ServerProcess, ledger: Ledger, on_ack: Callable[[int], None]) -> None:
    """Publish every number that has no ack yet, in order; the message id makes a second try harmless."""
    window = asyncio.Semaphore(PUBLISH_WINDOW)

    async def publish(number: int) -> None:
        ack = await stream.publish(SUBJECT, b"%d" % number, headers={"Nats-Msg-Id": f"order-{number}"})
        ledger.sequence_of[number] = ack.seq
        ledger.duplicate_acks += bool(ack.duplicate)
        window.release()
        on_ack(len(ledger.sequence_of))

    async with await connect(server) as client, asyncio.TaskGroup() as publishing:
        stream = client.jetstream()
        for number in range(1, ledger.message_count + 1):
            if number not in ledger.sequence_of:
                await window.acquire()
                publishing.create_task(publish(number))


async def consume_all(server: ServerProcess, ledger: Ledger) -> None:
    """Fetch and double-ack until every number was confirmed once."""

    async def acknowledge(message: Msg) -> None:
        number = int(message.data)
        ledger.note_delivery(number, message.metadata.sequence.stream)
        await message.ack_sync()
        ledger.confirmed.add(number)

    async with await connect(server) as client:
        subscription = await client.jetstream().pull_subscribe_bind(DURABLE, STREAM)
        while len(ledger.confirmed) < ledger.message_count:
            try:
                messages = await subscription.fetch(FETCH_BATCH, timeout=1)
            except nats.errors.TimeoutError:
                continue
            await asyncio.gather(*(acknowledge(message) for message in messages))


async def run_until_crash(server: ServerProcess, ledger: Ledger) -> None:
    """Publish and consume until half of the messages are acked, then kill the server while both go on."""
    half_way = asyncio.Event()

    def note_half_way(acked_count: int) -> None:
        if acked_count >= ledger.message_count // 2:
            half_way.set()

    tasks = [
        asyncio.create_task(publish_all(server, ledger, note_half_way)),
        asyncio.create_task(consume_all(server, ledger)),
    ]
    await asyncio.wait_for(half_way.wait(), FINISH_TIMEOUT_S)
    # In a thread, so that the clients keep sending: messages and acks are on their way when the server dies.
    await asyncio.to_thread(server.kill)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def finish(server: ServerProcess, ledger: Ledger) -> None:
    """Publish and consume the rest, then ask the server for its own account."""
    rest = asyncio.gather(publish_all(server, ledger, lambda _: None), consume_all(server, ledger))
    await asyncio.wait_for(rest, FINISH_TIMEOUT_S)
    async with await connect(server) as client:
        state = (await client.jetstream().stream_info(STREAM)).state
        consumer = await client.jetstream().consumer_info(STREAM, DURABLE)
    ledger.check_stream(state.messages, state.first_seq, state.last_seq)
    assert consumer.ack_floor is not None
    ledger.check_consumer(consumer.ack_floor.stream_seq, consumer.num_ack_pending or 0, consumer.num_pending or 0)


async def run(command: list[str], message_count: int) -> list[str]:
    ledger = Ledger(message_count)
    started_s = time.perf_counter()
    with server_process(command) as server:
        print(f"server      pid {server.pid}, port {server.port}, empty store")
        await create_stream_and_consumer(server)
        await run_until_crash(server, ledger)
        print(f"kill -9     {len(ledger.sequence_of):,} published and acked, {len(ledger.confirmed):,} consumed")
        server.restart(kill=True)
        print(f"restarted   pid {server.pid}, port {server.port}, the same store")
        await finish(server, ledger)
    print(
        f"published   {len(ledger.sequence_of):,} messages acked,"
        f" {ledger.duplicate_acks} of them sent twice and stored once"
    )
    print(
        f"consumed    {len(ledger.confirmed):,} messages acked,"
        f" {ledger.delivery_count - len(ledger.confirmed)} delivered again because the crash lost the ack"
    )
    print(f"took        {time.perf_counter() - started_s:.1f} s")
    return ledger.problems


def main() -> int:
    parser = argparse.ArgumentParser(description="Publish, crash, restart, consume, verify.")
    parser.add_argument(
        "--messages", type=int, default=20_000, metavar="N", help="how many to publish (default: %(default)s)"
    )
    parser.add_argument("--server", choices=["jetspark", "nats-server"], default="jetspark", help="which server to run")
    options = parser.parse_args()
    command = server_command(options.server)
    if command is None:
        print(f"{options.server} is not installed")
        return 2

    problems = asyncio.run(run(command, options.messages))

    for problem in problems[:10]:
        print(f"WRONG       {problem}")
    if not problems:
        print(f"verified    all {options.messages:,} messages: none lost, none stored twice, all in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
