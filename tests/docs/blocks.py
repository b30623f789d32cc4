"""Fenced code blocks of a page, and running them.

A page is one program: its `python` blocks run in order, in one namespace and one event loop, with `await` allowed at
the top. An `output` block after one says what it prints. In a `console` block, lines that begin with `$ jetspark` are
run. Hidden preparation is a `<!-- setup` comment with Python in it; a block after `<!-- not run: reason -->` is only
checked for syntax.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import itertools
import json
import os
import re
import shlex
import sys
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner

# The address the pages use; each page gets a server of its own instead.
DOCUMENTED_ADDRESS = "127.0.0.1:4222"
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z")
_SETUP = re.compile(r"<!-- setup\n(.*?)-->", re.DOTALL)


@dataclass
class Block:
    """One block: its language, text, line in the page, and why it is not run."""

    language: str
    text: str
    line: int
    not_run: str = ""
    output: str | None = field(default=None)


def blocks(page: Path) -> list[Block]:
    """Every block of a page in order, hidden preparation included."""
    text = page.read_text(encoding="utf-8")
    found = [
        (match.start(), Block("python", match[1], line_of(text, match.start(1)))) for match in _SETUP.finditer(text)
    ]
    for match in _FENCE.finditer(text):
        reason = _NOT_RUN.search(text[: match.start()])
        block = Block(match[1], match[2], line_of(text, match.start(2)), reason[1] if reason else "")
        found.append((match.start(), block))
    ordered = [block for _, block in sorted(found, key=lambda pair: pair[0])]
    for block, after in itertools.pairwise(ordered):
        if block.language in ("python", "console") and after.language == "output":
            block.output = after.text
    return ordered


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def commands(block: Block) -> Iterator[list[str]]:
    """The arguments of each `jetspark` line of a console block that ends by itself."""
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("$ jetspark "):
            words = shlex.split(line.removeprefix("$ "), comments=True)[1:]
            if words[0] not in ("server", "pipeline"):
                yield words


class Program:
    """One page being run against a server."""

    def __init__(self, page: Path, url: str, names: dict[str, Any]) -> None:
        self._page = page
        self._url = url
        self._names: dict[str, Any] = {"__name__": "__main__", **names}
        # One for all blocks, as in a program: Spark keeps the session of each thread.
        self._thread = ThreadPoolExecutor(1)

    async def run(self) -> int:
        """Run everything; how many blocks were."""
        count = 0
        for block in blocks(self._page):
            text = block.text.replace(f"nats://{DOCUMENTED_ADDRESS}", self._url)
            where = f"{self._page.name}:{block.line}"
            if block.language == "python":
                code = compile("\n" * (block.line - 1) + text, where, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                if block.not_run:
                    continue
                printed = await self._run_python(code)
                if block.output is not None:
                    assert printed.strip() == block.output.strip(), f"{where} printed {printed!r}"
                count += 1
            elif block.language == "console" and not block.not_run:
                for words in commands(block):
                    self._run_command(words, where)
                    count += 1
        return count

    async def _run_python(self, code: Any) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            if code.co_flags & inspect.CO_COROUTINE:
                await eval(code, self._names)
            else:
                # In a thread, where no event loop runs: a whole program may call `asyncio.run`.
                await asyncio.get_running_loop().run_in_executor(self._thread, eval, code, self._names)
        return printed.getvalue()

    def _run_command(self, words: list[str], where: str) -> None:
        from jetspark.cli.main import cli

        result = CliRunner(env={**os.environ, "NATS_URL": self._url, "NO_COLOR": "1"}).invoke(cli, words)
        assert result.exit_code == 0, (
            f"{where}: jetspark {shlex.join(words)} ended with {result.exit_code}: {result.output}"
        )


def main() -> None:
    """`python blocks.py PAGE URL [PAGE URL …]`: run each page; a line of JSON says how many blocks, or what failed."""
    start = Path.cwd()
    for number, (page, url) in enumerate(zip(sys.argv[1::2], sys.argv[2::2], strict=True)):
        folder = start / str(number)
        folder.mkdir()
        os.chdir(folder)
        told = {"page": page, "count": 0, "error": ""}
        try:
            told["count"] = asyncio.run(Program(Path(page), url, {}).run())
        except Exception:  # noqa: BLE001 - whatever a page raises is told, and the next page runs
            told["error"] = traceback.format_exc()
        stop_spark()
        sys.stdout.write(f"{json.dumps(told)}\n")


def stop_spark() -> None:
    """The next page has a session of its own, in the Java that runs already."""
    if "pyspark" in sys.modules:
        from pyspark import SparkContext

        if SparkContext._active_spark_context is not None:
            SparkContext._active_spark_context.stop()


if __name__ == "__main__":
    main()
