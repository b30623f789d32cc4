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

    lines: list[tuple[str, str]] = field(default_factory=list)
    duplicates: int = 0
    lost: int = 0
    problems: list[str] = field(default_factory=list)

    def compare(self, what: str, found: list[str], expected: set[str]) -> None:
        """Each expected id once, and no other."""
        counts = Counter(found)
        self.duplicates += sum(count - 1 for count in counts.values())
        missing, strange = expected - set(counts), set(counts) - expected
        self.lost += len(missing)
        if missing or strange or len(found) != len(expected):
            self.problems.append(f"{what}: {len(found)} found, {len(missing)} missing, {len(strange)} not expected")
        self.lines.append((what, f"{len(found):,}"))


def check(
    connection: jetspark.sync.Connection, shop: Shop, tables: Tables, all_orders: list[dict[str, Any]]
) -> Verdict:
    verdict = Verdict()
    ids = {order["id"] for order in all_orders}
    verdict.compare("published and acknowledged", list(shop.published), ids)
    stored = read(connection, "ORDERS")
    verdict.compare("stored", [row["id"] for subject, row in stored if subject == "ORDERS.new"], ids)
    verdict.compare("processed", [row["id"] for subject, row in stored if subject == "ORDERS.processed"], ids)

    # New and processed ones; it began with the first and read on across the crash.
    verdict.lines.append(("seen by the monitor", f"{shop.monitored:,}"))

    sequences = {str(number) for number in range(1, 2 * len(all_orders) + 1)}
    verdict.compare("archived rows", [str(sequence) for sequence in tables.archived()], sequences)

    alerts = [row["id"] for _, row in read(connection, "ALERTS")]
    verdict.compare("alerts", alerts, {order["id"] for order in all_orders if order["amount"] > ALERT_AMOUNT})
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
    verdict.lines.append(("totals by country", ", ".join(f"{name} {found[name]:,}" for name in sorted(found))))


def read(connection: jetspark.sync.Connection, stream: str) -> list[tuple[str, dict[str, Any]]]:
    """Every message of a stream, read in order."""
    table = connection.jetstream().stream(stream).scan(columns=["subject", "data"]).read_all()
    return [(row["subject"], json.loads(row["data"])) for row in table.to_pylist()]


def ack_latency_us(connection: jetspark.sync.Connection) -> tuple[int, float]:
    """How many acknowledgements were sampled, and the median of what they took."""
    table = connection.jetstream().stream("LATENCY").scan(columns=["data"]).read_all()
    taken = sorted(json.loads(value)["ack_time"] / 1000 for value in table.column("data").to_pylist())
    return len(taken), taken[len(taken) // 2] if taken else 0.0
