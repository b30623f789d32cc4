"""The main job in one command: `make demo`.

Starts the server with its dashboard, plays the ORDERS story against it, runs three Spark queries on the stream, lets
a worker leave and kills the server with SIGKILL in the middle, and then checks every number. Ends with status 0 only
if they agree. `--keep` leaves the server running.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from pathlib import Path

import jetspark.sync
from jetspark.testing.processes import ServerProcess, free_ports, jetspark_server_command

from .checks import ack_latency_us, check
from .story import Shop, orders
from .tables import Tables

FINISH_TIMEOUT_S = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--orders", type=int, default=6000, help="how many orders (6000)")
    parser.add_argument("--rate", type=float, default=250.0, help="orders a second (250)")
    parser.add_argument("--keep", action="store_true", help="leave the server running at the end")
    arguments = parser.parse_args()
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="jetspark-demo-") as folder:
        ports = free_ports(2)
        server = ServerProcess(
            jetspark_server_command(),
            arguments=["-p", str(ports[0]), "-m", str(ports[1])],
            store_dir=Path(folder) / "store",
        )
        server.start()
        try:
            url = f"nats://127.0.0.1:{ports[0]}"
            address = f"http://127.0.0.1:{ports[1]}/dashboard/"
            say(f"server at {url}, dashboard at {address}")
            is_right = run(server, url, Path(folder), arguments.orders, arguments.rate)
            say(f"took {time.monotonic() - started_s:.0f} s")
            if arguments.keep:
                wait_for_ctrl_c(address)
        finally:
            server.stop()
            server.discard()
    return 0 if is_right else 1


def run(server: ServerProcess, url: str, folder: Path, count: int, rate: float) -> bool:
    all_orders = orders(count)
    shop = Shop(url, all_orders, rate)
    shop.open()
    say("Spark starts …")
    tables = Tables(url, folder)
    tables.start(every="1 second")
    say("three Spark queries run: archive, totals, alerts")
    shop.start()
    say(f"{count:,} orders, {rate:.0f} a second; anna and bert share the work, one of them pinned")
    try:
        with jetspark.sync.connect(url, name="demo checks") as connection:
            wait_until(lambda: len(shop.published) > count * 0.4 and has_begun(tables), "Spark's first batches")
            pinned = max(shop.done_by, key=lambda name: shop.done_by[name])
            shop.dismiss(pinned)
            say(f"{pinned}, who did {shop.done_by[pinned]:,} orders, leaves; the other takes over")
            wait_until(lambda: len(shop.published) > count * 0.6, "more orders")
            server.kill()
            say(f"the server was killed with {len(shop.published):,} orders acknowledged …")
            server.start()
            say("… and is back on the same store; everybody goes on")
            wait_until(lambda: len(shop.published) == count or bool(shop.failures), "all orders")
            wait_until(lambda: shop.processed(connection) == count or bool(shop.failures), "the workers")
            shop.close()
            say("all orders are processed; Spark reads the rest")
            tables.finish()
            return report(connection, shop, tables, all_orders)
    finally:
        shop.close()
        tables.stop()
        tables.spark.stop()


def report(
    connection: jetspark.sync.Connection, shop: Shop, tables: Tables, all_orders: list[dict[str, object]]
) -> bool:
    verdict = check(connection, shop, tables, all_orders)
    print()
    for what, value in verdict.lines:
        print(f"  {what:<28} {value}")
    sampled, median_us = ack_latency_us(connection)
    print(f"  {'acks sampled':<28} {sampled:,} (median {median_us / 1000:.1f} ms from delivery to ack)")
    print(f"  {'worked by':<28} " + ", ".join(f"{name} {done:,}" for name, done in sorted(shop.done_by.items())))
    print(f"  {'duplicates':<28} {verdict.duplicates}")
    print(f"  {'lost':<28} {verdict.lost}")
    for problem in verdict.problems:
        print(f"  WRONG: {problem}")
    print("\n  " + ("everything agrees" if not verdict.problems else "the numbers do not agree"))
    return not verdict.problems


def has_begun(tables: Tables) -> bool:
    return all(query.lastProgress is not None for query in tables.queries) or bool(tables.failures())


def wait_until(condition: object, what: str) -> None:
    assert callable(condition)
    deadline_s = time.monotonic() + FINISH_TIMEOUT_S
    tick = threading.Event()
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {FINISH_TIMEOUT_S:.0f} s for {what}")
        tick.wait(0.1)


def wait_for_ctrl_c(address: str) -> None:
    say(f"the server goes on; look at {address} (Ctrl-C ends it)")
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()


def say(what: str) -> None:
    print(what, flush=True)


if __name__ == "__main__":
    sys.exit(main())
