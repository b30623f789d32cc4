"""How long a scrape of /metrics holds the loop that serves the clients: `python -m bench.metrics_hold`.

A server of this process has many streams, each with a consumer. A ticker of its loop notes how late it comes while the
page is made; the longest lateness of a scrape is what a client would have waited. The machine's other work adds to
that, so it is told of many scrapes as the least and the median, beside the same of as many times without a scrape.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial

from jetspark.server.dashboard.inner_client import InnerClient
from jetspark.server.embedded import embedded_options
from jetspark.server.metrics import Metrics
from jetspark.server.observations import Observations
from jetspark.server.run import GC_THRESHOLDS
from jetspark.server.server import Server

TICK_S = 0.0005


async def fill(server: Server, count: int) -> None:
    client = await InnerClient.login(server, {})
    for number in range(count):
        name = f"STREAM_{number:05}"
        config = {"name": name, "subjects": [f"stream.{number}.>"], "storage": "memory"}
        await client.request_json(f"$JS.API.STREAM.CREATE.{name}", config)
        consumer = {"durable_name": "worker", "ack_policy": "explicit", "description": "reads it all"}
        request = {"stream_name": name, "config": consumer}
        await client.request_json(f"$JS.API.CONSUMER.DURABLE.CREATE.{name}.worker", request)
        await client.request(f"stream.{number}.a", b"x")
    await client.close()


async def hold_s(work: Callable[[], Awaitable[object]]) -> tuple[float, float, float]:
    """The longest lateness of a ticker during some work, and the time and the processor time of that."""
    latest_s, is_over = 0.0, False

    async def tick() -> None:
        nonlocal latest_s
        while not is_over:
            before_s = time.perf_counter()
            await asyncio.sleep(TICK_S)
            latest_s = max(latest_s, time.perf_counter() - before_s - TICK_S)

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0)
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    await work()
    took_s, cpu_s = time.perf_counter() - start_s, time.process_time() - start_cpu_s
    is_over = True
    await ticker
    return latest_s, took_s, cpu_s


def tell(words: str, numbers_s: list[float]) -> None:
    least_ms, median_ms = 1000 * min(numbers_s), 1000 * statistics.median(numbers_s)
    print(f"  {words:<44} least {least_ms:7.2f} ms   median {median_ms:7.2f} ms")


async def measure(server: Server, streams: int, scrapes: int) -> None:
    await fill(server, streams)
    # As `jetspark server` does when it is ready.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    metrics = Metrics(server, Observations())

    async def scrape() -> int:
        return sum([len(chunk) async for chunk in metrics.chunks({})])

    size = await scrape()
    busy: list[tuple[float, float, float]] = []
    idle: list[tuple[float, float, float]] = []
    for _ in range(scrapes):
        busy.append(await hold_s(scrape))
        idle.append(await hold_s(partial(asyncio.sleep, busy[-1][1])))
    print(f"{streams} streams with a consumer each: {size / 1e6:.1f} MB of text, {scrapes} scrapes")
    tell("longest hold of the loop", [run[0] for run in busy])
    tell("longest hold of the loop without a scrape", [run[0] for run in idle])
    tell("time of a scrape", [run[1] for run in busy])
    tell("processor time of a scrape", [run[2] for run in busy])


async def main(streams: int, scrapes: int) -> None:
    options = embedded_options()
    with tempfile.TemporaryDirectory() as folder:
        options.jetstream.store_dir = folder
        server = Server(options)
        await server.start()
        try:
            await measure(server, streams, scrapes)
        finally:
            await server.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--scrapes", type=int, default=20)
    chosen = parser.parse_args()
    asyncio.run(main(chosen.streams, chosen.scrapes))
