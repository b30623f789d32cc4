"""`jetspark server`: every flag goes to the server as typed."""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from jetspark.cli.errors import UsageError

# What `nats server` does with servers that run; nats-server takes no words but flags.
NATS_VERBS: Final = frozenset(
    [
        "account",
        "acct",
        "check",
        "cluster",
        "config",
        "generate",
        "graph",
        "info",
        "list",
        "ls",
        "mappings",
        "passwd",
        "ping",
        "report",
        "request",
        "req",
        "watch",
    ]
)


class RawCommand(click.Command):
    """A command whose arguments reach it exactly as typed.

    nats-server's flags (`-js`, `-sd=X`, `-DV`) are not click's: click would read `-js` as `-j -s`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep every argument, `--help` and `--` included, for the command itself."""
        ctx.args = list(args)
        return []


@click.command("server", cls=RawCommand)
@click.pass_context
def server(ctx: click.Context) -> None:
    """Run the JetStream server. Takes nats-server's flags."""
    if ctx.args and ctx.args[0] in NATS_VERBS:
        hint = f"Use `nats server {' '.join(ctx.args)}`; jetspark top and jetspark account report show numbers."
        raise UsageError("jetspark server runs a server and does not manage others", hint=hint)
    run = importlib.import_module("jetspark.server.run")
    sys.exit(run.main(ctx.args))
