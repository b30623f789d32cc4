"""Every setting a running server has, typed, with nats-server's defaults.

Decided here: names, units, defaults, and which combinations make no sense. Not known here: where a value came
from; `options_reader` fills these from a file, `flags` from the command line, `embedded` from arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from jetspark.api.timestamps import format_duration
from jetspark.errors import JetsparkError
from jetspark.protocol.subjects import is_valid_subject

SECOND_NS: Final = 1_000_000_000
MINUTE_NS: Final = 60 * SECOND_NS

GLOBAL_ACCOUNT: Final = "$G"
SYSTEM_ACCOUNT: Final = "$SYS"

# From here on nats-server warns that large payloads hurt everyone on the server.
MAX_PAYLOAD_WARN_BYTES: Final = 8 * 1024 * 1024


class OptionsError(JetsparkError):
    """A setting is wrong, or one this server does not support was asked for."""


@dataclass(slots=True, kw_only=True)
class PermissionOptions:
    """What a user may do. None for an allow list means everything not denied is allowed."""

    publish_allow: list[str] | None = None
    publish_deny: list[str] = field(default_factory=list)
    subscribe_allow: list[str] | None = None
    subscribe_deny: list[str] = field(default_factory=list)
    # 0: replies need the publish permission as any subject does; negative: no limit.
    responses_max: int = 0
    responses_expire_ns: int = 0


@dataclass(slots=True, kw_only=True)
class UserOptions:
    """One entry of a users list: a name with a password, or a public nkey."""

    name: str = ""
    password: str = ""
    nkey: str = ""
    account: str = GLOBAL_ACCOUNT
    permissions: PermissionOptions | None = None
    # Upper-case words (STANDARD, WEBSOCKET …); empty: every kind of connection.
    connection_types: frozenset[str] = frozenset()


@dataclass(slots=True, kw_only=True)
class AccountJetStreamOptions:
    """An account's share of JetStream; -1 is no limit."""

    max_memory_bytes: int = -1
    max_storage_bytes: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_stream_bytes_max: int = -1
    storage_stream_bytes_max: int = -1
    is_max_bytes_required: bool = False


@dataclass(slots=True, kw_only=True)
class AccountOptions:
    """One named account: its own subject space, and JetStream only when `jetstream` is set."""

    name: str
    jetstream: AccountJetStreamOptions | None = None
    max_connections: int = -1


@dataclass(slots=True, kw_only=True)
class TlsOptions:
    """A tls block. Times are in seconds because that is how the file gives them."""

    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    verify: bool = False
    verify_and_map: bool = False
    timeout_s: float = 2.0
    min_version: str = ""
    cipher_suites: list[str] = field(default_factory=list)
    pinned_certs: frozenset[str] = frozenset()
    handshake_first: bool = False
    # How long to wait for the client's handshake before sending INFO in clear after all; 0: for ever.
    handshake_fallback_s: float = 0.0


@dataclass(slots=True, kw_only=True)
class WebsocketOptions:
    """A websocket block; port 0 means no websocket listener, -1 a free port."""

    host: str = "0.0.0.0"
    port: int = 0
    no_tls: bool = False
    tls: TlsOptions | None = None
    same_origin: bool = False
    allowed_origins: list[str] = field(default_factory=list)
    compression: bool = False
    headers: dict[str, str] = field(default_factory=dict)
    ping_interval_ns: int = 0


@dataclass(slots=True, kw_only=True)
class DashboardOptions:
    """The dashboard block: the page on the monitoring port. It changes nothing unless the operator says so."""

    enabled: bool = True
    allow_changes: bool = False
    # Names it answers to besides its own, where nobody has to log in.
    hosts: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class JetStreamOptions:
    """The jetstream block. -1 for the two sizes means a share of what the machine has."""

    enabled: bool = False
    store_dir: str = ""
    max_memory_bytes: int = -1
    max_storage_bytes: int = -1
    domain: str = ""
    # Every acknowledgement waits for the disk unless the file names an interval.
    sync_always: bool = True
    sync_interval_ns: int = 2 * MINUTE_NS
    strict: bool = True
    # 0: no limit set.
    max_ack_pending: int = 0
    max_request_batch: int = 0
    duplicate_window_ns: int = 0
    default_max_consumers: int = 1000
    # 0: the defaults, which differ for atomic and fast batches; a number set is for both.
    batch_inflight_per_stream_max: int = 0
    batch_inflight_total_max: int = 0
    batch_msgs_max: int = 1000
    batch_timeout_ns: int = 10 * SECOND_NS


@dataclass(slots=True, kw_only=True)
class Options:
    """All settings of one server."""

    config_file: str = ""
    config_digest: str = ""

    host: str = "0.0.0.0"
    port: int = 4222  # -1: a free one.
    server_name: str = ""
    client_advertise: str = ""
    server_tags: list[str] = field(default_factory=list)
    server_metadata: dict[str, str] = field(default_factory=dict)
    feature_flags: dict[str, bool] = field(default_factory=dict)

    http_host: str = ""  # Empty: the same as `host`.
    http_port: int = 0
    https_port: int = 0
    http_base_path: str = ""
    dashboard: DashboardOptions = field(default_factory=DashboardOptions)

    debug: bool = False
    trace: bool = False
    trace_verbose: bool = False
    trace_headers: bool = False
    logtime: bool = True
    logtime_utc: bool = False
    log_file: str = ""
    log_size_limit_bytes: int = 0
    log_files_max: int = 0
    syslog: bool = False
    remote_syslog: str = ""
    traced_msg_len_max: int = 0
    pid_file: str = ""
    ports_file_dir: str = ""

    max_payload_bytes: int = 1024 * 1024
    max_control_line_bytes: int = 4096
    max_pending_bytes: int = 64 * 1024 * 1024
    max_connections: int = 65536
    max_subscriptions: int = 0
    max_closed_clients: int = 10_000
    write_deadline_ns: int = 10 * SECOND_NS
    ping_interval_ns: int = 2 * MINUTE_NS
    ping_max: int = 2
    lame_duck_duration_ns: int = 2 * MINUTE_NS
    lame_duck_grace_ns: int = 10 * SECOND_NS

    username: str = ""
    password: str = ""
    token: str = ""
    auth_timeout_s: float = 0.0  # 0: 2 s, or one second more than the TLS timeout.
    users: list[UserOptions] = field(default_factory=list)
    # An empty users list still means that a login is required.
    is_users_list_present: bool = False
    accounts: dict[str, AccountOptions] = field(default_factory=dict)
    no_auth_user: str = ""
    system_account: str = SYSTEM_ACCOUNT

    jetstream: JetStreamOptions = field(default_factory=JetStreamOptions)
    tls: TlsOptions | None = None
    allow_non_tls: bool = False
    websocket: WebsocketOptions = field(default_factory=WebsocketOptions)

    @property
    def auth_timeout_effective_s(self) -> float:
        """How long a client has to log in."""
        if self.auth_timeout_s > 0:
            return self.auth_timeout_s
        return self.tls.timeout_s + 1.0 if self.tls is not None else 2.0

    @property
    def is_auth_required(self) -> bool:
        """Whether a client must log in at all."""
        return bool(self.username or self.password or self.token or self.users or self.is_users_list_present)


def validate(options: Options) -> None:
    """Refuse combinations that cannot work, in nats-server's words where it has them."""
    if options.lame_duck_grace_ns >= options.lame_duck_duration_ns > 0:
        raise OptionsError(
            f"lame duck grace period ({format_duration(options.lame_duck_grace_ns)}) should be strictly lower "
            f"than lame duck duration ({format_duration(options.lame_duck_duration_ns)})"
        )
    if options.max_payload_bytes > options.max_pending_bytes:
        raise OptionsError(
            f"max_payload ({options.max_payload_bytes}) cannot be higher than max_pending ({options.max_pending_bytes})"
        )
    if " " in options.server_name:
        raise OptionsError("server name cannot contain spaces")
    if options.system_account != SYSTEM_ACCOUNT and options.system_account not in options.accounts:
        raise OptionsError("error resolving system account: account missing")
    if options.no_auth_user:
        _validate_no_auth_user(options, options.no_auth_user)
    if options.jetstream.domain:
        _validate_domain(options.jetstream.domain)
    _validate_monitoring(options)
    if options.websocket.port:
        _validate_websocket(options)


def _validate_domain(domain: str) -> None:
    if any(character in domain for character in ".*>"):
        raise OptionsError("invalid domain name: may not contain ., * or >")
    subject = f"$JS.{domain}.API.>"
    if not is_valid_subject(subject.encode()):
        raise OptionsError(f'invalid domain name: derived "{subject}" is not a valid subject')


def _validate_monitoring(options: Options) -> None:
    if options.http_port and options.https_port:
        raise OptionsError(
            f"Can't start monitoring: can't specify both HTTP ({options.http_port}) and "
            f"HTTPs ({options.https_port}) ports"
        )
    if options.https_port and options.tls is None:
        raise OptionsError("Can't start monitoring: TLS cert and key required for HTTPS")


def _validate_no_auth_user(options: Options, name: str) -> None:
    if not options.users:
        raise OptionsError(f'no_auth_user: "{name}" present, but users/nkeys are not defined')
    if not any(user.name == name or user.nkey == name for user in options.users):
        raise OptionsError(
            f'no_auth_user: "{name}" not present as user or nkey in authorization block or account configuration'
        )


def _validate_websocket(options: Options) -> None:
    if options.websocket.tls is None and not options.websocket.no_tls:
        raise OptionsError("websocket requires TLS configuration")
