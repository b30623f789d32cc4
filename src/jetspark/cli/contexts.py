"""`jetspark context`: connection settings under a name, in the files of the `nats` command."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from jetspark.cli.connect import effective
from jetspark.cli.context import Noun, Settings, pass_settings
from jetspark.cli.context_files import SECRETS, ContextFiles
from jetspark.cli.errors import CliError, NotFound, UsageError
from jetspark.cli.output import Sheet, echo, emit_json, note, show_table
from jetspark.cli.prompts import choose, confirm

Function = TypeVar("Function", bound=Callable[..., Any])

# Setting of the line, key of the file, label on the sheet.
FIELDS = (
    ("server", "url", "Server URLs"),
    ("user", "user", "Username"),
    ("password", "password", "Password"),
    ("token", "token", "Token"),
    ("creds", "creds", "Credentials"),
    ("nkey", "nkey", "NKey"),
    ("jwt", "user_jwt", "JWT"),
    ("seed", "user_seed", "User Seed"),
    ("tlscert", "cert", "Certificate"),
    ("tlskey", "key", "Key"),
    ("tlsca", "ca", "CA"),
    ("js_domain", "jetstream_domain", "JS Domain"),
    ("js_api_prefix", "jetstream_api_prefix", "JS API Prefix"),
    ("js_event_prefix", "jetstream_event_prefix", "JS Event Prefix"),
    ("inbox_prefix", "inbox_prefix", "Inbox Prefix"),
    ("colors", "color_scheme", "Color Scheme"),
)


@click.group("context", cls=Noun)
def contexts() -> None:
    """Connection settings under a name, shared with the `nats` command."""


def complete_context(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Contexts that begin like this."""
    return [name for name in ContextFiles().names() if name.startswith(incomplete)]


name_argument = click.argument("name", required=False, shell_complete=complete_context)


def _pick(name: str | None, files: ContextFiles) -> str:
    return name or choose("Which context?", files.names(), argument="NAME")


def _show(name: str, files: ContextFiles, settings: Settings, *, connects: bool = False) -> None:
    context = files.load(name)
    told = {"connection": _problem(name, connects=True) or "OK"} if connects else {}
    if settings.json:
        emit_json({"name": name, "selected": name == files.selected(), **_without_secrets(context), **told})
        return
    sheet = Sheet(f'NATS Configuration Context "{name}"')
    sheet.row_if("Description", context.get("description"))
    for _, key, label in FIELDS:
        value = context.get(key)
        sheet.row_if(label, "******" if value and key in SECRETS else value)
    if context.get("tls_first"):
        sheet.row("TLS First", "true")
    sheet.row_if("NSC Lookup", context.get("nsc"))
    sheet.row("Path", files.path(name))
    sheet.row_if("Connection", told.get("connection"))
    sheet.show()
    overrides = [
        variable for variable in ("NATS_URL", "NATS_CONTEXT", "NATS_USER", "NATS_CREDS") if os.environ.get(variable)
    ]
    if overrides:
        note(f"WARNING: Shell environment overrides in place using {', '.join(overrides)}")


def _without_secrets(context: dict[str, Any]) -> dict[str, Any]:
    return {key: "******" if value and key in SECRETS else value for key, value in context.items()}


def _save_options(function: Function) -> Function:
    """What a context may have besides the connection options."""
    for option in (
        click.option("--nsc", help="A nsc user URL, kept for `nats`; jetspark does not resolve it"),
        click.option("--select", is_flag=True, help="Use it from now on when no context is named"),
        click.option("--description", help="A few words about the context"),
    ):
        function = option(function)
    return function


@contexts.verb("add", aliases=("create", "save"))
@click.argument("name")
@_save_options
@pass_settings
def add(settings: Settings, name: str, description: str | None, select: bool, nsc: str | None) -> None:
    """Make a context, or change one, from the connection options on the line.

    jetspark context add prod --server nats://prod:4222 --creds prod.creds --select
    """
    files = ContextFiles()
    context = files.load(name) if name in files.names() else {}
    _save(files, name, context, settings, description, select, nsc)


def _save(
    files: ContextFiles,
    name: str,
    context: dict[str, Any],
    settings: Settings,
    description: str | None,
    select: bool,
    nsc: str | None,
) -> None:
    """A context with what the line says in place of what it had."""
    given = {key: getattr(settings, setting) for setting, key, _ in FIELDS if getattr(settings, setting)}
    if settings.tlsfirst is not None:
        given["tls_first"] = settings.tlsfirst
    given.update({key: value for key, value in (("description", description), ("nsc", nsc)) if value is not None})
    files.save(name, {**context, **given})
    if select:
        files.select(name)
    _show(name, files, settings)


@contexts.verb("copy", aliases=("cp",))
@click.argument("source", shell_complete=complete_context)
@click.argument("name")
@_save_options
@pass_settings
def copy(settings: Settings, source: str, name: str, description: str | None, select: bool, nsc: str | None) -> None:
    """Copy a context to a new name; connection options on the line take the place of its own."""
    files = ContextFiles()
    if name in files.names():
        raise UsageError(f"context {name} exists already")
    _save(files, name, files.load(source), settings, description, select, nsc)


@contexts.verb("edit", aliases=("vi",))
@name_argument
@pass_settings
def edit(settings: Settings, name: str | None) -> None:
    """Edit a context in your editor."""
    files = ContextFiles()
    picked = _pick(name or files.selected(), files)
    text = click.edit(json.dumps(files.load(picked), indent=2), extension=".json")
    if text is None:
        raise UsageError("the editor was left without saving: nothing was changed")
    try:
        files.save(picked, dict(json.loads(text)))
    except (ValueError, TypeError) as error:
        raise UsageError(f"not a JSON object any more, nothing was changed: {error}") from None
    _show(picked, files, settings)


@contexts.verb("ls", aliases=("list", "l"))
@click.option("--names", "-n", is_flag=True, help="Show just the names")
@pass_settings
def ls(settings: Settings, names: bool) -> None:
    """List the contexts; the selected one is marked with a star."""
    files = ContextFiles()
    known, selected = files.names(), files.selected()
    if settings.json:
        loaded = [{"name": name, "selected": name == selected, **files.load(name)} for name in known]
        emit_json(known if names else [_without_secrets(one) for one in loaded])
    elif names:
        for name in known:
            echo(name)
    else:
        rows = ((f"{name}*" if name == selected else name, files.load(name).get("description", "")) for name in known)
        empty = "No contexts; make one with: jetspark context add NAME --server URL"
        show_table("Known Contexts", ("Name", "Description"), rows, empty=empty)


@contexts.verb("rm", aliases=("delete", "del", "remove"))
@name_argument
@click.option("--force", "-f", is_flag=True, help="Do it without asking")
@pass_settings
def rm(settings: Settings, name: str | None, force: bool) -> None:
    """Remove a context."""
    files = ContextFiles()
    picked = _pick(name, files)
    files.load(picked)
    if not confirm(f"Really delete context {picked}", force=force):
        return
    files.remove(picked)
    if settings.json:
        emit_json({"name": picked, "deleted": True})


@contexts.verb("select", aliases=("switch", "set"))
@name_argument
@pass_settings
def select(settings: Settings, name: str | None) -> None:
    """Use a context from now on when none is named."""
    files = ContextFiles()
    picked = _pick(name, files)
    files.select(picked)
    _show(picked, files, settings)


@contexts.verb("unselect", aliases=("clear",))
@pass_settings
def unselect(settings: Settings) -> None:
    """Use no context when none is named."""
    files = ContextFiles()
    before = files.selected()
    files.select("")
    if settings.json:
        emit_json({"unselected": before})
        return
    echo(f'Unselected the "{before}" context' if before else "No context was selected")


@contexts.verb("previous", aliases=("-",))
@pass_settings
def previous(settings: Settings) -> None:
    """Go back to the context selected before."""
    files = ContextFiles()
    before = files.previous()
    if not before:
        raise NotFound("no context was selected before")
    files.select(before)
    _show(before, files, settings)


@contexts.verb("info", aliases=("show", "view", "v"))
@name_argument
@click.option("--connect", "connects", is_flag=True, help="Also connect with it, and tell how that went")
@pass_settings
def info(settings: Settings, name: str | None, connects: bool) -> None:
    """Show a context: the one named, or the selected one."""
    files = ContextFiles()
    picked = name or files.selected() or _pick(None, files)
    _show(picked, files, settings, connects=connects)


@contexts.verb("validate")
@name_argument
@click.option("--connect", "connects", is_flag=True, help="Also connect with it")
@pass_settings
def validate(settings: Settings, name: str | None, connects: bool) -> None:
    """Check one context, or all of them: is it readable, are its files there, does it connect?"""
    files = ContextFiles()
    problems = {one: _problem(one, connects=connects) for one in ([name] if name else files.names())}
    if settings.json:
        emit_json({one: problem or "ok" for one, problem in problems.items()})
    else:
        show_table("Contexts", ("Name", "Result"), [(one, problem or "ok") for one, problem in problems.items()])
    wrong = [one for one, problem in problems.items() if problem]
    if wrong:
        raise CliError(f"not usable: {', '.join(wrong)}")


def _problem(name: str, *, connects: bool) -> str:
    """What is wrong with a context; empty for nothing."""
    from jetspark.cli.connect import connect_options
    from jetspark.errors import JetsparkError
    from jetspark.sync import connect

    try:
        settings = effective(Settings(context=name))
        missing = [
            file
            for file in (settings.creds, settings.nkey, settings.tlscert, settings.tlskey)
            if file and not os.path.exists(file)
        ]
        if missing:
            return f"no such file: {', '.join(missing)}"
        if connects:
            connect(**connect_options(settings)).close()
    except (CliError, JetsparkError, OSError) as error:
        return str(error)
    return ""
