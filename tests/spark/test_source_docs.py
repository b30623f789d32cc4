"""The page about the source: its code runs and prints what it says, and it names every option."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.docs.blocks import Program

from jetspark.spark.source_options import SOURCE_OPTIONS
from spark.conftest import running, url_of

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "spark-source.md"


def test_the_page_names_every_option_and_no_other() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \| (.*?) \|", PAGE.read_text().split("## Options")[1], re.MULTILINE)

    assert dict(rows) == {option.name: option.kind.takes for option in SOURCE_OPTIONS}


def test_the_code_of_the_page_runs(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running("jetspark") as process:
        monkeypatch.chdir(tmp_path)
        program = Program(PAGE, url_of(process), {})
        count = asyncio.run(program.run())
        spark.streams.removeListener(program._names["listener"])

    assert count >= 4
    assert spark.table("eu").count() == 50
