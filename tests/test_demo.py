"""The demo that newcomers run first keeps its promise."""

import subprocess
import sys
from pathlib import Path

import pytest

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
def test_the_main_demo_agrees_with_itself_across_a_crash_with_spark_reading_on() -> None:
    command = [sys.executable, "-m", "examples.demo", "--orders", "2000", "--rate", "100"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=450)

    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    said = {line[2:30].strip(): line[30:].strip() for line in done.stdout.splitlines() if line.startswith("  ")}
    assert (said["published and acknowledged"], said["stored"], said["processed"]) == ("2,000", "2,000", "2,000")
    assert (said["archived rows"], said["duplicates"], said["lost"]) == ("4,000", "0", "0")
