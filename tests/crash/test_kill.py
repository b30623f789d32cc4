"""A real process on a real disk, killed under load again and again: what it answered is true afterwards."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from jetspark.testing.processes import ServerProcess, jetspark_server_command
from tests.crash.load import Publisher, Wire, Worker, read_stream, run_load

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

ROUNDS = 4


async def make_stream(port: int, **config: Any) -> None:
    wire = await Wire.open(port)
    answer = await wire.request("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["load.>"], **config})
    assert "error" not in answer, answer
    wire.close()


async def make_consumer(port: int) -> None:
    wire = await Wire.open(port)
    config = {"durable_name": "work", "ack_policy": "explicit", "ack_wait": 2_000_000_000, "max_ack_pending": 5000}
    answer = await wire.request("$JS.API.CONSUMER.DURABLE.CREATE.S.work", {"stream_name": "S", "config": config})
    assert "error" not in answer, answer
    wire.close()


def check_kept(publishers: list[Publisher], found: dict[int, tuple[str, bytes]], gone: set[int]) -> None:
    """Every acknowledged message is there under its sequence, once, unless it was consumed."""
    for publisher in publishers:
        for number, seq in publisher.acked.items():
            if seq not in gone:
                assert found.get(seq) == (publisher.subject, b"%d" % number), f"{publisher.subject} {number} at {seq}"
        mine = [int(payload) for subject, payload in found.values() if subject == publisher.subject]
        assert mine == sorted(set(mine)), f"{publisher.subject} is out of order or twice there"


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_acknowledged_message_survives_kills_under_load(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    server = ServerProcess(jetspark_server_command(), store_dir=tmp_path / "store").start()
    publishers = [Publisher(f"p{number}") for number in range(3)]
    workers = [Worker("S", "work")]
    try:
        await make_stream(server.port)
        await make_consumer(server.port)
        for _ in range(ROUNDS):
            await run_load(server.port, publishers, workers, rng.randrange(1, 3000), server.kill)
            server.start()
            found = await read_stream(server.port, "S")
            assert list(found) == list(range(1, len(found) + 1)), "sequences rise by one"
            check_kept(publishers, found, set())
            assert workers[0].again == []
    finally:
        server.kill()
        server.discard()
    assert sum(len(publisher.acked) for publisher in publishers) > 0
    assert not any(publisher.refused for publisher in publishers)


async def test_a_work_queue_loses_nothing_and_repeats_nothing_confirmed(tmp_path: Path) -> None:
    rng = Random(3)
    server = ServerProcess(jetspark_server_command(), store_dir=tmp_path / "store").start()
    publishers = [Publisher("p")]
    workers = [Worker("S", "work")]
    try:
        await make_stream(server.port, retention="workqueue")
        await make_consumer(server.port)
        for _ in range(ROUNDS):
            await run_load(server.port, publishers, workers, rng.randrange(200, 3000), server.kill)
            server.start()
            assert workers[0].again == []
            await check_queue(server.port, publishers[0], workers[0].confirmed)
    finally:
        server.kill()
        server.discard()
    assert workers[0].confirmed


async def check_queue(port: int, publisher: Publisher, confirmed: set[int]) -> None:
    """What was confirmed is gone; of the rest, what is not there was acknowledged without a confirmation in time."""
    wire = await Wire.open(port)
    state = (await wire.request("$JS.API.STREAM.INFO.S", {"deleted_details": True}))["state"]
    consumer = await wire.request("$JS.API.CONSUMER.INFO.S.work")
    wire.close()
    gone = set(state.get("deleted", ())) | set(range(1, state["first_seq"]))
    assert confirmed <= gone
    never_delivered = [seq for seq in publisher.acked.values() if seq > consumer["delivered"]["stream_seq"]]
    assert not gone.intersection(never_delivered)
    assert state["last_seq"] >= max(publisher.acked.values(), default=0)


async def test_a_torn_tail_is_cut_and_reported(tmp_path: Path) -> None:
    store = tmp_path / "store"
    server = ServerProcess(jetspark_server_command(), store_dir=store).start()
    publishers = [Publisher("p")]
    try:
        await make_stream(server.port)
        await run_load(server.port, publishers, [], 500, server.kill)
        block = max(store.rglob("*.blk"), key=lambda path: int(path.stem))
        with block.open("ab") as file:
            file.write(block.read_bytes()[-40:-7])

        server.start()

        found = await read_stream(server.port, "S")
        check_kept(publishers, found, set())
        assert any("bytes of an unfinished write cut" in line for line in server.log), list(server.log)[-10:]
    finally:
        server.kill()
        server.discard()
