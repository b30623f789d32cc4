"""docs/compat.md is true: the tests it names exist, and every known difference has its line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "compat.md").read_text()
NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+(?:::\w+)?)`", PAGE)))
MARKED = re.compile(r'known_difference=\s*\(?\s*"([^"]+)"')


@pytest.mark.parametrize("name", NAMED)
def test_the_test_named_on_the_page_exists(name: str) -> None:
    path, _, function = name.partition("::")

    text = (ROOT / path).read_text() if (ROOT / path).is_file() else ""

    assert (ROOT / path).exists()
    assert not function or f"def {function}(" in text


def test_every_scenario_marked_as_different_has_its_line() -> None:
    notes = [
        note
        for path in (ROOT / "tests" / "conformance" / "scenarios").glob("*.py")
        for note in MARKED.findall(path.read_text())
    ]

    assert notes
    assert [note for note in notes if note not in PAGE] == []


def test_the_table_of_scenarios_is_made_from_the_scenarios_there_are() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_compat.py"), "--check"]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=50)

    assert (done.returncode, done.stderr) == (0, "")
