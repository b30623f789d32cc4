"""The tree keeps its own rules: sizes, docstrings, and nothing that ties it to one machine."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60

# Path, or path::function, to the reason it may be larger. May shrink, not grow.
OVERSIZE: dict[str, str] = {
    "src/jetspark/protocol/parser.py::_publish_native": "one loop over bytes: a call for each would cost more",
}

# A mark for a linter or a type checker, and what is said after it.
SILENCED = re.compile(r"#\s*(?:noqa: [A-Z]+[0-9]+(?:, [A-Z]+[0-9]+)*|type: ignore(?:\[[^\]]*\])?)(.*)$")

# Spelled in pieces so that this file passes its own test.
MACHINE_WORDS = re.compile(
    "|".join(
        [
            "/ho" + "me/",
            "/ro" + "ot/",
            "/wo" + "rk/",
            "/tmp/" + "pv",
            "/Us" + "ers/",
            r"pypi\." + r"org",
            "--index" + "-url",
            "artifact" + "ory",
        ]
    )
)


def tracked_files() -> list[Path]:
    """Every file of the project that is not ignored, without asking git when there is none."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        return [path for name in listed.stdout.splitlines() if (path := ROOT / name).is_file()]
    folders = [ROOT / name for name in ("src", "tests", "docs", "examples", "bench")]
    return [
        path for folder in folders for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    ]


PYTHON_FILES = sorted(path for path in tracked_files() if path.suffix == ".py")
SOURCE_FILES = [path for path in PYTHON_FILES if path.is_relative_to(ROOT / "src")]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PYTHON_FILES, ids=relative)
def test_files_fit_in_one_sitting(path: Path) -> None:
    line_count = len(path.read_text(encoding="utf-8").splitlines())

    assert line_count <= FILE_LINES_MAX or relative(path) in OVERSIZE, f"{relative(path)} has {line_count} lines"


@pytest.mark.parametrize("path", SOURCE_FILES, ids=relative)
def test_functions_fit_on_one_screen(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))

    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            line_count = node.end_lineno - node.lineno + 1
            name = f"{relative(path)}::{node.name}"
            assert line_count <= FUNCTION_LINES_MAX or name in OVERSIZE, f"{name} has {line_count} lines"


@pytest.mark.parametrize("path", SOURCE_FILES, ids=relative)
def test_modules_say_what_they_decide(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), f"{relative(path)} has no docstring"


def test_exceptions_to_the_sizes_are_still_needed() -> None:
    for name in OVERSIZE:
        assert (ROOT / name.split("::")[0]).is_file(), f"{name} is gone: take it off the list"


@pytest.mark.parametrize("path", PYTHON_FILES, ids=relative)
def test_a_check_is_silenced_for_a_reason_that_stands_beside_it(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        mark = SILENCED.search(line)
        has_comment_above = number > 1 and lines[number - 2].lstrip().startswith("#")
        if mark is not None and not re.search("[a-z]{2}", mark[1]) and not has_comment_above:
            found.append(f"{relative(path)}:{number}")

    assert found == []


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in tracked_files():
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        found += [f"{relative(path)}:{number}" for number, line in enumerate(lines, 1) if MACHINE_WORDS.search(line)]

    assert found == []


def test_no_compiled_file_shadows_the_source() -> None:
    assert [relative(path) for path in (ROOT / "src").rglob("*.so")] == []
