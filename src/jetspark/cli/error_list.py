"""`jetspark errors`: what the number in brackets behind an error of the JetStream API means.

Decided here: what is told about a row of the table in `jetspark.api.error_codes`. No server is asked: the numbers and
words are the same on every NATS server.
"""

from __future__ import annotations

import re
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from jetspark.api.error_codes import ApiError, ErrorCode
from jetspark.cli.clusters import PATTERN
from jetspark.cli.context import Noun, Settings, pass_settings
from jetspark.cli.errors import NotFound
from jetspark.cli.output import Sheet, emit_json, show_table

ORDERS: Final = {
    "code": lambda row: int(row),
    "http": lambda row: row.status,
    "description": lambda row: row.template,
}
# The short words that `nats` takes too.
SHORT_ORDERS: Final = {"d": "description", "descr": "description", "desc": "description"}
COLUMNS: Final = ("NATS Code", "HTTP Error Code", "Description", "Name", "Python Exception")


@click.group("errors", cls=Noun)
def errors() -> None:
    """What the errors of the JetStream API mean; no server is needed."""


def _exception_of(row: ErrorCode) -> type[ApiError]:
    """The class the client raises for it."""
    from jetspark.client.api_errors import api_error

    return type(api_error({"code": row.status, "err_code": int(row), "description": row.template}))


def _document(row: ErrorCode) -> dict[str, Any]:
    """In the words of the file nats-server makes its errors from."""
    exception = _exception_of(row)
    return {
        "constant": row.name,
        "code": row.status,
        "error_code": int(row),
        "description": row.template,
        "exception": f"{exception.__module__}.{exception.__name__}",
    }


def _matches(row: ErrorCode, pattern: re.Pattern[str]) -> bool:
    document = _document(row)
    return any(re.search(pattern.pattern, str(value), re.IGNORECASE) for value in document.values())


@errors.verb("ls", aliases=("list",))
@click.argument("match", required=False, type=PATTERN)
@click.argument("sort", default="code", type=click.Choice([*ORDERS, *SHORT_ORDERS]))
@click.option("--reverse", "-R", is_flag=True, help="The other way round")
@pass_settings
def ls(settings: Settings, match: re.Pattern[str] | None, sort: str, reverse: bool) -> None:
    """List the errors, or those that MATCH a regular expression; SORT is code, http or description.

    \b
    jetspark errors ls 'sequence|last'
    """
    found = [row for row in ErrorCode if match is None or _matches(row, match)]
    if not found and match is not None:
        raise NotFound(f"no error matches {match.pattern!r}", hint="See them all with: jetspark errors ls")
    found.sort(key=ORDERS[SHORT_ORDERS.get(sort, sort)], reverse=reverse)
    if settings.json:
        emit_json([_document(row) for row in found])
        return
    rows = ((int(row), row.status, row.template, row.name, _exception_of(row).__name__) for row in found)
    show_table("NATS Errors", COLUMNS, rows, right=COLUMNS[:2])


def _complete_code(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    return [
        CompletionItem(str(int(row)), help=row.template) for row in ErrorCode if str(int(row)).startswith(incomplete)
    ]


@errors.verb("lookup", aliases=("find", "get", "l", "view", "show"))
@click.argument("code", type=int, shell_complete=_complete_code)
@pass_settings
def lookup(settings: Settings, code: int) -> None:
    """Explain one error by its number, such as 10059."""
    known = {int(row): row for row in ErrorCode}
    if code not in known:
        hint = "Search by words: jetspark errors ls WORD"
        raise NotFound(f"no error has the code {code}; codes are {min(known)} to {max(known)}", hint=hint)
    row = known[code]
    if settings.json:
        emit_json(_document(row))
        return
    exception = _exception_of(row)
    sheet = Sheet(f"NATS Error Code: {code}")
    sheet.row("Description", row.template)
    sheet.row("HTTP Code", row.status)
    sheet.row("Name", row.name)
    sheet.row("Python Exception", f"{exception.__module__}.{exception.__name__}")
    if exception is not ApiError:
        sheet.row_if("Meaning", (exception.__doc__ or "").split("\n")[0])
    sheet.show()
