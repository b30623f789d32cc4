"""What another thread changes between a reader's look and its wait is news: no reader waits for what has happened."""

from __future__ import annotations

import asyncio

from jetspark.client import sync
from jetspark.client.core.arrow_decode import open_sink
from jetspark.client.sync.arrow import wait_rows
from jetspark.client.sync.link import Link
from tests.client.proxy import ChaosProxy
from tests.client.waiting import until

# A wait that is not ended by news ends the test instead.
FOREVER_S = 30.0


async def come_back(link: Link, proxy: ChaosProxy) -> None:
    """Lose the connection and get another."""
    epoch = link.core.epoch
    proxy.shut()
    await until(lambda: not link.is_up)
    proxy.reopen()
    await until(lambda: link.is_up and link.core.epoch != epoch)


async def test_a_connection_that_came_back_before_the_wait_ends_it(proxy: ChaosProxy) -> None:
    connection = await asyncio.to_thread(sync.connect, proxy.url, reconnect_wait_max=0.1)
    subscription = await asyncio.to_thread(connection.subscribe, "news")
    link, inbox = connection._link, subscription._inbox
    with link.guard:
        sink = open_sink(link.core, link)
    seen_count, rows_seen_count = inbox.wake_count, sink.inbox.wake_count

    await come_back(link, proxy)

    async with asyncio.timeout(FOREVER_S / 2):
        assert await asyncio.to_thread(link.wait_inbox, inbox, seen_count, FOREVER_S)
        assert await asyncio.to_thread(wait_rows, link, sink, rows_seen_count, FOREVER_S)
    # Nothing has changed since.
    assert not await asyncio.to_thread(link.wait_inbox, inbox, inbox.wake_count, 0.01)
    await asyncio.to_thread(connection.close)
