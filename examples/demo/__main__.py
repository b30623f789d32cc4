"""The main job in one command: `make demo`.

A shop takes orders. Two producers publish them, two workers process them in a priority group (one is active, the other
on standby), a monitor reads everything, and three Spark queries make an archive, totals and alerts. In the middle the
active worker stops and the server is killed with SIGKILL. At the end every number is checked: the exit code is 0 only
if they agree.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jetspark.sync
from jetspark import _build as build
from jetspark.testing.processes import ServerProcess, free_ports, jetspark_server_command

from .checks import ack_latency_us, check
from .story import Shop, orders
from .tables import Tables

FINISH_TIMEOUT_S = 120.0
PROGRESS_EVERY_S = 5.0
KEPT_RATE = 20.0
STARTED_S = time.monotonic()


class DemoFailed(Exception):
    """It cannot go on."""


def main() -> int:
    arguments = parse_arguments()
    # A polite kill ends everything as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Spark may write into the folder until its last moment, which is no failure of the demo.
    with tempfile.TemporaryDirectory(prefix="jetspark-demo-", ignore_cleanup_errors=True) as folder:
        try:
            return play(arguments, Path(folder))
        except KeyboardInterrupt:
            say("interrupted: everything is stopped and cleaned up")
            return 130


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--orders", type=at_least_one, default=6000, help="how many orders (6000)")
    parser.add_argument("--rate", type=at_least_one, default=250, help="orders a second (250)")
    parser.add_argument("--keep", action="store_true", help="afterwards, go on at a quiet pace until Ctrl-C")
    return parser.parse_args()


def at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def play(arguments: argparse.Namespace, folder: Path) -> int:
    ports = free_ports(2)
    server = ServerProcess(
        jetspark_server_command(), arguments=["-p", str(ports[0]), "-m", str(ports[1])], store_dir=folder / "store"
    )
    log = folder / "spark.log"
    try:
        url, address = f"nats://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}/dashboard/"
        server.start()
        say(f"jetspark {jetspark.__version__}, {build.DESCRIPTION}")
        say(f"the server runs at {url}, its dashboard at {address}")
        with errors_into(log):
            is_right = run(server, url, folder, arguments, address)
    except DemoFailed as failure:
        say(f"the demo failed: {failure}")
        if "connect back" in str(failure):
            say("Spark gives a Python process ten seconds to start: the machine is too busy, try again when it is not")
        is_right = False
    except Exception:
        show_end_of(log)
        raise
    finally:
        server.stop()
        server.discard()
    if not is_right:
        show_end_of(log)
    return 0 if is_right else 1


def run(server: ServerProcess, url: str, folder: Path, arguments: argparse.Namespace, address: str) -> bool:
    count = arguments.orders
    all_orders = list(itertools.islice(orders(), count))
    shop = Shop(url, all_orders, arguments.rate)
    shop.open()
    say("Spark is starting, which takes a while …")
    tables = Tables(url, folder)
    try:
        tables.start(every="1 second")
        say("three Spark queries read the stream ORDERS and write an archive, totals and alerts")
        shop.start()
        say(f"{count:,} orders come in, about {arguments.rate} a second; of the workers anna and bert one is active")
        with jetspark.sync.connect(url, name="demo checks") as connection:
            through_trouble(server, shop, tables, connection, count)
            shop.close()
            say("all orders are processed; Spark reads the rest …")
            tables.finish()
            is_right = report(connection, shop, tables, all_orders)
        say(f"took {time.monotonic() - STARTED_S:.0f} s")
        if arguments.keep:
            shop = Shop(url, itertools.islice(orders(), count, None), KEPT_RATE)
            go_on(shop, tables, address)
        return is_right
    finally:
        shop.close()
        tables.close()


def through_trouble(
    server: ServerProcess, shop: Shop, tables: Tables, connection: jetspark.sync.Connection, count: int
) -> None:
    """A worker leaves, the server is killed, and in the end all orders are worked off."""

    def progress() -> str:
        if failures := [*shop.failures, *tables.failures()]:
            raise DemoFailed("; ".join(failures))
        return f"{len(shop.published):,} orders acknowledged, {sum(shop.done_by.values()):,} processed"

    wait_until(lambda: len(shop.published) > count * 0.4 and has_begun(tables), "Spark's first batches", progress)
    pinned = max(shop.done_by, key=lambda name: shop.done_by[name])
    shop.dismiss(pinned)
    say(f"{pinned} stops after {shop.done_by[pinned]:,} orders and tells nobody; the other worker takes over")
    wait_until(lambda: len(shop.published) > count * 0.6, "more orders", progress)
    server.kill()
    say(f"kill -9: the server is dead, after {len(shop.published):,} acknowledged orders")
    server.start()
    say("the server is started again on the same store; producers, workers and Spark reconnect by themselves")
    wait_until(lambda: len(shop.published) == count, "all orders", progress)
    wait_until(lambda: shop.processed(connection) == count, "the workers", progress)
    wait_until(lambda: shop.monitored >= 2 * count, "the monitor", progress)


def go_on(shop: Shop, tables: Tables, address: str) -> None:
    """Orders, workers and queries once more, slowly, for somebody who looks at the dashboard."""
    shop.start()
    tables.start(every="2 seconds")
    say(f"it keeps running with {KEPT_RATE:.0f} orders a second: look at {address} (Ctrl-C stops it)")
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
    say("ending …")


def report(
    connection: jetspark.sync.Connection, shop: Shop, tables: Tables, all_orders: list[dict[str, object]]
) -> bool:
    verdict = check(connection, shop, tables, all_orders)
    print()
    for what, value, note in verdict.lines:
        print(f"  {what:<28} {value:<8} {note}".rstrip())
    sampled, median_us = ack_latency_us(connection)
    print(f"  {'acks sampled':<28} {sampled:,} (median {median_us / 1000:.1f} ms from delivery to ack)")
    print(f"  {'worked by':<28} " + ", ".join(f"{name} {done:,}" for name, done in sorted(shop.done_by.items())))
    print(f"  {'duplicates':<28} {verdict.duplicates}")
    print(f"  {'lost':<28} {verdict.lost}")
    for problem in verdict.problems:
        print(f"  WRONG: {problem}")
    print("\n  " + ("everything agrees" if not verdict.problems else "the numbers do NOT agree"), flush=True)
    return not verdict.problems


def has_begun(tables: Tables) -> bool:
    return all(query.lastProgress is not None for query in tables.queries)


def wait_until(condition: Callable[[], bool], what: str, progress: Callable[[], str]) -> None:
    started_s = told_s = time.monotonic()
    tick = threading.Event()
    while not condition():
        now_s = time.monotonic()
        if now_s > started_s + FINISH_TIMEOUT_S:
            raise DemoFailed(f"waited {FINISH_TIMEOUT_S:.0f} s for {what}: {progress()}")
        if now_s > told_s + PROGRESS_EVERY_S:
            told_s = now_s
            say(f"  {progress()}")
        tick.wait(0.1)


@contextlib.contextmanager
def errors_into(log: Path) -> Iterator[None]:
    """What Spark, its Java and its workers say goes into a file, so that the story can be read."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(terminal, 2)
        os.close(terminal)


def show_end_of(log: Path) -> None:
    if log.exists():
        print("the end of Spark's log:", file=sys.stderr)
        print("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:]), file=sys.stderr)


def say(what: str) -> None:
    print(f"{time.monotonic() - STARTED_S:5.0f} s  {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
