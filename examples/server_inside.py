"""A JetStream server inside a Python program. It uses a free port and a temporary folder."""

import asyncio

import jetspark


async def main() -> None:
    with jetspark.serve() as server:
        async with await jetspark.connect(server.url) as connection:
            jetstream = connection.jetstream()
            await jetstream.create_stream("EVENTS", subjects="events.*")
            for number in range(3):
                await jetstream.publish("events.tick", f"tick {number}")
            info = await jetstream.stream_info("EVENTS")
            print("the stream holds", info.state.messages, "messages")


asyncio.run(main())
