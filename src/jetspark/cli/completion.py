"""`jetspark completion`: the script a shell reads once to complete this command.

The script asks `jetspark` itself at each tab, so what is offered is always what there is: commands and options from
click, names of things on the server from the completers in `names` and `buckets`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import click
from click.shell_completion import get_completion_class

from jetspark.cli.context import Command
from jetspark.cli.errors import UsageError
from jetspark.cli.output import echo

# The name click derives from that of the command.
VARIABLE: Final = "_JETSPARK_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")


def script(shell: str, root: click.Command) -> str:
    """What the shell has to read once."""
    made = get_completion_class(shell)
    assert made is not None, f"click knows {shell}"
    return made(root, {}, "jetspark", VARIABLE).source()


@click.command("completion", cls=Command)
@click.argument("shell", required=False, type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str | None) -> None:
    """Print the completion script for SHELL (bash, zsh or fish; without it the one in $SHELL).

    \b
    bash:  echo 'eval "$(jetspark completion bash)"' >> ~/.bashrc
    zsh:   echo 'eval "$(jetspark completion zsh)"' >> ~/.zshrc
    fish:  jetspark completion fish > ~/.config/fish/completions/jetspark.fish

    Names of streams, consumers, buckets, keys, objects and contexts are offered too, from the server that the line,
    the environment or the context names. A server that does not answer within half a second offers nothing.
    """
    chosen = shell or Path(os.environ.get("SHELL", "")).name
    if chosen not in SHELLS:
        raise UsageError(f"no completion for the shell {chosen!r}", hint=f"There is: {', '.join(SHELLS)}")
    echo(script(chosen, ctx.find_root().command))
