"""The rules of the tree that no linter knows are checked, and the check can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[1] / "tools" / "check_tree.py"
# Spelled in pieces, or the check would find them here.
OWN_FOLDER = "/ho" + "me/me"
SILENCED = "x = y  # type: " + "ignore[name-defined]\n"


def check(folder: Path, name: str, text: str) -> tuple[int, list[str]]:
    """The exit code and the lines for a tree that holds one file."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    command = [sys.executable, str(CHECK), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("docs/page.md", f"first\ncd {OWN_FOLDER}\n", "docs/page.md:2: "),
        ("tests/test_long.py", "\n" * 501, "tests/test_long.py: 501 lines"),
        ("bench/run.py", SILENCED, "bench/run.py:1: a check is silenced"),
        ("src/jetspark/new.py", "x = 1\n", "src/jetspark/new.py:1: no docstring"),
        (
            "src/jetspark/new.py",
            '"""New."""\n\ndef f():\n' + "    pass\n" * 60,
            "src/jetspark/new.py:3: f has 61 lines",
        ),
        ("src/jetspark/_native.so", "", "src/jetspark/_native.so: a compiled file"),
    ],
)
def test_a_file_that_breaks_a_rule_is_named(tmp_path: Path, name: str, text: str, says: str) -> None:
    code, lines = check(tmp_path, name, text)

    assert (code, len(lines)) == (1, 1), lines
    assert lines[0].startswith(says)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tests/test_long.py", "\n" * 500),
        ("bench/run.py", SILENCED.replace("\n", "  the name comes later\n")),
        ("bench/run.py", "# the name comes later\n" + SILENCED),
        ("src/jetspark/new.py", '"""New."""\n\ndef f():\n' + "    pass\n" * 59),
    ],
)
def test_a_file_within_the_rules_passes(tmp_path: Path, name: str, text: str) -> None:
    assert check(tmp_path, name, text) == (0, [])
