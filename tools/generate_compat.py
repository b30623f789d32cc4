"""Write the parts of docs/compat.md that come from the tests: what is compared with nats-server, scenario by scenario.

    python tools/generate_compat.py           write the page
    python tools/generate_compat.py --check   say whether the page is out of date, and fail if it is

The scenarios are read, not run: `tests/conformance` plays each on our server and compares the replies with recorded
ones of nats-server. What stands between the two marks of the page is written here; the rest is written by hand.
"""

from __future__ import annotations

import argparse
import ast
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "compat.md"
SCENARIOS = ROOT / "tests" / "conformance" / "scenarios"
BEGIN = "<!-- made by tools/generate_compat.py from tests/conformance: begin -->\n"
END = "<!-- end -->\n"


@dataclass(frozen=True)
class Area:
    """One module of scenarios."""

    name: str
    about: str
    same: tuple[str, ...]
    different: tuple[str, ...]


def areas() -> list[Area]:
    """Every module that has scenarios, by name."""
    found = [_area(path) for path in sorted(SCENARIOS.glob("*.py"))]
    return [area for area in found if area.same or area.different]


def _area(path: Path) -> Area:
    module = ast.parse(path.read_text(encoding="utf-8"))
    same: list[str] = []
    different: list[str] = []
    for function in module.body:
        if not isinstance(function, ast.FunctionDef):
            continue
        for mark in function.decorator_list:
            if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "scenario":
                is_different = any(keyword.arg == "known_difference" for keyword in mark.keywords)
                (different if is_different else same).append(function.name.replace("_", " "))
    about = (ast.get_docstring(module) or "").partition("\n")[0].rstrip(".")
    return Area(path.stem, about, tuple(same), tuple(different))


def made() -> str:
    """The table of areas, and under it each scenario's name, which is a sentence."""
    every = areas()
    same, different = sum(len(area.same) for area in every), sum(len(area.different) for area in every)
    lines = [
        f"{same + different} scenarios run on both servers; "
        f"{same} get the same replies, {different} differ on purpose.",
        "",
        "| area | the same | different on purpose | scenarios in `tests/conformance/scenarios` |",
        "|---|---:|---:|---|",
    ]
    lines += [
        f"| {area.about} | {len(area.same)} | {len(area.different) or ''} | [`{area.name}`](#{area.name}) |"
        for area in every
    ]
    lines += ["", "### Every scenario by name"]
    for area in every:
        names = [*area.same, *(f"**{name}** (different on purpose)" for name in area.different)]
        lines += ["", f"#### {area.name}", "", " · ".join(names)]
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """The page with its made part made anew."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} has lost its marks: {BEGIN.strip()} … {END.strip()}")
    return before + begin + made() + end + after


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    is_check = parser.parse_args().check
    text = PAGE.read_text(encoding="utf-8")
    if not is_check:
        PAGE.write_text(page(text), encoding="utf-8")
    elif page(text) != text:
        sys.exit("docs/compat.md is out of date: run tools/generate_compat.py")


if __name__ == "__main__":
    main()
