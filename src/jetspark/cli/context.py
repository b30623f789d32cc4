"""What every command shares: the global options, wherever on the line they stand, and the classes commands are made of.

`nats` takes its global flags anywhere (`stream info ORDERS -s nats://host`), so each command here does. A noun is a
`click.group(cls=Noun)`; its commands may have aliases and find the `Settings` with `pass_settings`. Not known here:
how settings become a connection (`connect`), nor what context files hold (`context_files`).
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import click
from click.core import ParameterSource

from jetspark.cli.durations import DURATION, SECOND_NS
from jetspark.cli.errors import UsageError

DEFAULT_TIMEOUT_NS: Final = 5 * SECOND_NS
# Those of `nats`: two ways to draw tables, and colours for their lines.
COLOR_SCHEMES: Final = ("blue", "cyan", "double", "green", "magenta", "red", "rounded", "yellow")


@dataclass
class Settings:
    """The global options of one invocation; empty means not given."""

    server: str = ""
    user: str = ""
    password: str = ""
    token: str = ""
    connection_name: str = ""
    creds: str = ""
    nkey: str = ""
    jwt: str = ""
    seed: str = ""
    tlscert: str = ""
    tlskey: str = ""
    tlsca: str = ""
    tlsfirst: bool | None = None
    timeout: int = DEFAULT_TIMEOUT_NS
    js_api_prefix: str = ""
    js_event_prefix: str = ""
    js_domain: str = ""
    inbox_prefix: str = ""
    context: str = ""
    no_context: bool = False
    colors: str = ""
    trace: bool = False
    json: bool = False

    @property
    def timeout_s(self) -> float:
        """How long to wait for an answer."""
        return self.timeout / SECOND_NS


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def settings_of(ctx: click.Context | None = None) -> Settings:
    """The settings of the running command."""
    return (ctx or click.get_current_context()).ensure_object(Settings)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    """Remember an option that was given; the later of two on a line wins."""
    assert param.name is not None
    if ctx.get_parameter_source(param.name) is not ParameterSource.DEFAULT:
        setattr(settings_of(ctx), param.name, value)


_TEXT_OPTIONS: Final = (
    # names, environment, placeholder, help
    (("--server", "-s"), "NATS_URL", "URL", "NATS server URLs, separated by commas"),
    (("--user",), "NATS_USER", "USER", "Username or token"),
    (("--password",), "NATS_PASSWORD", "PASSWORD", "Password"),
    (("--token",), "NATS_TOKEN", "TOKEN", "Token"),
    (("--connection-name",), None, "NAME", "Name of the connection, as the server lists it"),
    (("--creds",), "NATS_CREDS", "FILE", "User credentials"),
    (("--nkey",), "NATS_NKEY", "FILE", "User NKEY seed file"),
    (("--jwt",), "NATS_JWT", "JWT", "User JWT"),
    (("--seed",), "NATS_SEED", "SEED", "User seed"),
    (("--tlscert",), "NATS_CERT", "FILE", "TLS public certificate"),
    (("--tlskey",), "NATS_KEY", "FILE", "TLS private key"),
    (("--tlsca",), "NATS_CA", "FILE", "TLS certificate authority chain"),
    (("--js-api-prefix",), None, "PREFIX", "Subject prefix for access to the JetStream API"),
    (("--js-event-prefix",), None, "PREFIX", "Subject prefix for access to JetStream advisories"),
    (("--js-domain",), None, "DOMAIN", "JetStream domain to access"),
    (("--inbox-prefix",), None, "PREFIX", "Prefix of the subjects answers come back on"),
    (("--context",), "NATS_CONTEXT", "NAME", "Configuration context"),
)


def _complete_context(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    # Loaded here: it is needed when a shell asks, and needs this module.
    from jetspark.cli.contexts import complete_context

    return complete_context(ctx, param, incomplete)


def _offers(metavar: str, names: tuple[str, ...]) -> dict[str, Any]:
    """What a shell offers for an option: files, or contexts."""
    if metavar == "FILE":
        return {"type": click.Path()}
    return {"shell_complete": _complete_context} if "--context" in names else {}


def global_options(*, at_root: bool) -> list[click.Option]:
    """The options of every command. The environment is read once, at the root; deeper copies stay out of the help."""
    common: dict[str, Any] = {"expose_value": False, "callback": _keep, "hidden": not at_root}

    def environment(name: str | None) -> dict[str, Any]:
        return {"envvar": name, "show_envvar": True} if at_root and name else {}

    made = [
        click.Option(names, metavar=metavar, help=text, **_offers(metavar, names), **environment(variable), **common)
        for names, variable, metavar, text in _TEXT_OPTIONS
    ]
    timeout_help = "Time to wait on responses from NATS  [default: 5s]"
    return [
        *made,
        click.Option(["--tlsfirst/--no-tlsfirst"], help="Start TLS before the server's greeting", **common),
        click.Option(["--timeout"], type=DURATION, help=timeout_help, **environment("NATS_TIMEOUT"), **common),
        click.Option(["--no-context"], is_flag=True, help="Disable the selected context", **common),
        click.Option(
            ["--colors"],
            type=click.Choice(COLOR_SCHEMES),
            metavar="SCHEME",
            help=f"How tables and labels are drawn at a terminal ({', '.join(COLOR_SCHEMES)})",
            **environment("NATS_COLOR"),
            **common,
        ),
        click.Option(["--trace"], is_flag=True, help="Trace API interactions on stderr", **common),
        click.Option(["--json", "-j"], is_flag=True, help="Produce JSON output", **{**common, "hidden": False}),
    ]


def _with_global_options(own: list[click.Parameter], *, at_root: bool) -> list[click.Parameter]:
    """A command's own options first; where names meet, its own win."""
    taken = {name for param in own for name in (*param.opts, *param.secondary_opts, param.name)}
    free = [option for option in global_options(at_root=at_root) if not taken & {*option.opts, option.name}]
    return [*own, *free]


class Command(click.Command):
    """A command that takes the global options too."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its own parameters and the global options."""
        return _with_global_options(super().get_params(ctx), at_root=False)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Where the rest of the options are explained."""
        super().format_epilog(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text("Global options (--server, --context, --timeout, ...): jetspark --help")


class Noun(click.Group):
    """A group of commands about one thing, each with its aliases."""

    command_class = Command
    at_root = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("no_args_is_help", True)
        super().__init__(*args, **kwargs)
        self.aliases: dict[str, str] = {}

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its own parameters and the global options."""
        return _with_global_options(super().get_params(ctx), at_root=self.at_root)

    def verb(
        self, name: str, *, aliases: Iterable[str] = (), **attributes: Any
    ) -> Callable[[Callable[..., Any]], click.Command]:
        """Like `command`, with other names for the same thing."""
        self.aliases.update(dict.fromkeys(aliases, name))
        made: Callable[[Callable[..., Any]], click.Command] = self.command(name, **attributes)
        return made

    def aliases_of(self, name: str) -> list[str]:
        """The other names of a command."""
        return [alias for alias, meant in self.aliases.items() if meant == name]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """By name or alias."""
        return super().get_command(ctx, self.aliases.get(cmd_name, cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelt one is answered with its nearest neighbours."""
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            near = difflib.get_close_matches(name, [*known, *self.aliases], n=3)
            meant = f"did you mean {' or '.join(near)}?" if near else f"there is: {', '.join(known)}"
            raise UsageError(f"no command {name!r} in {ctx.command_path!r}; {meant}")
        found, command, rest = super().resolve_command(ctx, args)
        return (command.name if command is not None else found), command, rest
