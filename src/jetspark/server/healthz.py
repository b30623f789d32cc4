"""The /healthz answer: may this server be sent traffic?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jetspark.server.query import Query

if TYPE_CHECKING:
    from jetspark.server.server import Server


def healthz(server: Server, query: Query) -> tuple[int, dict[str, Any]]:
    """The status code and the document."""
    account_name, stream_name, consumer_name = query.text("account"), query.text("stream"), query.text("consumer")
    if stream_name and not account_name:
        return _wrong('"account" must not be empty when checking stream health')
    if consumer_name and not stream_name:
        return _wrong('"stream" must not be empty when checking consumer health')
    if not server.is_ready:
        return _unavailable(503, "server is not ready")
    if server.is_lame_duck or server.broker.shutting_down:
        return _unavailable(503, "server is shutting down")
    if not server.broker.options.jetstream:
        return 200, {"status": "ok"}
    if server.edge.disk_error:
        return _unavailable(503, f"JetStream store is failing: {server.edge.disk_error}")
    if account_name:
        return _account(server, account_name, stream_name, consumer_name)
    return 200, {"status": "ok"}


def _account(server: Server, account_name: str, stream_name: str, consumer_name: str) -> tuple[int, dict[str, Any]]:
    account = server.broker.accounts.get(account_name)
    if account is None:
        return _unavailable(404, f'JetStream account "{account_name}" not found')
    if not stream_name:
        return 200, {"status": "ok"}
    stream = account.jetstream.streams.get(stream_name)
    if stream is None:
        return _unavailable(404, f'JetStream stream "{stream_name}" not found on account "{account_name}"')
    if consumer_name and consumer_name not in stream.consumers:
        return _unavailable(
            404,
            f'JetStream consumer "{consumer_name}" not found for stream "{stream_name}" on account "{account_name}"',
        )
    return 200, {"status": "ok"}


def _wrong(reason: str) -> tuple[int, dict[str, Any]]:
    return 400, {"status": "error", "error": reason}


def _unavailable(code: int, reason: str) -> tuple[int, dict[str, Any]]:
    return code, {"status": "unavailable", "error": reason}
