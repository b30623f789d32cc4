"""Draws `make bench` output: docs/benchmarks.svg for the README and docs/benchmarks.md with every number.

    make bench
    python tools/draw_bench.py            # or with other files than build/bench.json; later ones win

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
# In the chart, by what the bars are compared with: job, and what to call it.
CHART = (
    (
        "Server: times as fast as nats-server",
        (
            ("publish-file", "publish: ours synced, theirs not"),
            ("publish-memory", "publish to memory"),
            ("pull-none", "pull, no acks"),
            ("pull-explicit", "pull, explicit acks"),
            ("push-flow", "push with flow control"),
            ("restart", "restart with 5 million messages"),
        ),
    ),
    (
        "Client: times as fast as nats-py",
        (
            ("client-publish", "publish, many in flight"),
            ("client-fetch", "fetch 500, ack each"),
            ("client-ordered", "ordered consumer"),
        ),
    ),
)
METHOD = (
    "`make bench` measures, `python tools/draw_bench.py` writes this page; no number is typed by hand.",
    "",
    "- Both sides run on the same machine, one after the other, each time with a fresh server and an empty store.",
    "- A ratio is the median of the ratios of neighbouring runs. Above 1 always means that Jetspark is better; "
    "*at least* is the ratio the project asks of itself.",
    "- Messages have 128 bytes unless the row says otherwise. Publishing keeps 8,000 in flight on one connection.",
    "- Jetspark's server syncs to disk before it acknowledges, unless the row says otherwise. nats-server runs with "
    "its default, which syncs every two minutes, or with `sync_interval: always` in the rows named so.",
    "",
    "![How many times as fast as nats-server and nats-py each job is](benchmarks.svg)",
    "",
    "A row below 1 is one where the other side is faster. The `latency` rows are one publish at a time, each waiting "
    "for its own sync; the chart's jobs keep many in flight, which share syncs.",
)
ROW_HEIGHT = 26
HEADING_HEIGHT = 30
LABEL_WIDTH = 250
BAR_WIDTH = 350
WIDTH = 660
# Readable when a phone shows the chart at half its size.
STYLE = (
    "text{font:14px system-ui,-apple-system,'Segoe UI',sans-serif;fill:#24292f}.h,.v{font-weight:600}.m{fill:#57606a;"
    "font-size:12px}.b{fill:#00897b}.o{stroke:#57606a;stroke-dasharray:3 3}@media(prefers-color-scheme:dark){"
    "text{fill:#e6edf3}.m{fill:#9198a1}.b{fill:#26a69a}.o{stroke:#9198a1}}"
)


def chart(rows: dict[str, dict[str, Any]]) -> str:
    """A bar for each job; the dashed line is the other side's speed."""
    groups = [
        (heading, [(rows[job]["ratio"], name) for job, name in jobs if job in rows])
        for heading, jobs in CHART
        if any(job in rows for job, _ in jobs)
    ]
    if not groups:
        raise SystemExit("nothing to draw: none of the chart's jobs is in the file")
    scale = BAR_WIDTH / max(ratio for _, bars in groups for ratio, _ in bars)
    one = LABEL_WIDTH + scale
    parts: list[str] = []
    top = 0
    for heading, bars in groups:
        parts.append(f'<text class="h" x="0" y="{top + 20}">{html.escape(heading)}</text>')
        top += HEADING_HEIGHT
        bottom = top + len(bars) * ROW_HEIGHT
        for index, (ratio, name) in enumerate(bars):
            y = top + index * ROW_HEIGHT
            width = ratio * scale
            parts.append(f'<text x="0" y="{y + 17}">{html.escape(name)}</text>')
            parts.append(f'<rect class="b" x="{LABEL_WIDTH}" y="{y + 3}" width="{width:.1f}" height="19" rx="2"/>')
            parts.append(f'<text class="v" x="{LABEL_WIDTH + width + 8:.1f}" y="{y + 17}">{ratio:.1f}×</text>')
        parts.append(f'<line class="o" x1="{one:.1f}" y1="{top}" x2="{one:.1f}" y2="{bottom}"/>')
        top = bottom + 8
    parts.append(f'<text class="m" x="{one:.1f}" y="{top + 8}" text-anchor="middle">1× = as fast</text>')
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top + 16}" viewBox="0 0 {WIDTH} {top + 16}" '
        f'role="img" aria-label="How many times as fast as nats-server and nats-py, in the same run">'
        f"<style>{STYLE}</style>"
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


def amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(document: dict[str, Any]) -> str:
    """Every measure of the run."""
    machine = document["machine"]
    lines = [
        "# Benchmarks",
        "",
        *METHOD,
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
    default = [ROOT / "build" / "bench.json"]
    parser.add_argument("files", nargs="*", type=Path, default=default, help="JSON of `make bench` (build/bench.json)")
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
