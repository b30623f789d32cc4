"""How commands show what they found: sheets of labels and values, tables, JSON, notes.

Decided here: results go to stdout and notes about the doing to stderr, so that a pipe gets results only; colour and
terminal tricks only on a terminal without NO_COLOR. What is shown is the business of each command. Consoles are made
for each use because tests and pipes replace the streams.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from jetspark.cli.context import settings_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from jetspark.client.headers import Headers

# Wide enough that a table in a pipe is never folded.
PIPE_WIDTH = 4096
# Of the schemes --colors takes, those that are a colour.
COLORS: Final = ("blue", "cyan", "green", "magenta", "red", "yellow")


def console(*, stderr: bool = False) -> Console:
    """A rich console on stdout (or stderr): plain and unfolded when it is no terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, soft_wrap=False, no_color=no_color() or None)


def no_color() -> bool:
    """The user asked for no colours."""
    return bool(os.environ.get("NO_COLOR"))


def color_scheme() -> str:
    """The scheme of --colors or of the context; empty for none."""
    ctx = click.get_current_context(silent=True)
    return settings_of(ctx).colors if ctx is not None else ""


def is_terminal() -> bool:
    """A person may be looking at stdout."""
    return sys.stdout.isatty()


def echo(text: str = "") -> None:
    """A line of the result."""
    click.echo(text)


def note(text: str) -> None:
    """A line about the doing, on stderr: what happened, not what was asked for."""
    click.echo(text, err=True)


def warn(text: str) -> None:
    """A line that deserves a look, on stderr."""
    click.echo(click.style("warning: ", fg="yellow") + text, err=True)


def write_bytes(data: bytes) -> None:
    """Bytes of a message, as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def text_of(data: bytes) -> str:
    """The bytes of a message for a person: as text where they are text, and never as commands to the terminal."""
    text = data.decode("utf-8", "backslashreplace")
    return "".join(
        character if character.isprintable() or character in "\n\t" else repr(character)[1:-1] for character in text
    )


def emit_json(document: Any) -> None:
    """A document for a script."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, default=_plain))


def emit_json_line(document: Any) -> None:
    """One of many documents, a line each."""
    click.echo(json.dumps(document, ensure_ascii=False, default=_plain))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if hasattr(value, "encode"):
        return value.encode()
    return str(value)


def message_document(subject: str, data: bytes, headers: Headers | None, **more: Any) -> dict[str, Any]:
    """A message for a script: text where it is text, base64 where it is not."""
    import base64

    document: dict[str, Any] = {"subject": subject, **more}
    if headers:
        document["headers"] = {name: headers.get_all(name) for name in headers}
    try:
        document["data"] = data.decode()
    except UnicodeDecodeError:
        document["data_base64"] = base64.b64encode(data).decode()
    return document


def show_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = (), empty: str = ""
) -> None:
    """Rows under column names; `right` names the columns of numbers. Without rows, the `empty` line."""
    listed = list(rows)
    if not listed and empty:
        echo(empty)
        return
    from jetspark.cli.table_fit import fit

    shown = console()
    found = fit(columns, listed, shown.width)
    if found is None:
        _show_sheets(title, columns, listed)
    else:
        made = table(title, found.columns, found.rows, right=right, widths=found.widths, is_lined=found.is_lined)
        shown.print(made)


def _show_sheets(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Rows below each other, for a terminal too narrow to have them side by side; what is empty is left out."""
    for row in rows:
        sheet = Sheet(title)
        title = ""
        for column, cell in zip(columns, row, strict=True):
            if str(cell):
                sheet.row(column, cell)
        sheet.show()


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    right: Sequence[str] = (),
    widths: Sequence[int] = (),
    is_lined: bool = True,
) -> RenderableType:
    """Rows under column names, to be printed or to be part of a picture. `widths` are the columns' own, in characters;
    a table that is not lined has spaces between its columns.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    scheme = color_scheme()
    lines = box.DOUBLE if scheme == "double" else box.ROUNDED
    made = Table(
        title=title or None,
        box=lines if is_lined else box.SIMPLE_HEAD,
        show_edge=is_lined,
        pad_edge=is_lined,
        # The box has a space between two columns: with one more they stand apart.
        padding=(0, 1) if is_lined else (0, 1, 0, 0),
        border_style=scheme if scheme in COLORS else None,
        title_style="bold",
        header_style="bold",
        min_width=len(title),
    )
    for index, name in enumerate(columns):
        width = widths[index] if widths else None
        made.add_column(name, justify="right" if name in right else "left", overflow="fold", width=width)
    for row in rows:
        # Text, not str: square brackets in a name are no markup.
        made.add_row(*(Text(str(cell)) for cell in row))
    return made


@contextmanager
def pictures(*, live: bool) -> Iterator[Callable[[RenderableType], None]]:
    """Shows one picture after another: each over the one before while it is live, else below it."""
    if not live:
        yield console().print
        return
    from rich.live import Live

    # Nothing else is printed meanwhile, and stdout stays what it is for those who ask what it can show.
    with Live(console=console(), screen=True, auto_refresh=False, redirect_stdout=False) as screen:
        yield lambda picture: screen.update(picture, refresh=True)


class Sheet:
    """Labels and values in sections, right-aligned on the colon, as `nats` shows information.

    `Sheet("Information for Stream X")`, then `section` and `row`, then `show`.
    """

    def __init__(self, title: str = "") -> None:
        self._title = title
        self._sections: list[tuple[str, list[tuple[str, str]]]] = [("", [])]

    def section(self, name: str) -> None:
        """What follows belongs under this heading."""
        self._sections.append((name, []))

    def row(self, label: str, value: object) -> None:
        """One fact."""
        self._sections[-1][1].append((label, text_of(str(value).encode())))

    def row_if(self, label: str, value: object) -> None:
        """One fact, left out when there is nothing to say."""
        if value:
            self.row(label, value)

    def text(self) -> str:
        """As it is shown, without colour."""
        return "\n".join(self._lines(styled=False))

    def show(self) -> None:
        """Print it."""
        click.echo("\n".join(self._lines(styled=is_terminal() and not no_color())))

    def _lines(self, *, styled: bool) -> Iterable[str]:
        def heading(text: str) -> str:
            return click.style(text, bold=True) if styled else text

        scheme = color_scheme()
        colon = click.style(":", fg=scheme) if styled and scheme in COLORS else ":"
        labels = [label for _, rows in self._sections for label, _ in rows]
        width = max(map(len, labels), default=0) + 2
        if self._title:
            yield heading(self._title)
            yield ""
        for name, rows in self._sections:
            if not rows:
                continue
            if name:
                yield heading(f"{name}:")
                yield ""
            for label, value in rows:
                first, *others = value.split("\n")
                yield f"{label:>{width}}{colon} {first}"
                yield from (" " * (width + 2) + line for line in others)
            yield ""
