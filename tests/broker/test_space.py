"""What was removed leaves the disk by itself: nobody has to publish again for it."""

from typing import Any

import pytest

from jetspark.testing.broker_driver import BrokerDriver, FakeConnection
from jetspark.testing.memory_disk import MemoryDisk

FOLDER = "/store/jetstream/%24G/streams/S/msgs"


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def client(disk: MemoryDisk) -> FakeConnection:
    return BrokerDriver(disk).connect()


def make_stream(client: FakeConnection, **config: Any) -> None:
    answer = client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], **config})
    assert "error" not in answer, answer


def stored_bytes(disk: MemoryDisk) -> bytes:
    return b"".join(bytes(data) for path, data in disk.files.items() if path.startswith(FOLDER))


def fill(client: FakeConnection, count: int) -> None:
    # Blocks of such a stream are 32,000 bytes.
    for number in range(count):
        kind = "kept" if number % 4 == 0 else "other"
        assert client.publish_acked(f"S.{kind}.{number}", b"x" * 10_000)["seq"] == number + 1


def test_an_erased_message_is_overwritten_without_another_publish(client: FakeConnection, disk: MemoryDisk) -> None:
    make_stream(client)
    client.publish_acked("S.a", b"a secret nobody may read again")
    assert b"secret" in stored_bytes(disk)

    assert client.api("STREAM.MSG.DELETE.S", {"seq": 1})["success"] is True

    assert b"secret" not in stored_bytes(disk)


def test_purged_blocks_are_removed_without_another_publish(client: FakeConnection, disk: MemoryDisk) -> None:
    make_stream(client, max_bytes=100_000)
    fill(client, 9)

    assert client.api("STREAM.PURGE.S")["purged"] == 9

    assert len(stored_bytes(disk)) < 40_000


def test_every_wasteful_block_is_rewritten_without_another_publish(client: FakeConnection, disk: MemoryDisk) -> None:
    make_stream(client, max_bytes=100_000)
    fill(client, 9)

    # Nearly everything of the first two blocks, by one commit.
    assert client.api("STREAM.PURGE.S", {"filter": "S.other.>"})["purged"] == 6

    assert len(stored_bytes(disk)) < 65_000
