"""`$JS.API.INFO`: what an account uses and may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jetspark.api import responses
from jetspark.broker.endpoints.contexts import account_limits

if TYPE_CHECKING:
    from jetspark.broker.endpoints.call import ApiCall


def info(call: ApiCall, names: list[str], rest: str) -> None:
    """INFO"""
    jetstream = call.jetstream
    document = responses.account_info(
        memory=jetstream.used(True),
        storage=jetstream.used(False),
        reserved_memory=jetstream.reserved(True),
        reserved_storage=jetstream.reserved(False),
        streams=len(jetstream.streams),
        consumers=sum([len(stream.consumers) for stream in jetstream.streams.values()]),
        limits=account_limits(jetstream).encode(),
        api_total=jetstream.api_total,
        api_errors=jetstream.api_errors,
        domain=call.broker.options.domain,
    )
    call.answer(document)
