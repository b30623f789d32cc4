"""A disk that takes no more: publishers are told, never acknowledged; reading goes on; when there is room, so does all.

The limit is the operating system's own, on the size of each file the server writes; it is lifted while the server runs.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path

import pytest

from jetspark.testing.processes import ServerProcess, jetspark_server_command
from tests.crash.load import Wire, read_stream

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(120),
    pytest.mark.skipif(
        not hasattr(resource, "prlimit"), reason="limits of another process can be changed on Linux only"
    ),
]

FILE_SIZE_MAX = 64 * 1024
LIMITED = (
    "import os, resource, sys;"
    f"resource.setrlimit(resource.RLIMIT_FSIZE, ({FILE_SIZE_MAX}, resource.RLIM_INFINITY));"
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def limited_server(tmp_path: Path) -> ServerProcess:
    """A server that cannot write files beyond a size."""
    command = [sys.executable, "-c", LIMITED, *jetspark_server_command()]
    return ServerProcess(command, store_dir=tmp_path / "store").start()


def lift_limit(server: ServerProcess) -> None:
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


async def publish(wire: Wire, payload: bytes) -> dict[str, object]:
    inbox = wire.new_inbox()
    await wire.publish("load.p", payload, inbox)
    while True:
        to, _, answer = await wire.message()
        if to == inbox:
            document = json.loads(answer)
            assert isinstance(document, dict)
            return document


async def fill(wire: Wire, size: int) -> list[int]:
    """Publish until the disk is full; the sequences that were acknowledged."""
    acked: list[int] = []
    for number in range(2000):
        answer = await publish(wire, b"%d " % number + b"x" * size)
        if "error" in answer:
            return acked
        seq = answer["seq"]
        assert isinstance(seq, int)
        acked.append(seq)
    raise AssertionError("the disk never filled up")


async def test_publishers_are_told_reads_go_on_and_it_recovers_when_space_returns(tmp_path: Path) -> None:
    server = limited_server(tmp_path)
    try:
        wire = await Wire.open(server.port)
        await wire.request("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["load.>"]})
        acked = await fill(wire, 200)

        # Full: every publish is refused, what was acknowledged can be read.
        for _ in range(20):
            assert "error" in await publish(wire, b"x" * 200)
        message = await wire.request("$JS.API.STREAM.MSG.GET.S", {"seq": acked[-1]})
        assert message["message"]["seq"] == acked[-1]
        assert list(await read_memory(wire, "S", len(acked))) == acked

        # Room again: after a moment publishes are stored, under the next sequences.
        lift_limit(server)
        answer = await publish_until_stored(wire)
        assert answer["seq"] == acked[-1] + 1
        acked.append(acked[-1] + 1)
        wire.close()

        # And all of it is still there after a kill.
        server.restart(kill=True)
        found = await read_stream(server.port, "S")
        assert list(found) == acked
    finally:
        server.kill()
        server.discard()


async def publish_until_stored(wire: Wire) -> dict[str, object]:
    """The server leaves a disk that failed alone for a moment; ask until it has tried again."""
    async with asyncio.timeout(20):
        while True:
            answer = await publish(wire, b"more")
            if "error" not in answer:
                return answer


async def read_memory(wire: Wire, stream: str, count: int) -> list[int]:
    """Sequences delivered by a consumer kept in memory, which needs no disk."""
    config = {"ack_policy": "none", "mem_storage": True}
    made = await wire.request(f"$JS.API.CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
    assert "error" not in made, made
    request = json.dumps({"batch": count, "expires": 5_000_000_000}).encode()
    await wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{made['name']}", request, wire.new_inbox())
    found: list[int] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            _, reply, _ = await wire.message()
            if reply:
                found.append(int(reply.split(".")[5]))
    return found


async def test_a_purge_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    server = limited_server(tmp_path)
    try:
        wire = await Wire.open(server.port)
        await wire.request("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["load.>"]})
        # Too large a message leaves room for the few bytes that say what was purged.
        acked = await fill(wire, 10_000)

        answer = await wire.request("$JS.API.STREAM.PURGE.S")

        assert answer.get("success") is True, answer
        assert answer["purged"] == len(acked)
        state = (await wire.request("$JS.API.STREAM.INFO.S"))["state"]
        assert state["messages"] == 0
        wire.close()
    finally:
        server.kill()
        server.discard()


async def test_what_cannot_be_written_is_not_in_force_and_keeps_nobody_from_writing(tmp_path: Path) -> None:
    server = limited_server(tmp_path)
    # A description larger than any file may be.
    too_large = {"metadata": {"large": "x" * (FILE_SIZE_MAX + 1000)}}
    try:
        wire = await Wire.open(server.port)
        await wire.request("$JS.API.STREAM.CREATE.S", {"name": "S", "subjects": ["load.>"]})
        await wire.request("$JS.API.STREAM.CREATE.B", {"name": "B", "subjects": ["b"]})

        made = await wire.request("$JS.API.STREAM.CREATE.Q", {"name": "Q", "subjects": ["q"], **too_large})
        config = {"durable_name": "c", "ack_policy": "explicit", **too_large}
        consumer = await wire.request("$JS.API.CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
        updated = await wire.request("$JS.API.STREAM.UPDATE.B", {"name": "B", "subjects": ["b", "bb"], **too_large})

        codes = [answer["error"]["err_code"] for answer in (made, consumer, updated)]
        assert codes == [10077, 10077, 10077]
        stored = await publish_until_stored(wire)
        assert stored["seq"] == 1
        assert (await wire.request("$JS.API.STREAM.INFO.B"))["config"]["subjects"] == ["b"]
        deleted = await wire.request("$JS.API.STREAM.DELETE.B")
        assert deleted.get("success") is True, deleted
        wire.close()

        server.restart(kill=True)
        wire = await Wire.open(server.port)
        assert (await wire.request("$JS.API.STREAM.NAMES"))["streams"] == ["S"]
        assert (await wire.request("$JS.API.CONSUMER.NAMES.S"))["consumers"] == []
        wire.close()
    finally:
        server.kill()
        server.discard()
