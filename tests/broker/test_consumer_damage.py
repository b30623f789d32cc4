"""One flipped bit anywhere in a consumer's log: what was not acknowledged is still there and is delivered again."""

from __future__ import annotations

import random
from typing import Any

import pytest

from jetspark.testing.broker_driver import BrokerDriver, FakeConnection
from jetspark.testing.memory_disk import MemoryDisk

LOG = "/store/jetstream/%24G/streams/S/obs/C/state.log"
ACK_WAIT_S = 30


class Scene:
    """A stream with a consumer C that was given messages of which some were acknowledged."""

    def __init__(self, **config: Any) -> None:
        self.disk = MemoryDisk()
        self.driver = BrokerDriver(self.disk)
        self.client = self.driver.connect()
        self.unacked: set[int] = set()
        self.acked: set[int] = set()
        self.retention = config.get("retention", "limits")
        answer = self.client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], **config})
        assert "error" not in answer, answer

    def make_consumer(self, **config: Any) -> None:
        settings = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": ACK_WAIT_S * 1_000_000_000, **config}
        answer = self.client.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": settings})
        assert "error" not in answer, answer

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.unacked.add(self.client.publish_acked("S.x", b"job")["seq"])

    def pull(self, client: FakeConnection, count: int) -> dict[int, Any]:
        client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": %d, "no_wait": true}' % count)
        messages = [message for message in client.take_messages() if not message.status]
        return {int(message.reply.split(".")[5]): message for message in messages}

    def ack(self, messages: dict[int, Any], *seqs: int) -> None:
        for seq in seqs:
            self.client.request(messages[seq].reply, b"+ACK")
            self.unacked.discard(seq)
            self.acked.add(seq)

    def save(self) -> dict[str, bytes]:
        self.driver.restart()
        return {path: bytes(content) for path, content in self.disk.files.items()}

    def check_after(self, files: dict[str, bytes], *, position: int, bit: int) -> None:
        """Start with one bit of the log flipped: all that was not acknowledged comes, before or after its wait."""
        disk = MemoryDisk()
        disk.files = {path: bytearray(content) for path, content in files.items()}
        disk.files[LOG][position] ^= 1 << bit
        driver = BrokerDriver(disk, now_ns=self.driver.now_ns)
        client = driver.connect()
        state = client.api("STREAM.INFO.S", {"deleted_details": True})["state"]
        there = set(range(state["first_seq"], state["last_seq"] + 1)) - set(state.get("deleted") or [])
        assert self.unacked <= there, (position, bit, self.unacked - there)
        found = set(self.pull(client, 1000))
        driver.advance(ACK_WAIT_S + 1)
        found |= set(self.pull(client, 1000))
        assert self.unacked <= found, (position, bit, self.unacked - found)
        if self.retention == "workqueue":
            assert not found & self.acked, (position, bit)
        answer = client.api("CONSUMER.INFO.S.C")
        assert answer["num_ack_pending"] >= len(self.unacked)
        # The log is whole again.
        driver.restart()
        assert set(self.pull(driver.connect(), 1000)) == set()
        driver.advance(ACK_WAIT_S + 1)
        assert self.unacked <= set(self.pull(driver.connect(), 1000))


def jobs(scene: Scene) -> None:
    """Deliveries and acknowledgements in several commits, with gaps."""
    scene.publish(12)
    first = scene.pull(scene.client, 3)
    scene.driver.advance(1)
    scene.ack(first, 2)
    second = scene.pull(scene.client, 4)
    scene.driver.advance(1)
    scene.ack(second, 4, 6, 7)
    third = scene.pull(scene.client, 2)
    scene.driver.advance(1)
    scene.ack(third, 9)
    scene.ack(first, 1)
    scene.publish(2)
    scene.driver.advance(1)


@pytest.mark.long
@pytest.mark.parametrize("retention", ["workqueue", "interest", "limits"])
@pytest.mark.parametrize("bit", [0, 3, 7])
def test_no_flipped_bit_loses_what_was_not_acknowledged(retention: str, bit: int) -> None:
    scene = Scene(retention=retention)
    scene.make_consumer()
    jobs(scene)
    files = scene.save()
    for position in range(len(files[LOG])):
        scene.check_after(files, position=position, bit=bit)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_no_flipped_bit_loses_a_job_whatever_happened_before(seed: int) -> None:
    rng = random.Random(seed)
    scene = Scene(retention="workqueue")
    scene.make_consumer()
    held: dict[int, Any] = {}
    for _ in range(25):
        step = rng.randrange(4)
        if step == 0:
            scene.publish(rng.randrange(1, 5))
        elif step == 1:
            held |= scene.pull(scene.client, rng.randrange(1, 4))
        elif step == 2 and held:
            seqs = rng.sample(sorted(held), rng.randrange(1, len(held) + 1))
            scene.ack(held, *seqs)
            for seq in seqs:
                del held[seq]
        else:
            scene.driver.advance(rng.choice([0.1, 1]))
    files = scene.save()
    for _ in range(40):
        scene.check_after(files, position=rng.randrange(len(files[LOG])), bit=rng.randrange(8))


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_a_job_that_was_given_up_is_not_lost_with_the_word_that_it_was(retention: str) -> None:
    scene = Scene(retention=retention)
    scene.make_consumer(max_deliver=1)
    scene.publish(3)
    held = scene.pull(scene.client, 3)
    scene.driver.advance(ACK_WAIT_S + 1)
    scene.ack(held, 2, 3)
    scene.publish(2)
    held = scene.pull(scene.client, 2)
    scene.ack(held, 4)
    files = scene.save()
    for position in range(len(files[LOG])):
        disk = MemoryDisk()
        disk.files = {path: bytearray(content) for path, content in files.items()}
        disk.files[LOG][position] ^= 4
        state = BrokerDriver(disk, now_ns=scene.driver.now_ns).connect().api("STREAM.INFO.S")["state"]
        assert (state["messages"], state["first_seq"]) == (2, 1), position


def test_what_is_below_the_floor_is_not_delivered_again() -> None:
    scene = Scene()
    scene.make_consumer()
    scene.publish(9)
    sizes = []
    for _ in range(3):
        held = scene.pull(scene.client, 3)
        scene.ack(held, *held)
        scene.driver.advance(1)
        sizes.append(len(scene.disk.files[LOG]))
    files = scene.save()
    for position in range(sizes[0], sizes[1]):
        disk = MemoryDisk()
        disk.files = {path: bytearray(content) for path, content in files.items()}
        disk.files[LOG][position] ^= 16
        driver = BrokerDriver(disk, now_ns=scene.driver.now_ns)
        driver.advance(ACK_WAIT_S + 1)
        assert scene.pull(driver.connect(), 1000) == {}
        assert any("recovered with damage to its log" in notice for notice in driver.broker.notices)


def test_damage_does_not_deliver_all_that_was_stored_before_the_consumer_began() -> None:
    scene = Scene()
    scene.publish(50)
    scene.make_consumer(deliver_policy="new")
    scene.unacked.clear()
    scene.publish(4)
    scene.pull(scene.client, 2)
    scene.driver.advance(1)
    files = scene.save()
    # In the snapshot that the log begins with.
    disk = MemoryDisk()
    disk.files = {path: bytearray(content) for path, content in files.items()}
    disk.files[LOG][60] ^= 1
    driver = BrokerDriver(disk, now_ns=scene.driver.now_ns)
    client = driver.connect()

    found = set(scene.pull(client, 1000))
    driver.advance(ACK_WAIT_S + 1)
    found |= set(scene.pull(client, 1000))

    assert found == {51, 52, 53, 54}
    assert any("recovered with damage to its log" in notice for notice in driver.broker.notices)
