"""A worker: acknowledge a message when its work is done, get it again after a failure, give up what cannot succeed."""

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
                    # Acknowledges at the end. After an error the message comes again, after one in term_on it does not.
                    async with message.processing(term_on=json.JSONDecodeError):
                        print("done", json.loads(message.data)["size"])
                except json.JSONDecodeError as error:
                    print("given up:", error)
                settled += 1
                if settled == 3:
                    break


asyncio.run(main())
