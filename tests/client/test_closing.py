"""Closing a connection: what was sent arrives if the server reads, and nothing stays if it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from jetspark.client.aio import connect
from tests.client.conftest import NatsServer
from tests.client.waiting import until

MEGABYTE = b"x" * 1_000_000


async def test_closing_a_connection_whose_server_reads_nothing_leaves_nothing_behind(
    make_server: Callable[..., NatsServer],
) -> None:
    server = make_server(jetstream=False)
    connection = await connect(server.url)
    wire = connection._link._wire
    assert wire is not None
    server.freeze()
    for _ in range(30):
        connection._link.core.publish("s", b"", b"", MEGABYTE)
    await until(lambda: wire.transport.get_write_buffer_size() > 0)

    await asyncio.wait_for(connection.close(), 10)

    await until(wire.is_gone.is_set, 1)
    assert wire.transport.get_write_buffer_size() == 0


async def test_closing_a_connection_sends_what_the_server_still_reads(make_server: Callable[..., NatsServer]) -> None:
    server = make_server(jetstream=False)
    seen: list[int] = []
    async with await connect(server.url) as reader:
        await reader.subscribe("s", callback=lambda message: seen.append(len(message.data)))
        await reader.flush()
        connection = await connect(server.url)
        server.freeze()
        for _ in range(3):
            connection._link.core.publish("s", b"", b"", MEGABYTE)
        connection._link.flush_output()
        closing = asyncio.create_task(connection.close())
        await asyncio.sleep(0)  # noqa: TID251 - gives way, does not wait
        server.thaw()

        await asyncio.wait_for(closing, 10)

        await until(lambda: seen == [len(MEGABYTE)] * 3)
