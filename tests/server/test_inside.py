"""The client and the server in one process, without a port between them."""

from __future__ import annotations

import jetspark
import jetspark.sync


async def test_a_client_reaches_the_server_of_its_own_loop() -> None:
    async with jetspark.serve_async() as server, await jetspark.connect(server=server) as client:
        stream = await client.jetstream().create_stream(name="S", subjects=["s.>"])

        ack = await client.jetstream().publish("s.a", b"hello")

        assert ack.seq == 1
        assert (await stream.info()).state.messages == 1


def test_a_blocking_client_reaches_a_server_in_its_thread() -> None:
    with jetspark.serve() as running, jetspark.sync.connect(server=running) as client:
        client.jetstream().create_stream(name="S", subjects=["s.>"])

        assert client.jetstream().publish("s.a", b"hello").seq == 1
