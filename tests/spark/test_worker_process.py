"""Spark's Python workers: the second task leaves what is imported out of the collections that follow every task."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from jetspark.spark.worker_process import DAEMON

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

_TASKS = """
import gc, sys
from importlib.machinery import ModuleSpec
from jetspark.spark.worker_process import begin_task
sys.modules["__main__"].__spec__ = ModuleSpec(sys.argv[1], None)
frozen = []
for _ in range(3):
    begin_task()
    frozen.append(gc.get_freeze_count())
    kept = [[] for _ in range(1000)]
print(frozen[0], frozen[1] > 1000, frozen[2] <= frozen[1])
"""


@pytest.mark.parametrize(("main", "frozen"), [(DAEMON, "0 True True"), ("pytest", "0 False True")])
def test_with_its_second_task_a_worker_freezes_what_is_there_once(main: str, frozen: str) -> None:
    done = subprocess.run([sys.executable, "-c", _TASKS, main], capture_output=True, text=True, check=False)

    assert done.stdout.strip() == frozen, done.stderr


def test_workers_are_forked_from_the_daemon_that_collects(spark: SparkSession) -> None:
    def who(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            spec = sys.modules["__main__"].__spec__
            yield pa.RecordBatch.from_pydict({"name": [spec.name if spec else ""]})

    assert spark.range(1).mapInArrow(who, "name string").collect()[0][0] == DAEMON
