"""What the listener makes of a progress report, without a query."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetspark.client.errors import BadOptionError
from jetspark.spark.lag import LagListener, StreamLag, lags_of, metrics_text


def test_lags_are_read_from_our_sources_and_no_others() -> None:
    end = '{"v": 1, "streams": {"ORDERS": {"created": "2026", "seq": 6}}}'
    latest = (
        '{"v": 1, "streams": {"ORDERS": {"created": "2026", "seq": 10, "behindMessages": 4, "behindSeconds": 1.5}}}'
    )

    found = lags_of("q", [(end, latest), ('{"logOffset": 3}', "null"), ("not JSON", '{"orders": {"0": 7}}')])

    assert found == [StreamLag("q", "ORDERS", 4, 1.5, 6)]


def test_names_are_quoted_in_the_metrics() -> None:
    text = metrics_text([StreamLag('a "b"\n', "S", 4, 1.5, 6)])

    assert 'jetspark_spark_lag_seconds{query="a \\"b\\"\\n",stream="S"} 1.5' in text.splitlines()


def test_a_metrics_file_in_no_folder_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BadOptionError, match=f"metrics_file: there is no folder {tmp_path}/none"):
        LagListener(metrics_file=tmp_path / "none" / "lag.prom")
