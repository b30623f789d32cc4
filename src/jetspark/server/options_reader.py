"""A configuration file's top-level keys, turned into options.

Decided here: which keys exist, their other spellings, and which are refused because this server does not do what
they ask for. A key is never accepted and then ignored, except those that change nothing without a cluster.
Not known here: the syntax of the file (`config_file`) and the command line (`flags`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from jetspark.api.timestamps import format_duration
from jetspark.server.config_file import ConfigSyntaxError, Node, digest, parse_file
from jetspark.server.config_values import (
    ConfigError,
    Problems,
    address,
    boolean,
    duration_ns,
    entries,
    integer,
    integer_31,
    string,
    strings,
    wrong,
)
from jetspark.server.options import SECOND_NS, Options, OptionsError
from jetspark.server.options_auth import AuthReader, unsupported
from jetspark.server.options_blocks import (
    Handler,
    into,
    nothing,
    read_dashboard,
    read_jetstream,
    read_tls,
    read_websocket,
    set_store_dir,
)

_LAME_DUCK_MIN_NS: Final = 30 * SECOND_NS

_ALIASES: Final[Mapping[str, str]] = {
    "net": "host",
    "storedir": "store_dir",
    "logfile": "log_file",
    "logfile_size_limit": "log_size_limit",
    "logfile_max_num": "log_max_num",
    "pidfile": "pid_file",
    "monitor_port": "http_port",
    "max_conn": "max_connections",
    "max_subs": "max_subscriptions",
    "max_subscription_tokens": "max_sub_tokens",
    "system": "system_account",
    "no_system": "no_system_account",
    "no_sys_acc": "no_system_account",
    "ws": "websocket",
    "maps": "mappings",
    "leaf": "leafnodes",
    "no_sublist_cache": "disable_sublist_cache",
    **dict.fromkeys(("operators", "roots", "root", "root_operators", "root_operator"), "operator"),
    **dict.fromkeys(("account_resolver", "accounts_resolver"), "resolver"),
    "trusted_keys": "trusted",
}

# What this server does not do. Named one by one, so that the answer says so instead of "unknown field".
_REFUSED: Final = (
    "cluster",
    "gateway",
    "leafnodes",
    "mqtt",
    "operator",
    "resolver",
    "resolver_tls",
    "resolver_preload",
    "resolver_pinned_accounts",
    "trusted",
    "default_sentinel",
    "mappings",
    "ocsp",
    "ocsp_cache",
    "proxies",
    "proxy_protocol",
    "prof_port",
    "prof_block_rate",
    "default_js_domain",
    "write_timeout",
    "max_sub_tokens",
    "no_header_support",
    "no_system_account",
)

# Settings of nats-server's inside that have no counterpart here and change nothing a client or operator can see.
_WITHOUT_EFFECT: Final = (
    "connect_error_reports",
    "reconnect_error_reports",
    "disable_sublist_cache",
    "no_fast_producer_stall",
)


# Switches for what nats-server does inside; only the first one changes anything here.
_FEATURE_FLAGS: Final = ("js_ack_fc_v2", "js_api_reply_v2", "js_raft_delete_range", "js_snapshot_sources")
_FEATURE_FLAGS_REFUSED: Final = ("js_api_reply_v2", "js_snapshot_sources")


class ConfigFileError(OptionsError):
    """The file cannot be used; the message lists every complaint, one a line."""


class OptionsReader:
    """One pass over one file."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.problems = Problems()
        self._auth = AuthReader(options, self.problems)

    def read(self, document: Mapping[str, Node], file: str) -> None:
        """Fill the options; complaints are left in `problems`."""
        if not document:
            self.problems.warnings.append(f"{file}: config has no values or is empty")
        self.problems.read_entries(document, self._handlers(), _ALIASES)
        for key in ("authorization", "accounts"):
            if key in document and not self.problems.errors:
                try:
                    self._auth.check_single_login(document[key])
                except ConfigError as error:
                    self.problems.errors.append(str(error))

    def _handlers(self) -> dict[str, Handler]:
        options, problems = self.options, self.problems
        return {
            **self._network_handlers(),
            **self._logging_handlers(),
            **self._limit_handlers(),
            **self._login_handlers(),
            "store_dir": lambda node: set_store_dir(node, options.jetstream),
            "jetstream": lambda node: read_jetstream(node, options, problems),
            "tls": into(options, "tls", lambda node: read_tls(node, problems)),
            "allow_non_tls": into(options, "allow_non_tls", boolean),
            "websocket": lambda node: read_websocket(node, options.websocket, problems),
            "dashboard": lambda node: read_dashboard(node, options.dashboard, problems),
            **{name: _refuse_unless_off(name) for name in _REFUSED},
            **dict.fromkeys(_WITHOUT_EFFECT, nothing),
        }

    def _network_handlers(self) -> dict[str, Handler]:
        options = self.options

        def listen(node: Node) -> None:
            host, port = address(node)
            options.host, options.port = host or options.host, port or options.port

        def http(node: Node) -> None:
            options.http_host, options.http_port = address(node)

        def https(node: Node) -> None:
            options.http_host, options.https_port = address(node)

        def server_name(node: Node) -> None:
            options.server_name = string(node)
            if " " in options.server_name:
                raise wrong(node, "server name cannot contain spaces")

        def metadata(node: Node) -> None:
            options.server_metadata = {key: string(value) for key, value in entries(node).items()}

        def feature_flags(node: Node) -> None:
            for key, value in entries(node).items():
                if boolean(value) and key in _FEATURE_FLAGS_REFUSED:
                    raise unsupported(value, f"feature_flags.{key}")
                options.feature_flags[key] = boolean(value)

        return {
            "listen": listen,
            "host": into(options, "host", string),
            "port": lambda node: setattr(options, "port", integer(node) or options.port),
            "client_advertise": into(options, "client_advertise", string),
            "server_name": server_name,
            "server_tags": into(options, "server_tags", lambda node: strings(node, "server_tags")),
            "server_metadata": metadata,
            "feature_flags": feature_flags,
            "http": http,
            "https": https,
            "http_port": into(options, "http_port", integer),
            "https_port": into(options, "https_port", integer),
            "http_base_path": into(options, "http_base_path", string),
            "pid_file": into(options, "pid_file", string),
            "ports_file_dir": into(options, "ports_file_dir", string),
        }

    def _logging_handlers(self) -> dict[str, Handler]:
        options = self.options

        def trace_verbose(node: Node) -> None:
            options.trace = options.trace_verbose = boolean(node)

        def trace_headers(node: Node) -> None:
            options.trace = options.trace_headers = boolean(node)

        return {
            "debug": into(options, "debug", boolean),
            "trace": into(options, "trace", boolean),
            "trace_verbose": trace_verbose,
            "trace_headers": trace_headers,
            "logtime": into(options, "logtime", boolean),
            "logtime_utc": into(options, "logtime_utc", boolean),
            "log_file": into(options, "log_file", string),
            "log_size_limit": into(options, "log_size_limit_bytes", integer),
            "log_max_num": into(options, "log_files_max", integer),
            "syslog": into(options, "syslog", boolean),
            "remote_syslog": into(options, "remote_syslog", string),
            "max_traced_msg_len": into(options, "traced_msg_len_max", integer),
        }

    def _limit_handlers(self) -> dict[str, Handler]:
        options, problems = self.options, self.problems

        def lame_duck_duration(node: Node) -> None:
            value = duration_ns(node, "lame_duck_duration")
            if value < _LAME_DUCK_MIN_NS:
                raise wrong(node, f"invalid lame_duck_duration of {format_duration(value)}, minimum is 30 seconds")
            options.lame_duck_duration_ns = value

        def lame_duck_grace(node: Node) -> None:
            value = duration_ns(node, "lame_duck_grace_period")
            if value < 0:
                raise wrong(node, "invalid lame_duck_grace_period, needs to be positive")
            options.lame_duck_grace_ns = value or options.lame_duck_grace_ns

        def or_default(name: str, read: Callable[[Node], int]) -> Handler:
            """Zero stands for the default, as in nats-server."""
            return lambda node: setattr(options, name, read(node) or getattr(options, name))

        return {
            "max_payload": or_default("max_payload_bytes", lambda node: integer_31(node, "max_payload")),
            "max_control_line": or_default("max_control_line_bytes", lambda node: integer_31(node, "max_control_line")),
            "max_pending": or_default("max_pending_bytes", integer),
            # Here alone zero is meant: nobody may connect.
            "max_connections": into(options, "max_connections", integer),
            "max_subscriptions": into(options, "max_subscriptions", integer),
            "max_closed_clients": or_default("max_closed_clients", integer),
            "write_deadline": or_default(
                "write_deadline_ns", lambda node: problems.duration_ns(node, "write_deadline")
            ),
            "ping_interval": or_default("ping_interval_ns", lambda node: problems.duration_ns(node, "ping_interval")),
            "ping_max": or_default("ping_max", integer),
            "lame_duck_duration": lame_duck_duration,
            "lame_duck_grace_period": lame_duck_grace,
        }

    def _login_handlers(self) -> dict[str, Handler]:
        options = self.options
        return {
            "authorization": self._auth.authorization,
            "accounts": self._auth.accounts,
            "no_auth_user": into(options, "no_auth_user", string),
            "system_account": into(options, "system_account", string),
        }


def _refuse_unless_off(name: str) -> Handler:
    """Turning off what is not there is no contradiction."""

    def handler(node: Node) -> None:
        if node.value is not False:
            raise unsupported(node, name)

    return handler


def read_config_file(file: str, options: Options | None = None) -> tuple[Options, list[str]]:
    """The options a file asks for, and warnings; raises ConfigFileError with every complaint."""
    options = options or Options()
    options.config_file = file
    try:
        document = parse_file(file)
    except ConfigSyntaxError as error:
        raise ConfigFileError(str(error)) from None
    options.config_digest = digest(document)
    reader = OptionsReader(options)
    reader.read(document, file)
    if reader.problems.errors:
        raise ConfigFileError("\n".join([*reader.problems.errors, *reader.problems.warnings]) + "\n")
    return options, reader.problems.warnings
