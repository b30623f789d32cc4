"""Check the rules of the tree that no linter knows: sizes, docstrings, reasons, and nothing of one machine.

    python tools/check_tree.py           print every file that breaks a rule, and fail if there is one
    python tools/check_tree.py FOLDER    the same for another tree

Rules that Ruff, mypy or import-linter can express belong there.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
FOLDERS = ("src", "tests", "docs", "examples", "bench", "tools")

# Path::function to the reason it may be larger.
OVERSIZE: dict[str, str] = {
    "src/jetspark/protocol/parser.py::_publish_native": "one loop over bytes: a call for each would cost more",
}

# A mark for a linter or a type checker, and what is said after it.
SILENCED = re.compile(r"#\s*(?:noqa: [A-Z]+[0-9]+(?:, [A-Z]+[0-9]+)*|type: ignore(?:\[[^\]]*\])?)(.*)$")

# Spelled in pieces so that this file passes its own check.
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


def main() -> int:
    root = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT
    problems = list(check(root))
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def check(root: Path) -> Iterator[str]:
    """One line for each place that breaks a rule: path, line, what is wrong."""
    names: set[str] = set()
    for path in tracked_files(root):
        name = path.relative_to(root).as_posix()
        names.add(name)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        yield from machine_words(name, text)
        if path.suffix == ".py":
            yield from file_rules(name, text)
        if name.startswith("src/") and path.suffix == ".py":
            yield from source_rules(name, ast.parse(text))
    for oversize in OVERSIZE:
        if root == ROOT and oversize.split("::")[0] not in names:
            yield f"{oversize} is gone: take it out of OVERSIZE"
    for compiled in sorted((root / "src").rglob("*.so")):
        yield f"{compiled.relative_to(root).as_posix()}: a compiled file hides the source beside it: remove it"


def tracked_files(root: Path) -> list[Path]:
    """Every file that git does not ignore; in an archive of the project, all that its folders hold."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        found = (path for folder in FOLDERS for path in (root / folder).rglob("*"))
        return sorted(path for path in found if path.is_file() and "__pycache__" not in path.parts)
    return [path for name in sorted(listed.stdout.splitlines()) if (path := root / name).is_file()]


def machine_words(name: str, text: str) -> Iterator[str]:
    if MACHINE_WORDS.search(text):
        for number, line in enumerate(text.splitlines(), 1):
            if found := MACHINE_WORDS.search(line):
                yield f"{name}:{number}: {found[0]} belongs to one machine"


def file_rules(name: str, text: str) -> Iterator[str]:
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield f"{name}: {len(lines)} lines, more than {FILE_LINES_MAX}: divide it by what it decides"
    for number, line in enumerate(lines, 1):
        mark = SILENCED.search(line)
        has_comment_above = number > 1 and lines[number - 2].lstrip().startswith("#")
        if mark is not None and not re.search("[a-z]{2}", mark[1]) and not has_comment_above:
            yield f"{name}:{number}: a check is silenced without a reason: say it after the mark or in a comment above"


def source_rules(name: str, tree: ast.Module) -> Iterator[str]:
    if not ast.get_docstring(tree):
        yield f"{name}:1: no docstring: say what the module decides and what it does not"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            line_count = node.end_lineno - node.lineno + 1
            if line_count > FUNCTION_LINES_MAX and f"{name}::{node.name}" not in OVERSIZE:
                yield f"{name}:{node.lineno}: {node.name} has {line_count} lines, more than {FUNCTION_LINES_MAX}"


if __name__ == "__main__":
    sys.exit(main())
