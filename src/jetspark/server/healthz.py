"""The /healthz answer: may this server be sent traffic?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from jetspark.server.query import Query

if TYPE_CHECKING:
    from jetspark.server.server import Server

# What a check may be narrowed to. All of it is checked in any case; a value must be a truth value.
_SCOPES: Final = ("js-enabled", "js-enabled-only", "js-server-only", "js-meta-only")


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
    trouble = _trouble(server, query.text("account"), query.text("stream"), query.text("consumer"))
    if trouble is None:
        return 200, {"status": "ok"}
    if shows_details:
        errors = [{"type": trouble.kind, **trouble.place, "error": trouble.reason}]
        return trouble.status, {"status": "error", "errors": errors}
    status = "error" if trouble.status == 400 else "unavailable"
    return trouble.status, {"status": status, "error": trouble.reason}


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
    if stream is None:
        reason = f'JetStream stream "{stream_name}" not found on account "{account_name}"'
        return _Trouble(404, "STREAM", reason, place)
    if consumer_name and consumer_name not in stream.consumers:
        place["consumer"] = consumer_name
        reason = (
            f'JetStream consumer "{consumer_name}" not found for stream "{stream_name}" on account "{account_name}"'
        )
        return _Trouble(404, "CONSUMER", reason, place)
    return None
