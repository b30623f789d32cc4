"""One client doing one job, in a process of its own: `python -m bench.client_worker FACE JOB URL COUNT`.

Prints `ready`, waits for a line on standard input, does the job and prints messages a second and microseconds of
processor time a message. Every face does the same
job in the way its own documentation recommends for speed; what the numbers mean is decided in `client_jobs`.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

PAYLOAD = b"x" * 128
SUBJECT = "bench.a"
CORE_SUBJECT = "core.bench"
STREAM = "BENCH"
WINDOW = 4000
BATCH = 500
cpu_began_s = 0.0


def wait_for_start() -> None:
    gc.collect()
    print("ready", flush=True)
    sys.stdin.readline()
    global cpu_began_s
    cpu_began_s = time.process_time()


async def started() -> float:
    """Say that everything is set up; the moment the job begins."""
    await asyncio.to_thread(wait_for_start)
    return time.perf_counter()


# Ours, asyncio.


async def ours_core_publish(url: str, count: int) -> float:
    import jetspark

    async with await jetspark.connect(url) as connection:
        began_s = await started()
        for _ in range(count):
            await connection.publish(CORE_SUBJECT, PAYLOAD)
        await connection.flush(60)
        return time.perf_counter() - began_s


async def ours_core_subscribe(url: str, count: int) -> float:
    import jetspark

    async with await jetspark.connect(url) as connection:
        subscription = await connection.subscribe(CORE_SUBJECT, pending_count_max=0, pending_bytes_max=0)
        await connection.flush()
        began_s = await started()
        left = count
        async for _message in subscription:
            left -= 1
            if not left:
                break
        return time.perf_counter() - began_s


async def ours_publish(url: str, count: int) -> float:
    import jetspark

    async with await jetspark.connect(url) as connection:
        jetstream = connection.jetstream(publish_window=WINDOW)
        await jetstream.publish(SUBJECT, PAYLOAD)
        began_s = await started()
        for _ in range(count):
            await jetstream.publish_async(SUBJECT, PAYLOAD)
        await jetstream.flush(60)
        return time.perf_counter() - began_s


async def ours_publish_one(url: str, count: int) -> float:
    import jetspark

    async with await jetspark.connect(url) as connection:
        jetstream = connection.jetstream()
        await jetstream.publish(SUBJECT, PAYLOAD)
        began_s = await started()
        for _ in range(count):
            await jetstream.publish(SUBJECT, PAYLOAD)
        return time.perf_counter() - began_s


async def ours_fetch(url: str, count: int) -> float:
    import jetspark

    async with await jetspark.connect(url) as connection:
        stream = await connection.jetstream().stream(STREAM)
        consumer = await stream.create_consumer(max_ack_pending=-1)
        began_s = await started()
        left = count
        while left > 0:
            batch = await consumer.fetch(BATCH)
            for message in batch:
                await message.ack()
            left -= len(batch)
        await connection.flush()
        return time.perf_counter() - began_s


async def ours_ordered(url: str, count: int) -> float:
    import jetspark

    async with await jetspark.connect(url) as connection:
        stream = await connection.jetstream().stream(STREAM)
        consumer = await stream.ordered_consumer()
        began_s = await started()
        left = count
        async with consumer.consume(max_messages=10_000) as messages:
            async for _message in messages:
                left -= 1
                if not left:
                    break
            seconds = time.perf_counter() - began_s
        return seconds


async def ours_scan(url: str, count: int) -> float:
    import pyarrow.compute  # noqa: F401 - loading it is no part of the job

    import jetspark

    async with await jetspark.connect(url) as connection:
        stream = await connection.jetstream().stream(STREAM)
        began_s = await started()
        rows = 0
        async for batch in stream.scan():
            rows += batch.num_rows
        seconds = time.perf_counter() - began_s
        assert rows == count, rows
        return seconds


# Ours, blocking.


def sync_core_publish(url: str, count: int) -> float:
    import jetspark.sync

    with jetspark.sync.connect(url) as connection:
        wait_for_start()
        began_s = time.perf_counter()
        for _ in range(count):
            connection.publish(CORE_SUBJECT, PAYLOAD)
        connection.flush(60)
        return time.perf_counter() - began_s


def sync_core_subscribe(url: str, count: int) -> float:
    import jetspark.sync

    with jetspark.sync.connect(url) as connection:
        subscription = connection.subscribe(CORE_SUBJECT, pending_count_max=0, pending_bytes_max=0)
        connection.flush()
        wait_for_start()
        began_s = time.perf_counter()
        left = count
        for _message in subscription:
            left -= 1
            if not left:
                break
        return time.perf_counter() - began_s


def sync_publish(url: str, count: int) -> float:
    import jetspark.sync

    with jetspark.sync.connect(url) as connection:
        jetstream = connection.jetstream(publish_window=WINDOW)
        jetstream.publish(SUBJECT, PAYLOAD)
        wait_for_start()
        began_s = time.perf_counter()
        for _ in range(count):
            jetstream.publish_async(SUBJECT, PAYLOAD)
        jetstream.flush(60)
        return time.perf_counter() - began_s


def sync_publish_one(url: str, count: int) -> float:
    import jetspark.sync

    with jetspark.sync.connect(url) as connection:
        jetstream = connection.jetstream()
        jetstream.publish(SUBJECT, PAYLOAD)
        wait_for_start()
        began_s = time.perf_counter()
        for _ in range(count):
            jetstream.publish(SUBJECT, PAYLOAD)
        return time.perf_counter() - began_s


def sync_fetch(url: str, count: int) -> float:
    import jetspark.sync

    with jetspark.sync.connect(url) as connection:
        consumer = connection.jetstream().stream(STREAM).create_consumer(max_ack_pending=-1)
        wait_for_start()
        began_s = time.perf_counter()
        left = count
        while left > 0:
            batch = consumer.fetch(BATCH)
            for message in batch:
                message.ack()
            left -= len(batch)
        connection.flush()
        return time.perf_counter() - began_s


def sync_ordered(url: str, count: int) -> float:
    import jetspark.sync

    with jetspark.sync.connect(url) as connection:
        consumer = connection.jetstream().stream(STREAM).ordered_consumer()
        wait_for_start()
        began_s = time.perf_counter()
        left = count
        with consumer.consume(max_messages=10_000) as messages:
            for _message in messages:
                left -= 1
                if not left:
                    break
            seconds = time.perf_counter() - began_s
        return seconds


def sync_scan(url: str, count: int) -> float:
    import pyarrow.compute  # noqa: F401 - loading it is no part of the job

    import jetspark.sync

    with jetspark.sync.connect(url) as connection:
        stream = connection.jetstream().stream(STREAM)
        wait_for_start()
        began_s = time.perf_counter()
        rows = sum(batch.num_rows for batch in stream.scan())
        seconds = time.perf_counter() - began_s
        assert rows == count, rows
        return seconds


# nats-py.


async def nats_core_publish(url: str, count: int) -> float:
    import nats

    connection = await nats.connect(url)
    began_s = await started()
    for _ in range(count):
        await connection.publish(CORE_SUBJECT, PAYLOAD)
    await connection.flush(60)
    seconds = time.perf_counter() - began_s
    await connection.close()
    return seconds


async def nats_core_subscribe(url: str, count: int) -> float:
    import nats

    connection = await nats.connect(url)
    done = asyncio.get_running_loop().create_future()
    left = count

    async def take(_message: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set_result(None)

    await connection.subscribe(CORE_SUBJECT, cb=take, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await connection.flush()
    began_s = await started()
    await done
    seconds = time.perf_counter() - began_s
    await connection.close()
    return seconds


async def nats_publish(url: str, count: int) -> float:
    import nats

    connection = await nats.connect(url)
    jetstream = connection.jetstream(publish_async_max_pending=WINDOW)
    await jetstream.publish(SUBJECT, PAYLOAD)
    began_s = await started()
    for _ in range(count):
        await jetstream.publish_async(SUBJECT, PAYLOAD)
    await jetstream.publish_async_completed()
    seconds = time.perf_counter() - began_s
    await connection.close()
    return seconds


async def nats_publish_one(url: str, count: int) -> float:
    import nats

    connection = await nats.connect(url)
    jetstream = connection.jetstream()
    await jetstream.publish(SUBJECT, PAYLOAD)
    began_s = await started()
    for _ in range(count):
        await jetstream.publish(SUBJECT, PAYLOAD)
    seconds = time.perf_counter() - began_s
    await connection.close()
    return seconds


async def nats_fetch(url: str, count: int) -> float:
    import nats
    from nats.js.api import ConsumerConfig

    connection = await nats.connect(url)
    jetstream = connection.jetstream()
    config = ConsumerConfig(max_ack_pending=-1)
    subscription = await jetstream.pull_subscribe("", "puller", stream=STREAM, config=config)
    began_s = await started()
    left = count
    while left > 0:
        batch = await subscription.fetch(BATCH)
        for message in batch:
            await message.ack()
        left -= len(batch)
    await connection.flush()
    seconds = time.perf_counter() - began_s
    await jetstream.delete_consumer(STREAM, "puller")
    await connection.close()
    return seconds


async def nats_ordered(url: str, count: int) -> float:
    import nats

    connection = await nats.connect(url)
    done = asyncio.get_running_loop().create_future()
    left = count

    async def take(_message: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set_result(None)

    began_s = await started()
    jetstream = connection.jetstream()
    # Callbacks are its fastest form: an iterator costs it a task a message.
    await jetstream.subscribe("bench.>", cb=take, ordered_consumer=True, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await done
    seconds = time.perf_counter() - began_s
    await connection.close()
    return seconds


ASYNC_JOBS: dict[str, dict[str, Callable[[str, int], Coroutine[Any, Any, float]]]] = {
    "async": {
        "core-publish": ours_core_publish,
        "core-subscribe": ours_core_subscribe,
        "publish": ours_publish,
        "publish-one": ours_publish_one,
        "fetch": ours_fetch,
        "ordered": ours_ordered,
        "scan": ours_scan,
    },
    "nats-py": {
        "core-publish": nats_core_publish,
        "core-subscribe": nats_core_subscribe,
        "publish": nats_publish,
        "publish-one": nats_publish_one,
        "fetch": nats_fetch,
        "ordered": nats_ordered,
    },
}
SYNC_JOBS: dict[str, Callable[[str, int], float]] = {
    "core-publish": sync_core_publish,
    "core-subscribe": sync_core_subscribe,
    "publish": sync_publish,
    "publish-one": sync_publish_one,
    "fetch": sync_fetch,
    "ordered": sync_ordered,
    "scan": sync_scan,
}


def main(face: str, job: str, url: str, count: int) -> None:
    if face == "sync":
        seconds = SYNC_JOBS[job](url, count)
    elif face.endswith("-uvloop"):
        import uvloop

        seconds = uvloop.run(ASYNC_JOBS[face.removesuffix("-uvloop")][job](url, count))
    else:
        seconds = asyncio.run(ASYNC_JOBS[face][job](url, count))
    print(count / seconds, (time.process_time() - cpu_began_s) / count * 1e6, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
