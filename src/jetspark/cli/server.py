"""`jetspark server`: every flag goes to the server as typed."""

from __future__ import annotations

import importlib
import sys

import click


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
    run = importlib.import_module("jetspark.server.run")
    sys.exit(run.main(ctx.args))
