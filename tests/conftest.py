"""What holds for every test: generated examples are the same in every run, and no example is judged by its duration."""

import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None)
# HYPOTHESIS_PROFILE=explore looks for new examples; a failure it finds becomes a test of its own.
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# A run started in the background by a shell inherits a SIGINT that is ignored; the tests of Ctrl-C, and the programs
# they start, need the usual one.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Each Java of the tests lives for seconds: what its second compiler would gain comes too late, and costs a core.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Written by `make test`: with it a Java need not load and check all of Spark's classes (tests/spark/class_archive.py).
CLASS_ARCHIVE = Path(sys.prefix) / "spark-classes.jsa"
if CLASS_ARCHIVE.exists() and " " not in str(CLASS_ARCHIVE):
    JAVA_OPTIONS += f" -XX:SharedArchiveFile={CLASS_ARCHIVE} -Xlog:disable"
os.environ.setdefault("SPARK_SUBMIT_OPTS", JAVA_OPTIONS)
os.environ.setdefault("SPARK_DAEMON_JAVA_OPTS", JAVA_OPTIONS)

# Programs that are not ours take part in these, with time limits of their own that a busy machine can break.
SECOND_CHANCE_MARKERS = ("browser", "oracle", "peers", "spark")

# Files with Spark that take longest come first: two workers end together only if the last files are short ones.
LONGEST_FILES = (
    "tests/spark/test_pipeline_declared.py",
    "tests/spark/test_exactly_once.py",
    "tests/spark/test_scale.py",
    "tests/spark/test_pipeline_whole.py",
    "tests/test_demo.py",
    "tests/docs/test_pages.py",
    "tests/spark/test_sink_spark.py",
    "tests/spark/test_pipeline_progress.py",
    "tests/spark/test_early_end.py",
    "tests/spark/test_discovery.py",
    "tests/spark/test_connect_client.py",
    "tests/spark/test_speculation.py",
    "tests/spark/test_connect_secrets.py",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Such a test fails when it fails twice. The summary counts the first failures as `rerun` and tells of each.

    The long forms marked `soak` are left out unless `-m` names them.
    """
    if "soak" not in config.option.markexpr:
        long = [item for item in items if item.get_closest_marker("soak")]
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=long)
    turns = {name: turn for turn, name in enumerate(LONGEST_FILES)}
    items.sort(key=lambda item: turns.get(item.location[0], len(turns)))
    for item in items:
        if any(item.get_closest_marker(name) for name in SECOND_CHANCE_MARKERS):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What went wrong the first time: a second chance must not hide it."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"failed at first: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)
