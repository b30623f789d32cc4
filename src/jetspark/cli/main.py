"""The `jetspark` command: finds the noun, loads its module and hands over.

Decided here: which nouns there are, and how an error becomes an exit code. Modules are imported when their noun is
used, so that the command starts quickly and the base install (the client alone) has a working command.
"""

from __future__ import annotations

import errno
import importlib
import os
from typing import Any, Final, NamedTuple

import click
from click.shell_completion import CompletionItem

from jetspark import __version__, _build
from jetspark.cli.context import Noun
from jetspark.cli.errors import FAILED, INTERRUPTED, CliError, UsageError, failure
from jetspark.cli.output import no_color, note
from jetspark.errors import JetsparkError

# Set by a shell that asks what may follow; click derives the name from that of the command.
COMPLETION_VARIABLE: Final = "_JETSPARK_COMPLETE"
# Part of Python on every Unix, and no package can bring them to Windows.
UNIX_MODULES: Final = ("fcntl", "resource")


class Entry(NamedTuple):
    """Where a noun lives."""

    module: str
    attribute: str
    summary: str
    aliases: tuple[str, ...] = ()
    extra: str = ""
    """The optional dependencies it needs."""


COMMANDS: Final = {
    "account": Entry("account", "account", "Account information and status.", ("a",)),
    "bench": Entry("bench", "bench", "Measure a server, or two side by side."),
    "completion": Entry("completion", "completion", "Shell completion for bash, zsh and fish."),
    "consumer": Entry("consumer", "consumer", "JetStream consumers.", ("con", "obs", "c")),
    "context": Entry("contexts", "contexts", "Configuration contexts, shared with `nats`.", ("ctx",)),
    "counter": Entry("counter", "counter", "Counters that many add to, kept in a stream.", ("ctr",)),
    "errors": Entry("error_list", "errors", "What the errors of the JetStream API mean.", ("err", "error")),
    "events": Entry("events", "events", "Show advisories and events.", ("event", "e")),
    "kv": Entry("kv", "kv", "Key-value buckets."),
    "object": Entry("object_store", "object_store", "Object stores.", ("obj",)),
    "pipeline": Entry("pipeline", "pipeline", "Data pipelines on Spark.", ("pipe",), "spark"),
    "publish": Entry("publish", "publish", "Publish messages.", ("pub",)),
    "reply": Entry("request", "reply", "Answer requests."),
    "request": Entry("request", "request", "Send a request and show the reply.", ("req",)),
    "rtt": Entry("rtt", "rtt", "Measure the round trip to the server."),
    "server": Entry("server", "server", "Run the JetStream server. Takes nats-server's flags.", ("srv",), "server"),
    "stream": Entry("stream", "stream", "JetStream streams.", ("str", "st", "ms", "s")),
    "subscribe": Entry("subscribe", "subscribe", "Show messages as they come.", ("sub",)),
    "top": Entry("top", "top", "Live statistics of a server's connections."),
}


# Nouns of `nats` that are not here; `docs/cli.md` has the table of differences.
NATS_ONLY: Final = frozenset(
    ("audit", "auth", "cheat", "latency", "micro", "plugins", "schema", "service", "trace", "traffic")
)


def missing_package(name: str, entry: Entry, package: str) -> CliError:
    """A noun whose optional packages are not installed, or that needs a system of another kind."""
    if package in UNIX_MODULES:
        hint = "Use a container or WSL for it; the client and the other commands work here, with any NATS server."
        return CliError(f"`jetspark {name}` runs on Linux and macOS: no {package!r} here.", hint=hint, exit_code=FAILED)
    extra = f"jetspark[{entry.extra}]" if entry.extra else "jetspark"
    hint = f"The command `jetspark {name}` needs its extra packages: pip install '{extra}'"
    return CliError(f"No module named {package!r}.", hint=hint, exit_code=FAILED)


def is_ours(error: ModuleNotFoundError) -> bool:
    """A module of this package is missing: a mistake here, not an extra to install."""
    return error.name is None or error.name.split(".")[0] == "jetspark"


class Root(Noun):
    """The command itself: loads nouns on use and turns errors into exit codes."""

    at_root = True

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every noun."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a noun by its name or alias."""
        name = self.aliases.get(cmd_name, cmd_name)
        entry = COMMANDS.get(name)
        if entry is None:
            return None
        try:
            module = importlib.import_module(f"jetspark.cli.{entry.module}")
        except ModuleNotFoundError as error:
            if is_ours(error):
                raise
            if ctx.resilient_parsing:
                # A shell is completing: nothing to offer is the answer, not a message in the middle of the line.
                return None
            raise missing_package(name, entry, str(error.name)) from error
        command = getattr(module, entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the noun; one that only `nats` has is said to be that."""
        if not ctx.resilient_parsing and args[0] in NATS_ONLY:
            raise UsageError(
                f"{args[0]!r} is a command of `nats` that jetspark does not have", hint=f"Use nats {args[0]}."
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the nouns without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (", ".join((name, *entry.aliases[:2])), entry.summary.replace("`", ""))
                    for name, entry in sorted(COMMANDS.items())
                ]
            )

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """The nouns and the global options, without loading a noun for its summary."""
        nouns = [CompletionItem(name, help=entry.summary) for name, entry in sorted(COMMANDS.items())]
        return [item for item in nouns if item.value.startswith(incomplete)] + click.Command.shell_complete(
            self, ctx, incomplete
        )

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; whatever it raises becomes a message and an exit code."""
        if no_color():
            # Not None: None lets click decide, and click does not know NO_COLOR.
            ctx.color = False
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort) as error:
            if isinstance(error, click.Abort):
                # At a question: its line is not finished.
                note("")
            ctx.exit(INTERRUPTED)
        except ModuleNotFoundError as error:
            name = ctx.invoked_subcommand or ""
            if name not in COMMANDS or is_ours(error):
                raise
            raise missing_package(name, COMMANDS[name], str(error.name)) from error
        except JetsparkError as error:
            raise failure(error) from error
        except OSError as error:
            # A file that cannot be read or written. A reader that went away (`| head`) is for click.
            if error.errno == errno.EPIPE:
                raise
            raise failure(error) from error


@click.group(cls=Root, name="jetspark", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=f"jetspark %(version)s ({_build.DESCRIPTION})")
def cli() -> None:
    """NATS JetStream for Python and Spark.

    Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3 no connection, 4 not found, 5 timed out,
    130 interrupted.
    """


assert isinstance(cli, Root)
for _name, _entry in COMMANDS.items():
    cli.aliases.update(dict.fromkeys(_entry.aliases, _name))


def main() -> None:
    """Entry point of the console script."""
    if COMPLETION_VARIABLE in os.environ:
        from jetspark.cli import completion_scripts

        completion_scripts.register()
    cli.main(prog_name="jetspark")


if __name__ == "__main__":
    main()
