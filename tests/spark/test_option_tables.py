"""The pages about source and sink name every option and what it takes. Their code is run by tests/docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jetspark.spark.options import Option
from jetspark.spark.sink_options import SINK_OPTIONS
from jetspark.spark.source_options import SOURCE_OPTIONS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("page", "options"),
    [("spark-source.md", SOURCE_OPTIONS), ("spark-sink.md", SINK_OPTIONS)],
    ids=["source", "sink"],
)
def test_a_page_names_every_option_and_no_other(page: str, options: tuple[Option, ...]) -> None:
    table = (DOCS / page).read_text(encoding="utf-8").split("## Options")[1]

    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) \|", table, re.MULTILINE)

    assert dict(rows) == {option.name: option.kind.takes for option in options}
