"""The /jsz document: JetStream's settings, totals, and on request every stream and consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetspark.api.timestamps import format_time
from jetspark.broker.account import Account
from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.info import consumer_fields, stream_fields, stream_state
from jetspark.broker.options import API_LEVEL
from jetspark.broker.stream import Stream
from jetspark.server.query import BadQuery, Query

if TYPE_CHECKING:
    from jetspark.server.server import Server

_NO_LIMIT = (1 << 64) - 1


def jetstream_config(server: Server) -> dict[str, Any]:
    options, settings = server.options.jetstream, server.broker.options
    document: dict[str, Any] = {
        "max_memory": settings.max_memory,
        "max_storage": settings.max_storage,
        "store_dir": server.store_path,
        "sync_interval": options.sync_interval_ns,
    }
    if options.sync_always:
        document["sync_always"] = True
    if options.domain:
        document["domain"] = options.domain
    if options.strict:
        document["strict"] = True
    return document


def jetstream_limits(server: Server) -> dict[str, Any]:
    options = server.options.jetstream
    limits = {
        "max_ack_pending": options.max_ack_pending,
        "max_request_batch": options.max_request_batch,
        "duplicate_window": options.duplicate_window_ns,
        "default_max_consumers": options.default_max_consumers,
    }
    return {name: value for name, value in limits.items() if value > 0}


def _enabled(server: Server) -> list[Account]:
    return [account for account in server.broker.accounts.values() if account.jetstream.enabled]


def jetstream_stats(server: Server) -> dict[str, Any]:
    accounts = _enabled(server)
    return {
        "memory": sum(account.jetstream.used(True) for account in accounts),
        "storage": sum(account.jetstream.used(False) for account in accounts),
        "reserved_memory": sum(account.jetstream.reserved(True) for account in accounts),
        "reserved_storage": sum(account.jetstream.reserved(False) for account in accounts),
        "accounts": len(accounts),
        "ha_assets": 0,
        "api": {"level": API_LEVEL, "total": server.broker.api_total, "errors": server.broker.api_errors},
    }


def jsz(server: Server, query: Query) -> dict[str, Any]:
    shows_consumers = query.flag("consumers")
    shows_streams = query.flag("streams") or shows_consumers
    shows_accounts = query.flag("accounts") or shows_streams
    shows_config = query.flag("config")
    wanted = query.text("acc")
    offset, limit = query.page()
    stamp = {"server_id": server.server_id, "now": format_time(server.clock.now_ns())}
    if not server.broker.options.jetstream:
        config = {"max_memory": 0, "max_storage": 0}
        return {**_nothing(), **stamp, "disabled": True, "config": config, **_sums([]), "total": 0}
    accounts = _enabled(server)
    streams = [stream for account in accounts for stream in account.jetstream.streams.values()]
    document = {
        **jetstream_stats(server),
        **stamp,
        "config": jetstream_config(server),
        "limits": jetstream_limits(server),
        **_sums(streams),
    }
    # An account by name is shown on its own; one that is not there is as good as none named.
    page = [account for account in accounts if account.name == wanted]
    if not page and shows_accounts:
        page = accounts[offset : offset + limit]
    if page:
        document["account_details"] = [
            _account_detail(server, account, shows_streams, shows_consumers, shows_config) for account in page
        ]
    document["total"] = len(accounts)
    return document


def account_jsz(server: Server, query: Query) -> dict[str, Any]:
    """One account alone."""
    name = query.text("acc")
    account = server.broker.accounts.get(name)
    if account is None or not account.jetstream.enabled:
        raise BadQuery(f'account "{name}" not found')
    shows_consumers = query.flag("consumers")
    shows_streams = query.flag("streams") or shows_consumers
    return _account_detail(server, account, shows_streams, shows_consumers, query.flag("config"))


def _nothing() -> dict[str, Any]:
    counts = dict.fromkeys(("memory", "storage", "reserved_memory", "reserved_storage", "accounts", "ha_assets"), 0)
    return {**counts, "api": {"level": 0, "total": 0, "errors": 0}}


def _sums(streams: list[Stream]) -> dict[str, int]:
    return {
        "streams": len(streams),
        "consumers": sum(len(stream.consumers) for stream in streams),
        "messages": sum(stream.store.message_count for stream in streams),
        "bytes": sum(stream.store.byte_count for stream in streams),
    }


def _account_detail(
    server: Server, account: Account, shows_streams: bool, shows_consumers: bool, shows_config: bool
) -> dict[str, Any]:
    jetstream = account.jetstream
    detail: dict[str, Any] = {
        "name": account.name,
        "id": account.name,
        "memory": jetstream.used(True),
        "storage": jetstream.used(False),
        # An account without limits reports them as the largest number there is.
        "reserved_memory": _NO_LIMIT if jetstream.max_memory < 0 else jetstream.max_memory,
        "reserved_storage": _NO_LIMIT if jetstream.max_storage < 0 else jetstream.max_storage,
        "accounts": 0,
        "ha_assets": 0,
        "api": {"level": 0, "total": server.broker.api_total, "errors": server.broker.api_errors},
    }
    if shows_streams:
        detail["stream_detail"] = [
            _stream_detail(server, stream, shows_consumers, shows_config) for stream in jetstream.streams.values()
        ]
    return detail


def _stream_detail(server: Server, stream: Stream, shows_consumers: bool, shows_config: bool) -> dict[str, Any]:
    report = stream_fields(stream, stream_state(stream))
    detail: dict[str, Any] = {
        "name": stream.name,
        "created": report["created"],
        "cluster": {"leader": server.name},
    }
    if shows_config:
        detail["config"] = stream.config.encode()
    detail["state"] = report["state"]
    for name in ("mirror", "sources"):
        if name in report:
            detail[name] = report[name]
    if shows_consumers and stream.consumers:
        detail["consumer_detail"] = [_consumer_detail(consumer, shows_config) for consumer in stream.consumers.values()]
    return detail


def _consumer_detail(consumer: Consumer, shows_config: bool) -> dict[str, Any]:
    detail = consumer_fields(consumer)
    if shows_config:
        detail["config"] = consumer.config.encode()
    else:
        del detail["config"]
    return detail
