"""Compares what was acknowledged with what is stored."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .story import ALERT_AMOUNT, Shop

if TYPE_CHECKING:
    import jetspark.sync

    from .tables import Tables


@dataclass
class Verdict:
    """The lines to print, and what is wrong."""

    # What, the number, and where it comes from if that is not plain.
    lines: list[tuple[str, str, str]] = field(default_factory=list)
    duplicates: int = 0
    lost: int = 0
    problems: list[str] = field(default_factory=list)

    def compare(self, what: str, found: list[str], expected: set[str], note: str = "") -> None:
        """Each expected id once, and no other."""
        counts = Counter(found)
        self.duplicates += sum(count - 1 for count in counts.values())
        missing, strange = expected - set(counts), set(counts) - expected
        self.lost += len(missing)
        if missing or strange or len(found) != len(expected):
            self.problems.append(f"{what}: {len(found)} found, {len(missing)} missing, {len(strange)} not expected")
        self.lines.append((what, f"{len(found):,}", note))


def check(
    connection: jetspark.sync.Connection, shop: Shop, tables: Tables, all_orders: list[dict[str, Any]]
) -> Verdict:
    verdict = Verdict()
    ids = {order["id"] for order in all_orders}
    verdict.compare("published and acknowledged", list(shop.published), ids)
    stored = read(connection, "ORDERS")
    new = [row["id"] for subject, row in stored if subject == "ORDERS.new"]
    verdict.compare("stored", new, ids, "orders in the stream ORDERS")
    done = [row["id"] for subject, row in stored if subject == "ORDERS.processed"]
    verdict.compare("processed", done, ids, "results of the workers, in the same stream")

    # It began with the first message and read on across the crash.
    verdict.lines.append(("seen by the monitor", f"{shop.monitored:,}", "orders and results"))

    sequences = {str(number) for number in range(1, 2 * len(all_orders) + 1)}
    archived = [str(sequence) for sequence in tables.archived()]
    verdict.compare("archived rows", archived, sequences, "orders and results, written by Spark")

    alerts = [row["id"] for _, row in read(connection, "ALERTS")]
    expected = {order["id"] for order in all_orders if order["amount"] > ALERT_AMOUNT}
    verdict.compare("alerts", alerts, expected, f"orders above {ALERT_AMOUNT:,}, found by Spark")
    check_totals(verdict, [row for _, row in read(connection, "TOTALS")], all_orders)
    verdict.problems += [*shop.failures, *tables.failures()]
    return verdict


def check_totals(verdict: Verdict, totals: list[dict[str, Any]], all_orders: list[dict[str, Any]]) -> None:
    """The windows of a country add up to its orders."""
    found: Counter[str] = Counter()
    expected: Counter[str] = Counter()
    for total in totals:
        found[total["country"]] += total["amount"]
    for order in all_orders:
        expected[order["country"]] += order["amount"]
    if found != expected:
        verdict.problems.append(f"totals: {dict(found)}, not {dict(expected)}")
    verdict.lines.append(("totals by country", ", ".join(f"{name} {found[name]:,}" for name in sorted(found)), ""))


def read(connection: jetspark.sync.Connection, stream: str) -> list[tuple[str, dict[str, Any]]]:
    """Every message of a stream, read in order."""
    table = connection.jetstream().stream(stream).scan(columns=["subject", "data"]).read_all()
    return [(row["subject"], json.loads(row["data"])) for row in table.to_pylist()]


def ack_latency_us(connection: jetspark.sync.Connection) -> tuple[int, float]:
    """How many acknowledgements were sampled, and the median of what they took."""
    table = connection.jetstream().stream("LATENCY").scan(columns=["data"]).read_all()
    taken = sorted(json.loads(value)["ack_time"] / 1000 for value in table.column("data").to_pylist())
    return len(taken), taken[len(taken) // 2] if taken else 0.0
