"""Between loop, broker and disk: what waits for what, and what happens when one of them is slow."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import threading
from typing import Any

import pytest
from tests.server.harness import Running, StartServer, WireClient

from jetspark.store import disk
from jetspark.store.disk import Disk, DiskOp, FileDisk


class HeldDisk(Disk):
    """Real files behind a gate: while it is shut, commits wait; when it is full, appends fail."""

    def __init__(self) -> None:
        self._files = FileDisk()
        self.gate = threading.Event()
        self.gate.set()
        self.is_full = False

    def perform(self, op: DiskOp) -> None:
        self.gate.wait()
        if self.is_full and op.kind == disk.APPEND:
            raise OSError(errno.ENOSPC, "No space left on device", op.path)
        self._files.perform(op)

    def read(self, path: str, offset: int, size: int) -> bytes:
        return self._files.read(path, offset, size)

    def read_all(self, path: str) -> bytes:
        return self._files.read_all(path)

    def list_dir(self, path: str) -> list[str]:
        return self._files.list_dir(path)

    def size(self, path: str) -> int:
        return self._files.size(path)

    def exists(self, path: str) -> bool:
        return self._files.exists(path)


async def request(client: WireClient, subject: str, document: dict[str, Any]) -> dict[str, Any]:
    body = json.dumps(document)
    client.send(f"PUB {subject} _INBOX.1 {len(body)}", body)
    header = await client.line()
    assert header.startswith("MSG _INBOX.1 "), header
    answer: dict[str, Any] = json.loads(await client.line())
    return answer


async def with_stream(running: Running, **config: Any) -> WireClient:
    """A client that has made a stream and listens on its inbox."""
    client = await running.login(headers=True)
    client.send("SUB _INBOX.1 1")
    created = await request(client, "$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["s.>"], **config})
    assert "error" not in created, created
    return client


async def test_an_acknowledgement_waits_for_the_disk_and_other_work_does_not(start_server: StartServer) -> None:
    held = HeldDisk()
    running = await start_server(jetstream=True, disk=held)
    client = await with_stream(running)
    held.gate.clear()

    client.send("PUB s.1 _INBOX.1 1", "x")

    assert await client.until_pong() == [], "nothing is acknowledged while the disk has not answered"
    held.gate.set()
    assert (await client.line()).startswith("MSG _INBOX.1 1 ")
    assert json.loads(await client.line())["seq"] == 1


async def test_what_arrives_during_a_commit_shares_the_next_one(start_server: StartServer) -> None:
    held = HeldDisk()
    running = await start_server(jetstream=True, disk=held)
    client = await with_stream(running)
    held.gate.clear()
    before = running.server.broker.commit_count

    client.send("PUB s.1 _INBOX.1 1", "x")
    await client.until_pong()
    for _ in range(100):
        client.send("PUB s.1 _INBOX.1 1", "x")
    await client.until_pong()
    held.gate.set()

    for _ in range(202):
        await client.line()
    assert running.server.broker.commit_count - before == 2


async def test_publishers_are_not_read_while_the_disk_is_far_behind(start_server: StartServer) -> None:
    held = HeldDisk()
    running = await start_server(jetstream=True, disk=held)
    running.server.edge.uncommitted_bytes_max = 1_000_000
    client = await with_stream(running)
    held.gate.clear()
    connection = next(iter(running.server.edge.connections.values()))

    payload = "x" * 100_000
    client.send("PUB s.1 _INBOX.1 1", "x")
    await client.until_pong()
    for _ in range(50):
        client.send("PUB s.1 _INBOX.1 100000", payload)
    await asyncio.wait_for(reading_pauses(running, connection), 5)
    held.gate.set()

    for _ in range(51):
        assert (await client.line()).startswith("MSG _INBOX.1")
        assert '"seq":' in await client.line()
    assert not connection.is_read_paused


async def reading_pauses(running: Running, connection: Any) -> None:
    """Each turn of the loop that passes lets the server read some more."""
    while not connection.is_read_paused:
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(turn.set_result, None)
        await turn


@pytest.mark.long
async def test_a_full_disk_refuses_publishes_and_recovers_when_space_returns(start_server: StartServer) -> None:
    held = HeldDisk()
    running = await start_server(jetstream=True, disk=held)
    client = await with_stream(running)
    assert (await request(client, "s.1", {}))["seq"] == 1

    held.is_full = True
    refused = await request(client, "s.1", {})
    read = await request(client, "$JS.API.STREAM.MSG.GET.S", {"seq": 1})
    held.is_full = False

    assert "error" in refused
    assert read["message"]["seq"] == 1
    assert running.server.edge.disk_error == "" or "No space left" in running.server.edge.disk_error
    assert await running.log.wait_for("No space left on device")
    accepted = await publish_until_accepted(client)
    assert accepted["seq"] == 2


async def publish_until_accepted(client: WireClient) -> dict[str, Any]:
    """The stream may hold off for a moment after a failure."""
    async with asyncio.timeout(10):
        while True:
            answer = await request(client, "s.1", {})
            if "error" not in answer:
                return answer


async def test_a_reader_that_rests_gets_every_stored_message_in_the_end(start_server: StartServer) -> None:
    running = await start_server(jetstream=True)
    client = await with_stream(running)
    payload = "y" * 50_000
    for _ in range(400):
        client.send("PUB s.1 _INBOX.1 50000", payload)
    for _ in range(800):
        await client.line()
    reader = await running.login()
    reader.send("SUB deliver 9")
    await reader.until_pong()
    reader.reader._transport.pause_reading()

    created = await request(
        client,
        "$JS.API.CONSUMER.CREATE.S",
        {"stream_name": "S", "config": {"deliver_subject": "deliver", "ack_policy": "none"}},
    )
    assert "error" not in created
    await client.until_pong()
    session = running.server.broker.sessions[2]
    await asyncio.wait_for(until_paused(session), 5)
    assert session.buffered_bytes < 8 * 1024 * 1024, "what is stored waits in the store, not in memory"
    reader.reader._transport.resume_reading()

    sequences = []
    for _ in range(400):
        sequences.append(int((await reader.line()).split()[3].split(".")[5]))
        await reader.line()
    assert sequences == list(range(1, 401))
    assert running.server.edge.slow_consumers == 0


async def until_paused(session: Any) -> None:
    while not session.paused_consumers:
        turn = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(0.001, turn.set_result, None)
        await turn


async def test_stopping_waits_for_the_disk_and_acknowledges_first(start_server: StartServer) -> None:
    held = HeldDisk()
    running = await start_server(jetstream=True, disk=held)
    client = await with_stream(running)
    held.gate.clear()
    client.send("PUB s.1 _INBOX.1 1", "x")
    await client.until_pong()

    stopping = asyncio.ensure_future(running.server.stop())
    await running.log.wait_for("Initiating JetStream Shutdown")
    held.gate.set()

    assert (await client.line()).startswith("MSG _INBOX.1 1 ")
    assert json.loads(await client.line())["seq"] == 1
    await stopping
    with contextlib.suppress(ConnectionError):
        assert await client.rest() == []


@pytest.mark.long
async def test_with_a_relaxed_interval_acknowledgements_do_not_wait_for_a_sync(start_server: StartServer) -> None:
    class CountingDisk(HeldDisk):
        def __init__(self) -> None:
            super().__init__()
            self.synced: list[str] = []
            self.has_synced = threading.Event()

        def perform(self, op: DiskOp) -> None:
            super().perform(op)
            if op.kind == disk.SYNC:
                self.synced.append(op.path)
                self.has_synced.set()

    counting = CountingDisk()
    running = await start_server(
        config='port: -1\nhost: 127.0.0.1\njetstream { sync_interval: "300ms" }\n', disk=counting
    )
    client = await with_stream(running)
    counting.has_synced.clear()
    counting.synced.clear()

    assert (await request(client, "s.1", {}))["seq"] == 1

    assert counting.synced == []
    assert await asyncio.to_thread(counting.has_synced.wait, 5)


@pytest.mark.long
async def test_memory_that_reading_took_is_given_back_when_nobody_reads(start_server: StartServer) -> None:
    first = await start_server(jetstream=True)
    client = await with_stream(first)
    for _ in range(30):
        client.send("PUB s.1 _INBOX.1 1000000", "x" * 1_000_000)
        await client.line()
        await client.line()
    await first.close()
    running = await start_server(jetstream=True)
    client = await running.login(headers=True)
    client.send("SUB _INBOX.1 1")
    cache = running.server.broker.block_cache

    for seq in range(1, 31):
        client.send(f"PUB $JS.API.STREAM.MSG.GET.S _INBOX.1 {len(str(seq)) + 8}", f'{{"seq":{seq}}}')
        await client.line()
        await client.line()

    assert cache.held_bytes > 24_000_000, "each full block came into memory"
    while cache.held_bytes > cache.budget_bytes:
        await client.until_pong()
