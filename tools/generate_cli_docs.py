"""Write docs/cli.md from the commands themselves.

    python tools/generate_cli_docs.py           write the file
    python tools/generate_cli_docs.py --check   say whether the file is out of date, and fail if it is

Every command, argument and option is read from click, so a flag that is not in the documentation does not exist, and
the other way round. The server's own flags come from the text that `jetspark server --help` prints.
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from jetspark.cli.context import Noun, global_options
from jetspark.cli.errors import EXIT_CODES
from jetspark.cli.main import COMMANDS, cli

TARGET = Path(__file__).parent.parent / "docs" / "cli.md"
GLOBAL_NAMES = {name for option in global_options(at_root=True) for name in option.opts} | {"--help"}

OPENING = """\
<!-- Made by tools/generate_cli_docs.py from the commands themselves: change those, then run the tool. -->
# Command line

`jetspark` speaks the words of the `nats` command, works with any NATS server, and shares its context files. What is
missing on the line is asked for when a person is at the terminal, and is an error in a script. Results go to stdout,
notes and progress to stderr; `--json` gives documents instead of words; colours and bars are left out in pipes and
under `NO_COLOR`. Durations are written like `10s`, `5m`, `2h` or `1d12h`, sizes like `512`, `64KiB` or `1GiB`.

Whoever comes from `nats` (0.4.0) finds these differences:

"""

DIFFERENCES = (
    (
        "`--socks-proxy`, contexts with a proxy or `nsc`",
        "refused by name",
    ),
    (
        "the nouns `audit`, `auth`, `latency`, `plugins`, `schema`, `service`, `trace`, `traffic`",
        "not here",
    ),
    (
        "`server` manages servers",
        "`server` runs one; to manage others use `nats server`",
    ),
    (
        "`find --expression`, `cluster balance --expression`, `account tls`, `errors edit` and `validate`",
        "not here",
    ),
    (
        "every failure is exit code 1, a request that nobody answers is 0",
        "2 wrong usage, 3 no connection, 4 not there, 5 timed out, 1 anything else",
    ),
    (
        "`stream get --json` has headers and data in base64",
        "`headers` as an object, `data` as text; bytes that are no text are in `data_base64`",
    ),
    (
        "`events` alone listens to the server's advisories",
        "to JetStream's advisories and metrics; `--srv-advisory` adds the server's",
    ),
    (
        "`stream view`, `stream graph` and `consumer graph` need a terminal",
        "they work in pipes too, and with `--json`",
    ),
    (
        "`top NAME`",
        "also `top http://HOST:PORT` and `top PORT`, without a system account",
    ),
)


def paragraphs(text: str | None) -> str:
    """A help text as Markdown: a block that click must not fold is a code block."""
    made: list[str] = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text or "").strip()):
        if part.startswith("\b"):
            lines = part.split("\n")[1:]
            made.append("```text\n" + "\n".join(line.strip() for line in lines) + "\n```")
        else:
            made.append(" ".join(part.split()))
    return "\n\n".join(made)


def cell(text: str) -> str:
    """Text in the cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def option_row(option: click.Option, ctx: click.Context) -> str:
    """One option: its names with what it takes, and what it does."""
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    record = option.get_help_record(ctx)
    takes = ""
    if not option.is_flag and not option.count:
        takes = f"`{option.make_metavar(ctx)}`"
    about = record[1] if record else (option.help or "")
    return f"| {cell(f'{names} {takes}')} | {cell(about)} |"


def option_table(options: list[click.Option], ctx: click.Context) -> str:
    """Several options, in the order the command names them."""
    rows = [option_row(option, ctx) for option in options]
    return "\n".join(["| Option | |", "|---|---|", *rows])


def usage(command: click.Command, ctx: click.Context) -> str:
    """How it is called, in one line."""
    pieces = " ".join(command.collect_usage_pieces(ctx))
    return f"```text\n{ctx.command_path} {pieces}\n```"


def own_options(command: click.Command, ctx: click.Context) -> list[click.Option]:
    """What the command adds to the global options."""
    return [
        param
        for param in command.get_params(ctx)
        if isinstance(param, click.Option) and not param.hidden and not GLOBAL_NAMES & set(param.opts)
    ]


def aliases_line(names: list[str]) -> str:
    """The other names of a command."""
    return f"Also: {', '.join(f'`{name}`' for name in names)}\n\n" if names else ""


def command_text(command: click.Command, parent: click.Context, name: str, aliases: list[str], level: int) -> str:
    """A command and everything below it."""
    ctx = click.Context(command, info_name=name, parent=parent)
    parts = [f"{'#' * level} {ctx.command_path}\n\n", aliases_line(aliases)]
    if not isinstance(command, click.Group):
        parts.append(usage(command, ctx) + "\n\n")
    parts.append(paragraphs(command.help) + "\n\n")
    options = own_options(command, ctx)
    if options:
        parts.append(option_table(options, ctx) + "\n\n")
    parts.extend(commands_below(command, ctx, level + 1))
    return "".join(parts)


def commands_below(command: click.Command, ctx: click.Context, level: int) -> Iterator[str]:
    """The commands of a group."""
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(ctx):
        found = command.get_command(ctx, name)
        assert found is not None, f"{ctx.command_path} lists {name} and does not have it"
        if not found.hidden:
            aliases = command.aliases_of(name) if isinstance(command, Noun) else []
            yield command_text(found, ctx, name, aliases, level)


def server_text() -> str:
    """The server's flags as it prints them."""
    from jetspark.server.usage import USAGE

    head = "## jetspark server\n\n" + aliases_line(list(COMMANDS["server"].aliases))
    return f"{head}Runs the server. Its flags are nats-server's.\n\n```text\n{USAGE.strip()}\n```\n\n"


def document() -> str:
    """All of docs/cli.md."""
    ctx = click.Context(cli, info_name="jetspark")
    differences = "".join(f"| {theirs} | {ours} |\n" for theirs, ours in DIFFERENCES)
    parts = [OPENING, f"| `nats` | `jetspark` |\n|---|---|\n{differences}\n"]
    parts.append("## Exit codes\n\n| Code | |\n|---|---|\n")
    parts.extend(f"| {code} | {cell(meaning)} |\n" for code, meaning in EXIT_CODES.items())
    parts.append("\n## Global options\n\nAnywhere on the line.\n\n")
    parts.append(option_table(global_options(at_root=True), ctx) + "\n\n")
    for name, entry in sorted(COMMANDS.items()):
        if name == "server":
            parts.append(server_text())
            continue
        command = cli.get_command(ctx, name)
        assert command is not None, f"{name} is listed and cannot be loaded"
        parts.append(command_text(command, ctx, name, list(entry.aliases), 2))
    return "".join(parts).rstrip("\n") + "\n"


def main(arguments: list[str]) -> int:
    """Write the file, or check it."""
    wanted = document()
    if "--check" not in arguments:
        TARGET.write_text(wanted, "utf-8")
        return 0
    there = TARGET.read_text("utf-8") if TARGET.exists() else ""
    if there == wanted:
        return 0
    lines = difflib.unified_diff(
        there.splitlines(), wanted.splitlines(), "docs/cli.md", "the commands", lineterm="", n=1
    )
    sys.stderr.write("\n".join(list(lines)[:40]) + "\n")
    sys.stderr.write("docs/cli.md is not what the commands say: run python tools/generate_cli_docs.py\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
