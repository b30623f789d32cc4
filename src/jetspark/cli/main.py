"""The `jetspark` command: finds the subcommand and hands over.

Subcommands import what they need when they run, so that the base install (the client alone) has a working command.
"""

import importlib
import sys

import click

from jetspark import __version__, _build

SERVER_EXTRA_HINT = "The server needs its extra packages: pip install 'jetspark[server]'"


class RawCommand(click.Command):
    """A command whose arguments reach it exactly as typed.

    nats-server's flags (`-js`, `-sd=X`, `-DV`) are not click's: click would read `-js` as `-j -s`.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep every argument, `--help` and `--` included, for the command itself."""
        ctx.args = list(args)
        return []


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=f"jetspark %(version)s ({_build.KIND})")
def cli() -> None:
    """NATS JetStream for Python and Spark."""


@cli.command("server", cls=RawCommand)
@click.pass_context
def run_server(ctx: click.Context) -> None:
    """Run the JetStream server. Takes nats-server's flags."""
    try:
        run = importlib.import_module("jetspark.server.run")
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.split(".")[0] == "jetspark":
            raise
        raise click.ClickException(f"No module named {error.name!r}. {SERVER_EXTRA_HINT}") from error
    sys.exit(run.main(ctx.args))


def main() -> None:
    """Entry point of the console script."""
    cli.main(prog_name="jetspark")


if __name__ == "__main__":
    main()
