"""The jetstream, tls, websocket and dashboard blocks.

Decided here: their keys, and which of them only matter in a cluster (accepted, because nats-server accepts them on
a single server too, where they change nothing) or are refused. Not known here: what the settings then do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from jetspark.api.timestamps import parse_duration
from jetspark.server.config_file import Node
from jetspark.server.config_values import (
    Problems,
    address,
    boolean,
    duration_ns,
    entries,
    integer,
    items,
    kind,
    seconds,
    size_bytes,
    string,
    strings,
    wrong,
)
from jetspark.server.options import DashboardOptions, JetStreamOptions, Options, TlsOptions, WebsocketOptions
from jetspark.server.options_auth import enabled_word, unsupported

Handler = Callable[[Node], None]

_PINNED_CERT: Final = re.compile("[0-9a-f]{64}")
_HANDSHAKE_FALLBACK_S: Final = 0.05
# Of the jetstream block: what only matters in a cluster, and limits of queues that do not exist here.
_WITHOUT_EFFECT: Final = (
    "max_buffered_msgs",
    "max_buffered_size",
    "request_queue_limit",
    "extension_hint",
    "unique_tag",
    "max_outstanding_catchup",
    "info_queue_limit",
    "meta_compact",
    "meta_compact_size",
    "meta_compact_sync",
    "max_concurrent_io",
)
_JETSTREAM_ALIASES: Final = {
    "enable": "enabled",
    "store": "store_dir",
    "storedir": "store_dir",
    "sync": "sync_interval",
    "max_mem_store": "max_memory_store",
    "max_mem": "max_memory_store",
    "max_file": "max_file_store",
    "key": "encryption_key",
    "ek": "encryption_key",
    "prev_key": "prev_encryption_key",
    "prev_ek": "prev_encryption_key",
}
_WEBSOCKET_REFUSED: Final = (
    "advertise",
    "handshake_timeout",
    "authorization",
    "no_auth_user",
    "jwt_cookie",
    "user_cookie",
    "pass_cookie",
    "token_cookie",
)
_TLS_REFUSED: Final = (
    "insecure",
    "allow_insecure_cipher_suites",
    "curve_preferences",
    "connection_rate_limit",
    "cert_store",
    "cert_match_by",
    "cert_match",
    "cert_match_skip_invalid",
    "ca_certs_match",
    "ocsp_peer",
    "certs",
    "certificates",
    "verify_cert_and_check_known_urls",
)


def refuse(name: str) -> Handler:
    """A handler that says the setting is not supported."""

    def handler(node: Node) -> None:
        raise unsupported(node, name)

    return handler


def nothing(node: Node) -> None:
    """For a key that changes nothing on a single server."""


def into(target: object, name: str, read: Callable[[Node], object]) -> Handler:
    """A handler that reads the value and stores it under a name."""
    return lambda node: setattr(target, name, read(node))


def read_jetstream(node: Node, options: Options, problems: Problems) -> None:
    """The jetstream block, or the word that turns JetStream on."""
    jetstream = options.jetstream
    if isinstance(node.value, bool):
        jetstream.enabled = node.value
        return
    if isinstance(node.value, str):
        jetstream.enabled = enabled_word(node)
        return
    jetstream.enabled = True

    def store_dir(value: Node) -> None:
        set_store_dir(value, jetstream)

    def sync(value: Node) -> None:
        if isinstance(value.value, str) and value.value.lower() == "always":
            jetstream.sync_always = True
            return
        jetstream.sync_interval_ns = problems.duration_ns(value, "sync_interval")
        jetstream.sync_always = False

    problems.read_map(
        node,
        {
            "enabled": into(jetstream, "enabled", boolean),
            "store_dir": store_dir,
            "sync_interval": sync,
            "max_memory_store": into(jetstream, "max_memory_bytes", lambda value: size_bytes(value, "max_mem_store")),
            "max_file_store": into(jetstream, "max_storage_bytes", lambda value: size_bytes(value, "max_file_store")),
            "domain": into(jetstream, "domain", string),
            "strict": into(jetstream, "strict", boolean),
            "limits": lambda value: _read_limits(value, jetstream, problems),
            "encryption_key": refuse("jetstream.key"),
            "prev_encryption_key": refuse("jetstream.prev_key"),
            "cipher": refuse("jetstream.cipher"),
            "tpm": refuse("jetstream.tpm"),
            **dict.fromkeys(_WITHOUT_EFFECT, nothing),
        },
        _JETSTREAM_ALIASES,
    )


def set_store_dir(node: Node, jetstream: JetStreamOptions) -> None:
    """The directory may be given at the top or in the jetstream block, not in both."""
    if jetstream.store_dir:
        raise wrong(node, "Duplicate 'store_dir' configuration")
    jetstream.store_dir = string(node)


def _read_limits(node: Node, jetstream: JetStreamOptions, problems: Problems) -> None:
    def batch(value: Node) -> None:
        problems.read_map(
            value,
            {
                "max_inflight_per_stream": into(jetstream, "batch_inflight_per_stream_max", integer),
                "max_inflight_total": into(jetstream, "batch_inflight_total_max", integer),
                "max_msgs": into(jetstream, "batch_msgs_max", integer),
                "timeout": into(jetstream, "batch_timeout_ns", lambda item: duration_ns(item, "timeout")),
            },
            {},
        )

    problems.read_map(
        node,
        {
            "max_ack_pending": into(jetstream, "max_ack_pending", integer),
            "max_request_batch": into(jetstream, "max_request_batch", integer),
            "duplicate_window": into(
                jetstream, "duplicate_window_ns", lambda value: duration_ns(value, "duplicate_window")
            ),
            "default_max_consumers": into(jetstream, "default_max_consumers", integer),
            "batch": batch,
            "max_ha_assets": nothing,
        },
        {},
    )


def read_tls(node: Node, problems: Problems) -> TlsOptions:
    """A tls block."""
    tls = TlsOptions()

    def verify_and_map(value: Node) -> None:
        tls.verify_and_map = boolean(value)
        tls.verify = tls.verify or tls.verify_and_map

    def pinned(value: Node) -> None:
        words = [string(item).lower() for item in items(value, "pinned_certs")]
        if bad := [word for word in words if not _PINNED_CERT.fullmatch(word)]:
            raise wrong(value, f"error parsing tls config, 'pinned_certs' key {bad[0]} is not a hex-encoded sha256")
        tls.pinned_certs = frozenset(words)

    def min_version(value: Node) -> None:
        tls.min_version = string(value)
        if tls.min_version not in ("1.2", "1.3"):
            raise wrong(value, f'error parsing tls config: unsupported TLS version "{tls.min_version}"')

    handlers: dict[str, Handler] = {
        "cert_file": into(tls, "cert_file", string),
        "key_file": into(tls, "key_file", string),
        "ca_file": into(tls, "ca_file", string),
        "verify": lambda value: setattr(tls, "verify", tls.verify or boolean(value)),
        "verify_and_map": verify_and_map,
        "timeout": into(tls, "timeout_s", lambda value: seconds(value, "timeout")),
        "min_version": min_version,
        "cipher_suites": into(tls, "cipher_suites", lambda value: strings(value, "cipher_suites")),
        "pinned_certs": pinned,
        "handshake_first": lambda value: _handshake_first(value, tls),
    }
    for name in ("first", "immediate"):
        handlers[name] = handlers["handshake_first"]
    for name in _TLS_REFUSED:
        handlers[name] = refuse(f"tls.{name}")
    for key, value in entries(node).items():
        handler = handlers.get(key.lower())
        if handler is None:
            raise wrong(value, f'error parsing tls config, unknown field "{key}"')
        handler(value)
    _check_pair(node, tls)
    return tls


def _check_pair(node: Node, tls: TlsOptions) -> None:
    """A certificate is of no use without its key."""
    if bool(tls.cert_file) != bool(tls.key_file):
        missing = "key_file" if tls.cert_file else "cert_file"
        raise wrong(node, f"missing '{missing}' in TLS configuration")


def _handshake_first(node: Node, tls: TlsOptions) -> None:
    if isinstance(node.value, bool):
        tls.handshake_first = node.value
        return
    word = string(node).lower()
    if word in ("true", "on", "false", "off"):
        tls.handshake_first = word in ("true", "on")
        return
    tls.handshake_first = True
    if word in ("auto", "auto_fallback"):
        tls.handshake_fallback_s = _HANDSHAKE_FALLBACK_S
        return
    try:
        tls.handshake_fallback_s = parse_duration(word) / 1e9
    except ValueError:
        raise wrong(node, f'field "handshake_first"\'s value "{word}" is invalid') from None


def read_websocket(node: Node, websocket: WebsocketOptions, problems: Problems) -> None:
    """The websocket block."""
    if not isinstance(node.value, dict):
        raise wrong(node, f"Expected websocket to be a map, got {kind(node)}")

    def listen(value: Node) -> None:
        host, websocket.port = address(value)
        websocket.host = host or websocket.host

    def tls(value: Node) -> None:
        websocket.tls = read_tls(value, problems)
        for name in ("verify_and_map", "pinned_certs", "handshake_first"):
            if getattr(websocket.tls, name):
                raise unsupported(value, f"websocket.tls.{name}")

    def headers(value: Node) -> None:
        websocket.headers = {key: string(item) for key, item in entries(value).items()}

    problems.read_map(
        node,
        {
            "listen": listen,
            "host": into(websocket, "host", string),
            "port": into(websocket, "port", integer),
            "no_tls": into(websocket, "no_tls", boolean),
            "tls": tls,
            "same_origin": into(websocket, "same_origin", boolean),
            "allowed_origins": into(websocket, "allowed_origins", lambda value: strings(value, "allowed origins")),
            "compression": into(websocket, "compression", boolean),
            **{name: refuse(f"websocket.{name}") for name in _WEBSOCKET_REFUSED},
            "headers": headers,
            "ping_interval": into(
                websocket, "ping_interval_ns", lambda value: problems.duration_ns(value, "ping_interval")
            ),
        },
        {
            "net": "host",
            "compress": "compression",
            "authentication": "authorization",
            **dict.fromkeys(
                ("allowed_origin", "allow_origins", "allow_origin", "origins", "origin"), "allowed_origins"
            ),
        },
    )


def read_dashboard(node: Node, dashboard: DashboardOptions, problems: Problems) -> None:
    """The dashboard block, or one word that turns the page on or off. nats-server has neither."""
    if isinstance(node.value, bool):
        dashboard.enabled = node.value
        return
    problems.read_map(
        node,
        {
            "enabled": into(dashboard, "enabled", boolean),
            "allow_changes": into(dashboard, "allow_changes", boolean),
            "hosts": into(dashboard, "hosts", lambda value: strings(value, "dashboard hosts")),
        },
        {},
    )
