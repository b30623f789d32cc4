"""Limits the checks measure configurations against.

Decided here: their names and defaults. Not known here: where they are configured, and what is in use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jetspark.api.responses import account_limits


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """The `limits` block of the server's jetstream configuration, and its storage. 0 or less means no limit."""

    max_ack_pending: int = 0
    max_request_batch: int = 0
    duplicate_window_ns: int = 0
    default_max_consumers: int = 1000
    max_memory_bytes: int = -1
    max_storage_bytes: int = -1


@dataclass(frozen=True, kw_only=True)
class AccountLimits:
    """What one account may use. -1 means no limit."""

    max_memory: int = -1
    max_storage: int = -1
    max_streams: int = -1
    max_consumers: int = -1
    max_ack_pending: int = -1
    memory_max_stream_bytes: int = -1
    storage_max_stream_bytes: int = -1
    max_bytes_required: bool = False

    def encode(self) -> dict[str, Any]:
        """The `limits` object of the account info."""
        return account_limits(
            max_memory=self.max_memory,
            max_storage=self.max_storage,
            max_streams=self.max_streams,
            max_consumers=self.max_consumers,
            max_ack_pending=self.max_ack_pending,
            memory_max_stream_bytes=self.memory_max_stream_bytes,
            storage_max_stream_bytes=self.storage_max_stream_bytes,
            max_bytes_required=self.max_bytes_required,
        )


def consumers_allowed(stream_max_consumers: int, server: ServerLimits, account: AccountLimits) -> int:
    """How many consumers a stream may have, 0 or less for no limit: the stream's own number, unless the account's is
    lower; with neither, the server's default."""
    allowed = stream_max_consumers
    if allowed <= 0 or 0 < account.max_consumers < allowed:
        allowed = account.max_consumers
    return allowed if allowed > 0 else server.default_max_consumers
