"""Asking the person at the terminal for what is missing, and refusing to guess when nobody is there.

Decided here: a question needs a terminal on stdin; a script gets a usage error that names the argument instead.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from jetspark.cli.errors import UsageError

force_option = click.option("--force", "-f", is_flag=True, help="Act without confirmation")


def can_ask() -> bool:
    """Is there somebody to ask?"""
    return sys.stdin is not None and sys.stdin.isatty()


def ask(question: str, *, argument: str, default: str | None = None, kind: Any = None) -> Any:
    """The answer to a question; without a terminal the default, or an error that names the argument."""
    if not can_ask():
        if default is not None:
            return default
        raise UsageError(f"missing {argument}", hint="Nobody is at the terminal to ask: give it on the command line.")
    return click.prompt(question, default=default, type=kind, err=True)


def choose(question: str, choices: Sequence[str], *, argument: str, default: str | None = None) -> str:
    """One of several names: by its number or its name."""
    if not can_ask():
        if default is not None:
            return default
        listed = ", ".join(choices) if choices else "none"
        raise UsageError(f"missing {argument}; there is: {listed}", hint="Give it on the command line.")
    for number, choice in enumerate(choices, 1):
        click.echo(f"  {number:>3}  {choice}", err=True)
    while True:
        answer = str(click.prompt(question, default=default, err=True)).strip()
        if answer in choices:
            return answer
        if answer.isdigit() and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1]
        click.echo(f"{answer!r} is none of them.", err=True)


def confirm(question: str, *, force: bool) -> bool:
    """Is it really meant? `--force` says yes; without a terminal and without it, nothing is done."""
    if force:
        return True
    if not can_ask():
        raise UsageError(
            "this cannot be undone, and nobody is at the terminal to confirm it", hint="Add --force if it is meant."
        )
    return click.confirm(question, default=False, err=True)


def given(value: str | None, question: str, *, argument: str) -> str:
    """An argument's value, asked for when it is missing."""
    return value if value else str(ask(question, argument=argument))
