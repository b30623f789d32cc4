"""The demo that newcomers run first keeps its promise."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parent.parent / "examples" / "demo_server.py"


@pytest.mark.slow
@pytest.mark.peers
def test_the_demo_verifies_its_numbers_across_a_crash() -> None:
    done = subprocess.run(
        [sys.executable, str(DEMO), "--messages", "2000"], capture_output=True, text=True, check=False, timeout=55
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "verified    all 2,000 messages" in done.stdout
