"""STREAM.SNAPSHOT and STREAM.RESTORE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.api.error_codes import ErrorCode, make

if TYPE_CHECKING:
    from jetspark.broker.endpoints.call import ApiCall


def snapshot(call: ApiCall, names: list[str], rest: str) -> None:
    raise make(ErrorCode.STREAM_SNAPSHOT, err="not here yet")


def restore(call: ApiCall, names: list[str], rest: str) -> None:
    raise make(ErrorCode.STREAM_RESTORE, err="not here yet")
