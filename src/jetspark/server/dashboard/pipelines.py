"""Running Spark pipelines, as they report themselves.

A pipeline writes its progress as JSON into the key-value bucket `jetspark_pipelines`, one key each (docs/dashboard.md
describes the fields). Decided here: how a report is read, and when its writer counts as silent. Not known here: Spark.
A bucket is an ordinary stream, so reports survive a page that was not open, belong to an account, and work the same
on any NATS server.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from jetspark.api.timestamps import format_time
from jetspark.protocol import headers
from jetspark.protocol.subjects import SubjectFilter
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.server.dashboard.logins import Viewer

BUCKET: Final = "jetspark_pipelines"
_STREAM: Final = f"KV_{BUCKET}"
_PREFIX: Final = f"$KV.{BUCKET}.".encode()
_REPORTS_MAX: Final = 200
# Reports come every few seconds; after this long without one the pipeline is not shown as running.
SILENT_NS: Final = 60_000_000_000
_NUMBERS: Final = ("batch", "input_rows", "input_rows_per_second", "processed_rows_per_second", "batch_duration_ms")
_WORDS: Final = ("state", "sink", "run_id", "error", "started")


def pipelines(viewer: Viewer, now_ns: int) -> dict[str, Any]:
    """Every pipeline that reported lately, newest report first."""
    stream = viewer.account.jetstream.streams.get(_STREAM)
    rows: list[dict[str, Any]] = []
    if stream is not None and viewer.may_ask(f"$JS.API.STREAM.MSG.GET.{_STREAM}"):
        view = RecordView()
        for subject in list(stream.store.subjects)[:_REPORTS_MAX]:
            seq = stream.store.last_match(SubjectFilter([subject]), stream.store.visible_seq)
            if not seq or not stream.store.view(seq, view) or headers.find_value(view.header(), b"KV-Operation"):
                continue
            name = subject.removeprefix(_PREFIX).decode("utf-8", "replace")
            report = _read(name, view.payload())
            if report is not None:
                report["updated"] = format_time(view.ts_ns)
                report["age_s"] = max(0, now_ns - view.ts_ns) // 1_000_000_000
                if report["state"] == "running" and now_ns - view.ts_ns > SILENT_NS:
                    report["state"] = "silent"
                report["sources"] = [_with_lag(viewer, source) for source in report["sources"]]
                rows.append(report)
    rows.sort(key=lambda row: (row["age_s"] // 10, row["name"]))
    return {"bucket": BUCKET, "rows": rows}


def _read(name: str, payload: bytes) -> dict[str, Any] | None:
    """A report, with nothing in it that is not of the expected kind; None when it is not a report at all."""
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    report: dict[str, Any] = {"key": name, "name": str(document.get("name") or name)}
    for key in _NUMBERS:
        value = document.get(key)
        report[key] = value if _is_number(value) else None
    for key in _WORDS:
        report[key] = str(document.get(key) or "")
    report["state"] = report["state"] or "running"
    sources = document.get("sources")
    report["sources"] = [source for source in sources if isinstance(source, dict)] if isinstance(sources, list) else []
    return report


def _is_number(value: object) -> bool:
    """Python reads NaN and Infinity too, which no browser does."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _with_lag(viewer: Viewer, source: dict[str, Any]) -> dict[str, Any]:
    """Where a source stands in its stream, if the stream is here and the viewer may ask for it."""
    name = str(source.get("stream") or "")
    end_seq = source.get("end_seq")
    stream = viewer.account.jetstream.streams.get(name)
    if stream is not None and not viewer.may_ask(f"$JS.API.STREAM.INFO.{name}"):
        stream = None
    is_seq = isinstance(end_seq, int) and not isinstance(end_seq, bool)
    known: dict[str, Any] = {"stream": name, "end_seq": end_seq if is_seq else None}
    if stream is not None and isinstance(end_seq, int) and is_seq:
        first, last = int(stream.store.first_seq), int(stream.store.visible_seq)
        known.update(first_seq=first, last_seq=last, lag=max(0, last - end_seq))
    return known
