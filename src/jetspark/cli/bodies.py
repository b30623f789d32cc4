"""What is sent: bodies from the line or stdin, headers, and the templates in them.

Decided here: the template words of `nats` ({{Count}}, {{Time}}, {{ID}}, {{Random 10 100}} ...) and what they become.
"""

from __future__ import annotations

import random
import re
import string
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

import click

from jetspark.cli.durations import SECOND_NS, clock_time, now_ns
from jetspark.cli.errors import UsageError
from jetspark.cli.prompts import can_ask

_TEMPLATE: Final = re.compile(r"\{\{\s*\.?(\w+)\s*([^{}]*?)\s*\}\}")
_LETTERS: Final = string.ascii_letters + string.digits

header_option = click.option(
    "--header", "-H", "headers", multiple=True, metavar="K:V", help="A header (repeat for several)"
)
templates_option = click.option("--templates/--no-templates", default=True, help="Fill in templates")
send_on_option = click.option(
    "--send-on",
    type=click.Choice(["eof", "newline"]),
    default="eof",
    show_default=True,
    help="When to send what comes from stdin: all of it, or each line",
)
stdin_option = click.option("--force-stdin", is_flag=True, help="Read the body from stdin")


class Templates:
    """Fills in templates; the chance in them comes from one generator."""

    def __init__(self, *, enabled: bool = True, chance: random.Random | None = None) -> None:
        self._enabled = enabled
        self._chance = chance or random.Random()

    def fill(self, text: str, count: int, *, request: bytes = b"") -> str:
        """The text of message number `count`."""
        if not self._enabled or "{{" not in text:
            return text
        return _TEMPLATE.sub(lambda match: self._word(match, count, request), text)

    def _word(self, match: re.Match[str], count: int, request: bytes) -> str:
        at_ns = now_ns()
        match match[1]:
            case "Count" | "Cnt":
                return str(count)
            case "Time":
                return clock_time(at_ns)
            case "TimeStamp" | "Timestamp":
                return datetime.fromtimestamp(at_ns / SECOND_NS, UTC).astimezone().isoformat()
            case "Unix":
                return str(at_ns // SECOND_NS)
            case "UnixNano":
                return str(at_ns)
            case "ID":
                return "".join(self._chance.choices(_LETTERS, k=22))
            case "Request":
                return request.decode("utf-8", "surrogateescape")
            case "Random":
                return self._random(match[2])
        # Not one of ours: a body may hold braces of its own.
        return match[0]

    def _random(self, arguments: str) -> str:
        numbers = [int(word) for word in re.findall(r"\d+", arguments)]
        if len(numbers) != 2 or numbers[0] > numbers[1]:
            raise UsageError(f"{{{{Random {arguments}}}}} needs two lengths, such as {{{{Random 10 100}}}}")
        return "".join(self._chance.choices(_LETTERS, k=self._chance.randint(*numbers)))


def read_headers(pairs: Iterable[str]) -> list[tuple[str, str]]:
    """`-H key:value`, repeated."""
    read = []
    for pair in pairs:
        name, separator, value = pair.partition(":")
        if not separator or not name.strip():
            raise UsageError(f"header {pair!r} is not KEY:VALUE")
        read.append((name.strip(), value.strip()))
    return read


def bodies(body: str | None, *, force_stdin: bool, send_on: str) -> Iterator[str]:
    """The bodies to send: the one on the line, or what stdin has."""
    if body is not None and not force_stdin:
        yield body
        return
    if can_ask() and not force_stdin:
        click.echo("Reading payload from STDIN", err=True)
    stream: Any = sys.stdin.buffer
    if send_on == "newline":
        for line in stream:
            yield line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
    else:
        yield stream.read().decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Back to bytes, those of stdin as they were."""
    return text.encode("utf-8", "surrogateescape")
