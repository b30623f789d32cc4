"""The /healthz answer: may this server be sent traffic?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from jetspark.server.query import Query

if TYPE_CHECKING:
    from jetspark.server.server import Server

# What a check may be narrowed to: whether the server works, not whether it has all of its streams.
_SCOPES: Final = ("js-enabled", "js-enabled-only", "js-server-only", "js-meta-only")

# A read that failed makes the server unwell for this long.
_READ_FAILURE_NS: Final = 60_000_000_000


@dataclass(frozen=True, slots=True)
class _Trouble:
    """Why not."""

    status: int
    kind: str
    reason: str
    place: dict[str, str] = field(default_factory=dict)


def healthz(server: Server, query: Query) -> tuple[int, dict[str, Any]]:
    """The status code and the document."""
    for scope in _SCOPES:
        query.flag(scope)
    shows_details = query.flag("details")
    troubles = _troubles(server, query)
    if not troubles:
        return 200, {"status": "ok"}
    trouble = troubles[0]
    if shows_details:
        errors = [{"type": each.kind, **each.place, "error": each.reason} for each in troubles]
        return trouble.status, {"status": "error", "errors": errors}
    status = "error" if trouble.status == 400 else "unavailable"
    return trouble.status, {"status": status, "error": trouble.reason}


def _troubles(server: Server, query: Query) -> list[_Trouble]:
    account, stream, consumer = query.text("account"), query.text("stream"), query.text("consumer")
    trouble = _trouble(server, account, stream, consumer)
    if trouble is not None:
        return [trouble]
    if account or any(query.flag(scope) for scope in _SCOPES):
        return []
    return _offline(server) + _unreadable(server)


def _unreadable(server: Server) -> list[_Trouble]:
    """Streams that the disk did not give a message of a moment ago."""
    found: list[_Trouble] = []
    since_ns = server.clock.now_ns() - _READ_FAILURE_NS
    for name, account in server.broker.accounts.items():
        for stream in account.jetstream.streams.values():
            if stream.read_failed_ns > since_ns:
                place = {"account": name, "stream": stream.name}
                reason = f"JetStream stream '{name} > {stream.name}' cannot be read: {stream.read_failure}"
                found.append(_Trouble(503, "STREAM", reason, place))
    return found


def _offline(server: Server) -> list[_Trouble]:
    """Streams and consumers that the disk has and the server does not run."""
    found: list[_Trouble] = []
    for name, account in server.broker.accounts.items():
        registry = account.jetstream.offline
        if registry.unlisted:
            reason = f"JetStream account '{name}' could not be recovered: {registry.unlisted}"
            found.append(_Trouble(503, "ACCOUNT", reason, {"account": name}))
        for stream in registry.streams():
            place = {"account": name, "stream": stream.name}
            reason = f"JetStream stream '{name} > {stream.name}' could not be recovered: {stream.reason}"
            found.append(_Trouble(503, "STREAM", reason, place))
        for consumer in registry.all_consumers():
            place = {"account": name, "stream": consumer.stream_name, "consumer": consumer.name}
            path = f"{name} > {consumer.stream_name} > {consumer.name}"
            reason = f"JetStream consumer '{path}' could not be recovered: {consumer.reason}"
            found.append(_Trouble(503, "CONSUMER", reason, place))
    return found


def _trouble(server: Server, account_name: str, stream_name: str, consumer_name: str) -> _Trouble | None:
    if stream_name and not account_name:
        return _Trouble(400, "BAD_REQUEST", '"account" must not be empty when checking stream health')
    if consumer_name and not stream_name:
        return _Trouble(400, "BAD_REQUEST", '"stream" must not be empty when checking consumer health')
    if not server.is_ready:
        return _Trouble(503, "CONNECTION", "server is not ready")
    if server.is_lame_duck or server.broker.shutting_down:
        return _Trouble(503, "CONNECTION", "server is shutting down")
    if not server.broker.options.jetstream:
        return None
    if server.edge.disk_error:
        return _Trouble(503, "JETSTREAM", f"JetStream store is failing: {server.edge.disk_error}")
    return _missing(server, account_name, stream_name, consumer_name) if account_name else None


def _missing(server: Server, account_name: str, stream_name: str, consumer_name: str) -> _Trouble | None:
    place = {"account": account_name}
    account = server.broker.accounts.get(account_name)
    if account is None:
        return _Trouble(404, "ACCOUNT", f'JetStream account "{account_name}" not found', place)
    if not stream_name:
        return None
    place["stream"] = stream_name
    stream = account.jetstream.streams.get(stream_name)
    if stream is None and account.jetstream.offline_stream(stream_name) is not None:
        return next(each for each in _offline(server) if each.place == place)
    if stream is None:
        reason = f'JetStream stream "{stream_name}" not found on account "{account_name}"'
        return _Trouble(404, "STREAM", reason, place)
    if consumer_name and consumer_name not in stream.consumers:
        place["consumer"] = consumer_name
        if account.jetstream.offline_consumer(stream_name, consumer_name) is not None:
            return next(each for each in _offline(server) if each.place == place)
        reason = (
            f'JetStream consumer "{consumer_name}" not found for stream "{stream_name}" on account "{account_name}"'
        )
        return _Trouble(404, "CONSUMER", reason, place)
    return None
