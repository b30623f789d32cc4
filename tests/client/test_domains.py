"""Domains: a client of a leaf reaches the JetStream it names, also where both have a bucket of the same name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jetspark.client import errors, sync
from jetspark.client.aio import Connection, connect
from jetspark.errors import JetsparkError
from jetspark.testing.processes import free_ports
from tests.client.conftest import NatsServer
from tests.client.waiting import until

HUB = 'server_name: hub\njetstream {{ domain: hub }}\nleafnodes {{ listen: "127.0.0.1:{port}" }}\n'
LEAF = (
    'server_name: leaf\njetstream {{ domain: leaf }}\nleafnodes {{ remotes: [{{ url: "nats://127.0.0.1:{port}" }}] }}\n'
)


@pytest.fixture
def leaf(tmp_path: Path) -> Iterator[NatsServer]:
    """A nats-server with a domain of its own behind another one; ours is never part of more than one."""
    port = free_ports(1)[0]
    servers = [NatsServer(tmp_path / text[13:16], config=text.format(port=port)).start() for text in (HUB, LEAF)]
    yield servers[1]
    for server in servers:
        server.stop()


async def sees_hub(connection: Connection) -> bool:
    try:
        await connection.jetstream(domain="hub").account_info()
    except JetsparkError:
        return False
    return True


async def reaches(connection: Connection, subject: str) -> bool:
    """The leaf has heard that the hub stores this subject."""
    try:
        await connection.jetstream().publish(subject, retries=0)
    except errors.NoStreamError:
        return False
    return True


@pytest.mark.oracle
async def test_a_bucket_of_another_domain_is_the_one_that_is_written(leaf: NatsServer) -> None:
    async with await connect(leaf.url) as connection:
        await until(lambda: sees_hub(connection))
        near, far = connection.jetstream(), connection.jetstream(domain="hub")
        near_bucket, far_bucket = await near.create_key_value("b"), await far.create_key_value("b")
        await near_bucket.put("k", b"near")
        assert await far_bucket.put("k", b"far") == 1
        assert await far_bucket.update("k", b"farther", 1) == 2
        assert await far_bucket.create("c", b"far") == 3
        assert [(await one.get("k")).value for one in (near_bucket, far_bucket)] == [b"near", b"farther"]
        await far_bucket.delete("k")
        await far_bucket.purge("c")
        assert (await near_bucket.get("k")).value == b"near"
        assert (await near_bucket.status()).value_count == 1
        with pytest.raises(errors.KeyDeletedError):
            await far_bucket.get("k")


@pytest.mark.oracle
async def test_an_object_store_of_another_domain_is_written_and_read(leaf: NatsServer) -> None:
    async with await connect(leaf.url) as connection:
        await until(lambda: sees_hub(connection))
        store = await connection.jetstream(domain="hub").create_object_store("o")
        await until(lambda: reaches(connection, "$O.o.C.nobody"))
        await store.put("n", b"far" * 100, chunk_bytes=100)
        assert (await store.get("n")).data == b"far" * 100
        await store.delete("n")
        assert await store.list() == []


@pytest.mark.oracle
async def test_a_thread_writes_the_bucket_of_another_domain(leaf: NatsServer) -> None:
    async with await connect(leaf.url) as connection:
        await until(lambda: sees_hub(connection))
        await connection.jetstream().create_key_value("b")
        with sync.connect(leaf.url) as blocking:
            bucket = blocking.jetstream(domain="hub").create_key_value("b")
            bucket.put("k", b"far")
            assert bucket.get("k").value == b"far"
        assert (await (await connection.jetstream().key_value("b")).keys()) == []


@pytest.mark.long
async def test_buckets_are_reached_by_the_domain_of_their_own_server(make_server: Any, name: str) -> None:
    server = make_server(config="jetstream { domain: hub }")
    async with await connect(server.url) as connection:
        jetstream = connection.jetstream(domain="hub")
        bucket, store = await jetstream.create_key_value(name), await jetstream.create_object_store(name)
        await bucket.put("k", b"1")
        await store.put("o", b"2")
        plain = connection.jetstream()
        assert (await (await plain.key_value(name)).get("k")).value == b"1"
        assert (await (await plain.object_store(name)).get("o")).data == b"2"
