"""The command line: nats-server's flags, read the way Go reads flags.

Decided here: one or two dashes mean the same, `-sd X` and `-sd=X` mean the same, a truth flag takes its value only
after `=`, the last word wins, and the command line overrides the file. Not known here: what the settings then do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from jetspark.server.options import Options, OptionsError, TlsOptions
from jetspark.server.options_reader import ConfigFileError, read_config_file

# flag → (kind, what it sets). A dotted target is inside a block of the options.
_STRING: Final = "string"
_INTEGER: Final = "integer"
_BOOLEAN: Final = "boolean"
_LIST: Final = "list"

_FLAGS: Final[dict[str, tuple[str, str]]] = {
    **dict.fromkeys(("p", "port"), (_INTEGER, "port")),
    **dict.fromkeys(("a", "addr", "net"), (_STRING, "host")),
    **dict.fromkeys(("n", "name", "server_name"), (_STRING, "server_name")),
    "client_advertise": (_STRING, "client_advertise"),
    **dict.fromkeys(("m", "http_port"), (_INTEGER, "http_port")),
    **dict.fromkeys(("ms", "https_port"), (_INTEGER, "https_port")),
    "dashboard": (_BOOLEAN, "dashboard.enabled"),
    "dashboard_changes": (_BOOLEAN, "dashboard.allow_changes"),
    "dashboard_hosts": (_LIST, "dashboard.hosts"),
    **dict.fromkeys(("c", "config"), (_STRING, "=config")),
    "t": (_BOOLEAN, "=test"),
    **dict.fromkeys(("sl", "signal"), (_STRING, "=signal")),
    **dict.fromkeys(("P", "pid"), (_STRING, "pid_file")),
    "ports_file_dir": (_STRING, "ports_file_dir"),
    **dict.fromkeys(("l", "log"), (_STRING, "log_file")),
    **dict.fromkeys(("T", "logtime"), (_BOOLEAN, "logtime")),
    "logtime_utc": (_BOOLEAN, "logtime_utc"),
    **dict.fromkeys(("s", "syslog"), (_BOOLEAN, "syslog")),
    **dict.fromkeys(("r", "remote_syslog"), (_STRING, "remote_syslog")),
    **dict.fromkeys(("D", "debug"), (_BOOLEAN, "debug")),
    **dict.fromkeys(("V", "trace"), (_BOOLEAN, "trace")),
    "VV": (_BOOLEAN, "trace,trace_verbose"),
    "DV": (_BOOLEAN, "debug,trace"),
    "DVV": (_BOOLEAN, "debug,trace,trace_verbose"),
    "log_size_limit": (_INTEGER, "log_size_limit_bytes"),
    "max_traced_msg_len": (_INTEGER, "traced_msg_len_max"),
    **dict.fromkeys(("js", "jetstream"), (_BOOLEAN, "jetstream.enabled")),
    **dict.fromkeys(("sd", "store_dir"), (_STRING, "jetstream.store_dir")),
    "user": (_STRING, "username"),
    "pass": (_STRING, "password"),
    "auth": (_STRING, "token"),
    "tls": (_BOOLEAN, "tls"),
    "tlsverify": (_BOOLEAN, "tls.verify"),
    "tlscert": (_STRING, "tls.cert_file"),
    "tlskey": (_STRING, "tls.key_file"),
    "tlscacert": (_STRING, "tls.ca_file"),
    **dict.fromkeys(
        ("routes", "cluster", "cluster_listen", "cluster_name", "cluster_advertise"), (_STRING, "!cluster")
    ),
    "no_advertise": (_BOOLEAN, "!cluster"),
    "connect_retries": (_INTEGER, "!cluster"),
    "profile": (_INTEGER, "!profile"),
    **dict.fromkeys(("h", "help"), (_BOOLEAN, "=help")),
    **dict.fromkeys(("v", "version"), (_BOOLEAN, "=version")),
    "help_tls": (_BOOLEAN, "=help_tls"),
}
_BOOLEAN_WORDS: Final = {
    **dict.fromkeys(("1", "t", "T", "true", "TRUE", "True"), True),
    **dict.fromkeys(("0", "f", "F", "false", "FALSE", "False"), False),
}
_REFUSALS: Final = {
    "!cluster": "clustering is not supported: this server runs alone; use a NATS cluster for replication",
    "!profile": "the profiling port is not supported",
}


Value = str | int | bool | list[str]


class UsageError(Exception):
    """The words on the command line are not flags of this server."""


@dataclass(slots=True)
class CommandLine:
    """What was asked for; `settings` are (flag, target, value) in the order given."""

    settings: list[tuple[str, str, Value]] = field(default_factory=list)
    config_file: str = ""
    is_config_test: bool = False
    signal: str = ""
    shows_version: bool = False
    shows_help: bool = False
    shows_tls_help: bool = False


def parse_command_line(arguments: Sequence[str]) -> CommandLine:
    """What the words ask for; raises UsageError for anything that is not a flag."""
    line = CommandLine()
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if len(word) < 2 or not word.startswith("-"):
            break
        index += 1
        if word == "--":
            break
        name, equals, text = word.removeprefix("-").removeprefix("-").partition("=")
        if not name or name.startswith("-"):
            raise UsageError(f"bad flag syntax: {word}")
        if name not in _FLAGS:
            raise UsageError(f"flag provided but not defined: -{name}")
        if not equals and _FLAGS[name][0] == _BOOLEAN:
            text = "true"
        elif not equals:
            if index == len(arguments):
                raise UsageError(f"flag needs an argument: -{name}")
            text = arguments[index]
            index += 1
        _take(line, name, text)
    _take_words(line, arguments[index:])
    return line


def _take(line: CommandLine, name: str, text: str) -> None:
    kind, target = _FLAGS[name]
    value = _convert(name, kind, text)
    if target == "=config":
        line.config_file = text
    elif target == "=signal":
        line.signal = text
    elif target == "=test":
        line.is_config_test = bool(value)
    elif target == "=help":
        line.shows_help = bool(value)
    elif target == "=version":
        line.shows_version = bool(value)
    elif target == "=help_tls":
        line.shows_tls_help = bool(value)
    else:
        line.settings.append((name, target, value))


def _convert(name: str, kind: str, text: str) -> Value:
    if kind == _STRING:
        return text
    if kind == _LIST:
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind == _BOOLEAN:
        if text not in _BOOLEAN_WORDS:
            raise UsageError(f'invalid boolean value "{text}" for -{name}: parse error')
        return _BOOLEAN_WORDS[text]
    try:
        return int(text, 0)
    except ValueError:
        raise UsageError(f'invalid value "{text}" for flag -{name}: parse error') from None


def _take_words(line: CommandLine, words: Sequence[str]) -> None:
    """Words after the flags: only `version` and `help` mean something."""
    for word in words:
        if word.lower() == "version":
            line.shows_version = True
        elif word.lower() == "help":
            line.shows_help = True
        else:
            raise OptionsError(f'unrecognized command: "{word}"')


def apply_flags(line: CommandLine, options: Options) -> None:
    """Put the command line's settings over what the file said."""
    tls: dict[str, Value] = {}
    for name, target, value in line.settings:
        if target.startswith("!"):
            if value:
                raise OptionsError(f"--{name}: {_REFUSALS[target]}")
        elif target.startswith("tls"):
            tls[target] = value
        elif "." in target:
            block, _, setting = target.partition(".")
            setattr(getattr(options, block), setting, value)
        elif target == "port":
            assert isinstance(value, int)
            options.port = value or options.port
        else:
            for part in target.split(","):
                setattr(options, part, value)
    if tls.get("tls") is False:
        options.tls = None
    elif tls:
        options.tls = _tls_from_flags(tls)


def _tls_from_flags(values: dict[str, Value]) -> TlsOptions:
    if not values.get("tls.cert_file"):
        raise OptionsError("TLS Server certificate must be present and valid")
    if not values.get("tls.key_file"):
        raise OptionsError("TLS Server private key must be present and valid")
    return TlsOptions(
        cert_file=str(values["tls.cert_file"]),
        key_file=str(values["tls.key_file"]),
        ca_file=str(values.get("tls.ca_file", "")),
        verify=bool(values.get("tls.verify", False)),
    )


def options_from(line: CommandLine) -> tuple[Options, list[str]]:
    """The file's settings with the command line's over them, and the file's warnings."""
    if not line.config_file:
        if line.is_config_test:
            raise OptionsError("must specify [-c, --config] option to check configuration file syntax")
        options = Options()
        warnings: list[str] = []
    else:
        options, warnings = read_config_file(line.config_file)
        if line.is_config_test:
            if warnings:
                raise ConfigFileError("\n".join(warnings) + "\n")
            return options, warnings
    apply_flags(line, options)
    return options, warnings
