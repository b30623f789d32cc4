"""Archives a stream continuously and shows the progress. Ctrl-C stops after the batch; the next start continues there.

python examples/pipelines/archive_forever.py --stream ORDERS --archive archive/orders --state state/orders
"""

import argparse
import os
from typing import Any

from jetspark.spark import pipelines, session
from jetspark.spark.streaming import follow


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--servers", default=os.environ.get("NATS_URL", "nats://127.0.0.1:4222"))
    parser.add_argument("--stream", default="ORDERS")
    parser.add_argument("--archive", default="archive/orders")
    parser.add_argument("--state", default="state/orders")
    parser.add_argument("--every", default="10 seconds", help="how often to look for new messages")
    parser.add_argument("--batch", type=int, default=1_000_000, help="messages of a batch at most")
    arguments = parser.parse_args()
    settings: dict[str, Any] = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.log.level": "ERROR",
    }
    spark = session("archive", master="local[2]", **settings)
    query = pipelines.archive(
        spark,
        arguments.stream,
        arguments.archive,
        checkpoint=arguments.state,
        every=arguments.every,
        servers=arguments.servers,
        maxOffsetsPerTrigger=arguments.batch,
    )
    follow(query, say=lambda text: print(text, flush=True))
    # While the archive goes on, in another process and from time to time: small files become large ones.
    done = pipelines.compact(arguments.archive, checkpoint=arguments.state)
    print(f"{done.files_before} files became {done.files_after}")
    spark.stop()


if __name__ == "__main__":
    main()
