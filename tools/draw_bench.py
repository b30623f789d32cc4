"""Draws `make bench` output: docs/benchmarks.svg for the README and docs/benchmarks.md with every number.

    make bench
    python tools/draw_bench.py build/bench.json

Only what was measured is drawn: a job that is not in the file is not in the chart. A bar is the ratio of the two sides
in the same run, so it says more on a noisy machine than either number alone.
"""

from __future__ import annotations

import argparse
import html
import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# In the chart: job, what to call it, and what one means.
CHART = (
    ("publish-file", "publish to disk, synced before the ack", "nats-server, not synced"),
    ("publish-memory", "publish to memory", "nats-server"),
    ("pull-none", "pull, no acks", "nats-server"),
    ("pull-explicit", "pull, explicit acks", "nats-server"),
    ("push-flow", "push with flow control", "nats-server"),
    ("restart", "restart with 5 million messages", "nats-server"),
    ("client-publish", "client: pipelined publish", "nats-py"),
    ("client-fetch", "client: fetch 500, ack each", "nats-py"),
    ("client-ordered", "client: ordered consume", "nats-py"),
)
ROW_HEIGHT = 26
LABEL_WIDTH = 292
BAR_WIDTH = 330
WIDTH = 800
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#24292f}.m{fill:#57606a}.b{fill:#2da44e}.o{stroke:#57606a;"
    "stroke-dasharray:3 3}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.m{fill:#8d96a0}.b{fill:#3fb950}"
    ".o{stroke:#8d96a0}}"
)


def chart(rows: dict[str, dict[str, Any]]) -> str:
    """One bar a job; the dashed line is the other side."""
    shown = [(rows[job], name, peer) for job, name, peer in CHART if job in rows]
    if not shown:
        raise SystemExit("nothing to draw: none of the chart's jobs is in the file")
    longest = max(row["ratio"] for row, _, _ in shown)
    scale = BAR_WIDTH / longest
    height = ROW_HEIGHT * len(shown) + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'aria-label="How many times faster than the peer, in the same run"><style>{STYLE}</style>'
    ]
    for index, (row, name, peer) in enumerate(shown):
        top = 8 + index * ROW_HEIGHT
        parts.append(f'<text x="{LABEL_WIDTH - 8}" y="{top + 15}" text-anchor="end">{html.escape(name)}</text>')
        width = row["ratio"] * scale
        parts.append(f'<rect class="b" x="{LABEL_WIDTH}" y="{top + 2}" width="{width:.1f}" height="18" rx="2"/>')
        said = f"{row['ratio']:.1f} × {peer}"
        parts.append(f'<text class="m" x="{LABEL_WIDTH + width + 6:.1f}" y="{top + 15}">{html.escape(said)}</text>')
    one = LABEL_WIDTH + scale
    bottom = 8 + len(shown) * ROW_HEIGHT
    parts.append(f'<line class="o" x1="{one:.1f}" y1="4" x2="{one:.1f}" y2="{bottom}"/>')
    parts.append(f'<text class="m" x="{one:.1f}" y="{bottom + 16}" text-anchor="middle">1 × = the peer</text></svg>\n')
    return "\n".join(parts)


def amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(document: dict[str, Any]) -> str:
    """Every measure of the run."""
    machine = document["machine"]
    lines = [
        "# Benchmarks",
        "",
        "Made by `make bench` and `python tools/draw_bench.py`; nothing here is typed by hand. Both sides run on the "
        "same machine, in turn, a fresh server and store each time; a ratio is the median of the ratios of "
        "neighbouring runs, and above 1 always means that this project is better. Messages have 128 bytes unless "
        "named otherwise; publishing keeps 8,000 in flight on one connection.",
        "",
        "![How many times faster than its peer each job is](benchmarks.svg)",
        "",
        f"Machine: {machine['machine']}, Python {machine['python']}. Ours: {machine['ours']}. "
        f"Theirs: {machine['theirs']}.",
        "",
        "| job | measure | ours | theirs | unit | ratio | at least |",
        "|---|---|---:|---:|---|---:|---:|",
    ]
    for row in document["rows"]:
        bar = "" if row["at_least"] is None else f"{row['at_least']:.2f}"
        numbers = f"{amount(row['ours'])} | {amount(row['theirs'])} | {row['unit']} | {row['ratio']:.2f} | {bar}"
        lines.append(f"| {row['job']} | {row['measure']} | {numbers} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, help="JSON written by `make bench`; later files win")
    documents = [json.loads(file.read_text(encoding="utf-8")) for file in parser.parse_args().files]
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for document in documents:
        rows.update({(row["job"], row["measure"]): row for row in document["rows"]})
    first: dict[str, dict[str, Any]] = {}
    for (job, _), row in rows.items():
        first.setdefault(job, row)
    merged = {"machine": documents[0]["machine"], "rows": list(rows.values())}
    (ROOT / "docs" / "benchmarks.svg").write_text(chart(first), encoding="utf-8")
    (ROOT / "docs" / "benchmarks.md").write_text(table(merged), encoding="utf-8")


if __name__ == "__main__":
    main()
