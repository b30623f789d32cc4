"""The demo that newcomers run first keeps its promise."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from examples.demo.checks import Verdict

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "examples" / "demo_server.py"


@pytest.mark.slow
@pytest.mark.peers
def test_the_demo_verifies_its_numbers_across_a_crash() -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO), "--messages", "2000"], capture_output=True, text=True, check=False, timeout=55
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "verified    all 2,000 messages" in done.stdout


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(480)
def test_the_main_demo_agrees_with_itself_across_a_crash_with_spark_reading_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.demo", "--orders", "2000", "--rate", "100"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=450)

    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("  ") and line[30:].strip()]
    # A number, and after it where it comes from.
    said = {line[2:30].strip(): line[30:].split()[0] for line in lines}
    assert (said["published and acknowledged"], said["stored"], said["processed"]) == ("2,000", "2,000", "2,000")
    assert (said["archived rows"], said["duplicates"], said["lost"]) == ("4,000", "0", "0")
    assert said["seen by the monitor"] == "4,000"
    assert done.stderr == ""
    assert own_folders(tmp_path) == []


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(180)
def test_ctrl_c_ends_the_main_demo_and_leaves_nothing_behind(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "examples.demo", "--orders", "100000"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert demo.stdout is not None
    next(line for line in demo.stdout if "three Spark queries" in line)
    family = psutil.Process(demo.pid).children(recursive=True)

    os.killpg(demo.pid, signal.SIGINT)  # As a terminal does it: to everybody.
    said, _ = demo.communicate(timeout=100)

    assert demo.returncode == 130, said
    assert "interrupted" in said
    gone, alive = psutil.wait_procs(family, timeout=20)
    assert (len(gone), alive) == (len(family), [])
    assert own_folders(tmp_path) == []


def own_folders(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith("jetspark")]


def test_the_verdict_of_the_demo_counts_what_is_missing_and_what_is_there_twice() -> None:
    verdict = Verdict()

    verdict.compare("stored", ["a", "b", "b"], {"a", "b", "c"}, "orders")

    assert verdict.lines == [("stored", "3", "orders")]
    assert (verdict.duplicates, verdict.lost) == (1, 1)
    assert verdict.problems == ["stored: 3 found, 1 missing, 0 not expected"]
