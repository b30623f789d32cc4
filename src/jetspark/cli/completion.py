"""`jetspark completion`: the script a shell reads once to complete this command.

The script (`completion_scripts`) asks `jetspark` itself at each tab, so what is offered is always what there is:
commands and options from click, names of things on the server from the completers in `names` and `buckets`.
"""

from __future__ import annotations

import os
from pathlib import Path

import click

from jetspark.cli.completion_scripts import SHELLS, VARIABLE
from jetspark.cli.context import Command
from jetspark.cli.errors import UsageError
from jetspark.cli.output import echo


def script(shell: str, root: click.Command) -> str:
    """What the shell has to read once."""
    return SHELLS[shell](root, {}, "jetspark", VARIABLE).source().strip()


@click.command("completion", cls=Command)
@click.argument("shell", required=False, type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print the completion script for SHELL (bash, zsh or fish; without it the one in $SHELL).

    \b
    bash:  echo 'eval "$(jetspark completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(jetspark completion zsh)"' >> ~/.zshrc
    fish:  jetspark completion fish > ~/.config/fish/completions/jetspark.fish

    Names of streams, consumers, buckets, keys, objects and contexts are offered too, from the server that the line,
    the environment or the context names. A server that does not answer within a second offers nothing.
    """
    chosen = shell or Path(os.environ.get("SHELL", "")).name
    if chosen not in SHELLS:
        raise UsageError(f"no completion for the shell {chosen!r}", hint=f"There is: {', '.join(SHELLS)}")
    echo(script(chosen, ctx.find_root().command))
