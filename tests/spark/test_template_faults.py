"""What is published for the templates under faults, and how results are compared."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from jetspark.spark.pipelines.project import create_project, template_names
from tests.spark.template_cases import CASES
from tests.spark.template_rows import compare

pytestmark = [pytest.mark.slow, pytest.mark.timeout(800)]


def test_every_template_has_a_trial() -> None:
    assert sorted(CASES) == template_names()


@pytest.mark.parametrize("name", sorted(CASES))
def test_what_is_published_for_a_template_depends_on_the_seed_alone(name: str) -> None:
    first, again, other = (CASES[name]().messages(Random(seed), 500) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == 500


def test_a_comparison_tells_lost_doubled_and_wrong_rows() -> None:
    told = compare(Counter({"a": 1, "b": 2, "c": 1}), Counter({"a": 3, "b": 1, "x": 1}))
    assert (told["rows"], told["lost"], told["doubled"], told["wrong"]) == (4, 2, 2, 1)
    assert told["lost_examples"] == ["'b'", "'c'"]


def test_no_template_asks_for_partitions_that_spark_does_not_make(tmp_path: Path) -> None:
    # Spark 4.3 puts them into the catalog, and writes the files of a streaming table without them.
    for name in template_names():
        for path in create_project(name, name, tmp_path):
            assert "partition_cols" not in path.read_text("utf-8"), path
