"""Requests that only a cluster can fulfil. This server is one machine, and says so in nats-server's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.api.error_codes import ErrorCode, make

if TYPE_CHECKING:
    from jetspark.broker.endpoints.call import ApiCall


def required(call: ApiCall, names: list[str], rest: str) -> None:
    """Leaders and peers."""
    raise make(ErrorCode.CLUSTER_REQUIRED)
