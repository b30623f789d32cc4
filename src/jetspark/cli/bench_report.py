"""What a benchmark found, for people, for spreadsheets and for scripts.

Decided here: the words, the columns and the keys. Not known here: how it was measured.
"""

from __future__ import annotations

import csv
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from jetspark.cli.bench_numbers import Latency, Outcome, histogram
from jetspark.cli.bench_plan import EACH_GETS_ALL, Kind, Plan
from jetspark.cli.charts import can_draw, sparkline
from jetspark.cli.durations import SECOND_NS, human_count, human_duration, human_size
from jetspark.cli.output import echo, show_table

BATCHED: Final = {Kind.JS_ASYNC, Kind.JS_ATOMIC, Kind.JS_FAST, Kind.CONSUME, Kind.FETCH, Kind.ORDERED, Kind.GET_BATCH}
SENDS: Final = {
    Kind.PUB,
    Kind.REQUEST,
    Kind.SERVE,
    Kind.JS_SYNC,
    Kind.JS_ASYNC,
    Kind.JS_ATOMIC,
    Kind.JS_FAST,
    Kind.KV_PUT,
}
CSV_COLUMNS: Final = (
    "RunID", "Server", "Round", "ClientID", "MsgCount", "MsgBytes", "MsgsPerSec", "BytesPerSec", "DurationSecs",
    "LatencyMinUs", "LatencyP50Us", "LatencyP90Us", "LatencyP99Us", "LatencyP999Us", "LatencyMaxUs",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Side:
    """One server and its runs."""

    url: str
    server: str
    outcomes: list[Outcome]

    @property
    def median(self) -> Outcome:
        """The run whose rate is in the middle; of an even number the slower one."""
        return sorted(self.outcomes, key=lambda outcome: outcome.rate)[(len(self.outcomes) - 1) // 2]

    @property
    def rates(self) -> list[float]:
        """Messages a second of each run."""
        return [outcome.rate for outcome in self.outcomes]


def microseconds(duration_ns: float) -> str:
    """A latency with three digits that mean something: `87.3 µs`, `4.51 ms`, `1.2 s`."""
    for unit, size_ns in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if duration_ns >= size_ns:
            value = duration_ns / size_ns
            return (
                f"{value:.2f} {unit}" if value < 10 else f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"
            )
    return f"{duration_ns:.0f} ns"


def rate_text(outcome_rate: float, byte_rate: float) -> str:
    """`12,345 msgs/sec ~ 1.5 MiB/sec`."""
    return f"{human_count(round(outcome_rate))} msgs/sec ~ {human_size(byte_rate)}/sec"


def heading(plan: Plan) -> str:
    """What is measured, in one line."""
    target = plan.bucket if plan.kind in (Kind.KV_PUT, Kind.KV_GET) else plan.subject or plan.stream
    each = " each" if plan.kind in EACH_GETS_ALL and plan.client_count > 1 else ""
    if plan.duration_s:
        parts = [f"messages for {human_duration(round(plan.duration_s * SECOND_NS))}"]
    elif plan.message_count:
        parts = [f"{human_count(plan.message_count)} messages{each}"]
    else:
        parts = ["messages until Ctrl-C"]
    if plan.kind in SENDS:
        parts.append(f"{human_size(len(plan.body()))} each")
    parts.append(f"{plan.client_count} client" + ("s" if plan.client_count > 1 else ""))
    if plan.kind in BATCHED:
        parts.append(f"batches of {human_count(plan.batch_count)}")
    if plan.kind in (Kind.CONSUME, Kind.FETCH):
        parts.append(f"acks {plan.acks}" + (", confirmed" if plan.double_ack else ""))
    return f"{plan.kind} on {target}: " + ", ".join(parts)


def show_outcome(plan: Plan, outcome: Outcome) -> None:
    """The rates, the latencies and two small charts."""
    echo()
    echo(f"NATS {plan.kind} stats: {rate_text(outcome.rate, outcome.byte_rate)}")
    echo(f"  {human_count(outcome.count)} messages in {outcome.elapsed_s:.2f} s")
    if len(outcome.clients) > 1:
        for number, client in enumerate(outcome.clients, 1):
            byte_rate = client.byte_count / client.elapsed_s
            echo(f"  [{number}] {rate_text(client.rate, byte_rate)} ({human_count(client.count)} messages)")
        low, mean, high, deviation = (human_count(round(value)) for value in outcome.spread())
        echo(f"  clients: min {low} | avg {mean} | max {high} | stddev {deviation} msgs/sec")
    _show_latency(plan, outcome)
    _show_chart(outcome)


def _show_latency(plan: Plan, outcome: Outcome) -> None:
    latency = outcome.latency()
    if latency is None:
        return
    echo()
    echo(f"Latency of {plan.latency_of()} ({human_count(latency.count)} measured):")
    names = ("min", "avg", "P50", "P90", "P99", "P99.9", "max")
    echo("  " + " | ".join(f"{name} {value}" for name, value in zip(names, _latency_cells(latency), strict=True)))
    block = "█" if can_draw() else "#"
    for row in histogram(outcome.latencies_ns(), block=block):
        echo(f"  up to {microseconds(row.limit_ns):>9}  {human_count(row.count):>9}  {row.bar}")


def _latency_cells(latency: Latency) -> list[str]:
    values = (
        latency.min_ns, latency.mean_ns, latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.p999_ns,
        latency.max_ns,
    )  # fmt: skip
    return [microseconds(value) for value in values]


def _show_chart(outcome: Outcome) -> None:
    rates = outcome.rates_over_time()
    if not rates:
        return
    echo()
    line = sparkline(rates)
    echo(f"Rate over {outcome.elapsed_s:.2f} s (highest {human_count(round(max(rates)))} msgs/sec):")
    echo(f"  {line}")


def show_comparison(plan: Plan, sides: Sequence[Side]) -> None:
    """Two servers next to each other: the median of the runs, and how they compare."""
    first, second = sides
    rows: list[list[str]] = []
    for side in sides:
        latency = side.median.latency()
        cells = _latency_cells(latency) if latency else ["-"] * 7
        low, high = (human_count(round(rate)) for rate in (min(side.rates), max(side.rates)))
        rows.append(
            [side.server, side.url, human_count(round(statistics.median(side.rates))), f"{low} - {high}", *cells[2:]]
        )
    show_table(
        f"{plan.kind}: median of {len(first.outcomes)}, in turn",
        ["Server", "URL", "msgs/sec", "from - to", "P50", "P90", "P99", "P99.9", "max"],
        rows,
        right=["msgs/sec", "P50", "P90", "P99", "P99.9", "max"],
    )
    echo(f"latency is of {plan.latency_of()}")
    echo(f"ratio of rates: {ratio(sides):.2f} ({first.url} to {second.url})")


def ratio(sides: Sequence[Side]) -> float:
    """How many times as fast the first server is as the second."""
    first, second = sides
    return statistics.median(first.rates) / max(1e-9, statistics.median(second.rates))


def document(plan: Plan, sides: Sequence[Side]) -> dict[str, Any]:
    """Everything, for scripts."""
    made: dict[str, Any] = {
        "kind": str(plan.kind),
        "messages": plan.message_count,
        "duration_s": plan.duration_s,
        "size": len(plan.body()),
        "clients": plan.client_count,
        "batch": plan.batch_count,
        "latency_of": plan.latency_of(),
    }
    servers = [_side_document(side) for side in sides]
    if len(sides) == 1:
        return made | servers[0]
    return made | {"servers": servers, "ratio": ratio(sides)}


def _side_document(side: Side) -> dict[str, Any]:
    outcome = side.median
    latency = outcome.latency()
    return {
        "url": side.url,
        "server": side.server,
        "count": outcome.count,
        "elapsed_s": outcome.elapsed_s,
        "msgs_per_sec": outcome.rate,
        "bytes_per_sec": outcome.byte_rate,
        "rounds_msgs_per_sec": side.rates,
        "clients_msgs_per_sec": [client.rate for client in outcome.clients],
        "latency": latency.document() if latency else None,
    }


def write_csv(path: Path, run_id: str, sides: Sequence[Side]) -> None:
    """One line a client and round, after the names of the columns."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(CSV_COLUMNS)
        for side in sides:
            for round_number, outcome in enumerate(side.outcomes, 1):
                for client_number, client in enumerate(outcome.clients, 1):
                    latency = Latency.of(client.latencies_ns)
                    cells = latency.document() if latency else {}
                    writer.writerow(
                        [run_id, side.url, round_number, client_number, client.count, client.byte_count]
                        + [f"{client.rate:.1f}", f"{client.byte_count / client.elapsed_s:.1f}"]
                        + [f"{client.elapsed_s:.6f}"]
                        + [cells.get(f"{name}_us", "") for name in ("min", "p50", "p90", "p99", "p999", "max")]
                    )
