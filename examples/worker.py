"""A worker: a message is acknowledged when its work is done, comes back after a failure, is given up when hopeless."""

import asyncio
import json
import os

import jetspark


async def main() -> None:
    url = os.environ.get("NATS_URL", "nats://127.0.0.1:4222")
    async with await jetspark.connect(url) as connection:
        jetstream = connection.jetstream()
        jobs = await jetstream.create_or_update_stream("JOBS", subjects="jobs.*", retention="workqueue")
        await jobs.purge()
        for document in ('{"size": 1}', "not json", '{"size": 3}'):
            await jetstream.publish("jobs.resize", document)

        worker = await jobs.create_or_update_consumer("worker", max_deliver=5)
        settled = 0
        async with worker.consume() as messages:
            async for message in messages:
                try:
                    # Tells the server every ten seconds that work goes on; acks at the end, naks on an error.
                    async with message.processing(term_on=json.JSONDecodeError):
                        print("done", json.loads(message.data)["size"])
                except json.JSONDecodeError as error:
                    print("given up:", error)
                settled += 1
                if settled == 3:
                    break


asyncio.run(main())
