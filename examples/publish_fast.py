"""Publish many messages without waiting for each acknowledgement."""

import asyncio
import os

import jetspark


async def main() -> None:
    url = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
    async with await jetspark.connect(url) as connection:
        jetstream = connection.jetstream(publish_window=4000)
        stream = await jetstream.create_or_update_stream("READINGS", subjects="readings.*")
        await stream.purge()
        for number in range(20_000):
            await jetstream.publish_async(f"readings.{number % 10}", str(number))  # waits only when the window is full
        await jetstream.flush()  # raises if one of them was refused
        print("stored", (await stream.info()).state.messages)


asyncio.run(main())
