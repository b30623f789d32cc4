"""Write the tables of options in docs/spark-source.md and docs/spark-sink.md from the options themselves.

    python tools/generate_option_tables.py           write the pages
    python tools/generate_option_tables.py --check   say whether a page is out of date, and fail if one is

What stands between the two marks of a page is written here; the rest of it is written by hand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jetspark.spark import option_values as kinds
from jetspark.spark.options import CONNECTION_OPTIONS, Option
from jetspark.spark.sink_options import SINK_OPTIONS
from jetspark.spark.source_options import SOURCE_OPTIONS

DOCS = Path(__file__).parents[1] / "docs"
BEGIN = "<!-- made by tools/generate_option_tables.py: begin -->\n"
END = "<!-- end -->\n"
PAGES = {"spark-source.md": SOURCE_OPTIONS, "spark-sink.md": SINK_OPTIONS}
IN_MILLISECONDS = (kinds.MILLISECONDS, kinds.TIMEOUT)


def made(options: Sequence[Option]) -> str:
    """What is special to one side first, then the connection."""
    own = [option for option in options if option not in CONNECTION_OPTIONS]
    return f"\n{_table(own)}\n### Connection\n\n{_table(CONNECTION_OPTIONS)}\n"


def _table(options: Sequence[Option]) -> str:
    rows = "".join(
        f"| `{one.name}` | {one.kind.takes} | {_default(one)} | {one.doc}{_also(one)} |\n" for one in options
    )
    return f"| option | takes | default | what it does |\n|---|---|---|---|\n{rows}"


def _default(option: Option) -> str:
    value: Any = option.default
    if value in (None, "", ()):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if option.kind in IN_MILLISECONDS:
        return str(round(value * 1000))
    return f"{round(value / 60)}m" if option.kind is kinds.DURATION else str(value)


def _also(option: Option) -> str:
    return f" Also spelled {', '.join(f'`{text}`' for text in option.also)}." if option.also else ""


def main() -> int:
    """Write both pages, or check them."""
    parser = argparse.ArgumentParser(description="The tables of Spark options in the documentation.")
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    status = 0
    for name, options in PAGES.items():
        page = DOCS / name
        text = page.read_text(encoding="utf-8")
        head, begin, rest = text.partition(BEGIN)
        _, end, tail = rest.partition(END)
        if not begin or not end:
            sys.exit(f"{name} has lost its marks")
        wanted = head + BEGIN + made(options) + END + tail
        if wanted != text and is_check:
            print(f"docs/{name} is out of date: run python tools/generate_option_tables.py", file=sys.stderr)
            status = 1
        elif wanted != text:
            page.write_text(wanted, encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
