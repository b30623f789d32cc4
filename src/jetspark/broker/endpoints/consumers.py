"""Consumers through the API: the four forms of create, list, look at, delete.

Which configuration is allowed, and which change, is the `api` room's decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jetspark.api import responses
from jetspark.api.consumer_checks import check_consumer, name_consumer
from jetspark.api.consumer_config import ConsumerCreateRequest, parse_consumer_create_request
from jetspark.api.requests import parse_consumers_request, require_empty_body
from jetspark.broker.endpoints.contexts import consumer_context
from jetspark.broker.info import consumer_fields

if TYPE_CHECKING:
    from jetspark.broker.consumer.consumer import Consumer
    from jetspark.broker.endpoints.call import ApiCall
    from jetspark.broker.stream import Stream

NAME_SIZE: Final = 8


def create(call: ApiCall, names: list[str], rest: str) -> None:
    """CONSUMER.CREATE.<stream>[.<consumer>[.<filter>]]"""
    request = parse_consumer_create_request(call.body, strict=call.is_strict())
    consumer_name = names[1] if len(names) > 1 else ""
    request = name_consumer(request, stream=names[0], consumer=consumer_name, filter_subject=rest)
    put(call, names[0], request)


def create_durable(call: ApiCall, names: list[str], rest: str) -> None:
    """CONSUMER.DURABLE.CREATE.<stream>.<consumer>"""
    request = parse_consumer_create_request(call.body, strict=call.is_strict())
    request = name_consumer(request, stream=names[0], consumer=names[1], legacy_durable=True)
    put(call, names[0], request)


def put(call: ApiCall, stream_name: str, request: ConsumerCreateRequest) -> None:
    """Create or change the consumer, as the request allows."""
    jetstream = call.jetstream
    stream = jetstream.stream(stream_name)
    jetstream.verify_consumer_free(stream, request.config.durable_name or request.config.name)
    config = check_consumer(request, consumer_context(jetstream, stream))
    name = config.durable_name or config.name or free_name(call, stream)
    consumer = stream.consumers.get(name)
    if consumer is None:
        consumer = jetstream.create_consumer(stream, name, config)
    else:
        jetstream.update_consumer(consumer, config)
    document = responses.consumer_created(consumer_fields(consumer))
    # Messages may have gone out already; what they say must hold as the answer does.
    if consumer.log.enabled:
        call.answer_durable(document)
    else:
        call.answer(document)


def free_name(call: ApiCall, stream: Stream) -> str:
    """A name nobody has, for a consumer whose client gave none."""
    name = call.broker.nuid.short(NAME_SIZE)
    while name in stream.consumers or call.jetstream.offline_consumer(stream.name, name) is not None:
        name = call.broker.nuid.short(NAME_SIZE)
    return name


def listed(stream: Stream) -> list[str]:
    """Names of the consumers clients may see: those a mirror or source of this server reads through are its own."""
    return sorted([name for name, consumer in stream.consumers.items() if not consumer.config.direct])


def names(call: ApiCall, names: list[str], rest: str) -> None:
    """CONSUMER.NAMES.<stream>"""
    request = parse_consumers_request(call.body, strict=call.is_strict())
    stream = call.jetstream.stream(names[0])
    found = listed(stream) + [offline.name for offline in call.jetstream.offline.consumers(stream.name)]
    found.sort()
    call.answer(responses.consumer_names(found, request.offset))


def infos(call: ApiCall, names: list[str], rest: str) -> None:
    """CONSUMER.LIST.<stream>"""
    request = parse_consumers_request(call.body, strict=call.is_strict())
    stream = call.jetstream.stream(names[0])
    reasons = {gone.name: gone.reason for gone in call.jetstream.offline.consumers(stream.name)}
    found = sorted([*listed(stream), *reasons])
    start, end = responses.page(len(found), request.offset, responses.LIST_PAGE_LIMIT)
    shown = found[start:end]
    documents = [consumer_fields(stream.consumers[name], is_listed=True) for name in shown if name not in reasons]
    offline = {name: reasons[name] for name in shown if name in reasons}
    call.answer(responses.consumer_list(documents, len(found), request.offset, offline))


def info(call: ApiCall, names: list[str], rest: str) -> None:
    """CONSUMER.INFO.<stream>.<consumer>"""
    require_empty_body(call.body)
    consumer = call.jetstream.consumer(names[0], names[1])
    call.answer(responses.consumer_info(consumer_fields(consumer)))


def delete(call: ApiCall, names: list[str], rest: str) -> None:
    """CONSUMER.DELETE.<stream>.<consumer>"""
    require_empty_body(call.body)
    offline = call.jetstream.offline_consumer(names[0], names[1])
    if offline is not None and names[1] not in call.jetstream.stream(names[0]).consumers:
        call.jetstream.delete_offline(offline)
        call.answer_durable(responses.success(responses.CONSUMER_DELETE))
        return
    consumer: Consumer = call.jetstream.consumer(names[0], names[1])
    call.jetstream.delete_consumer(consumer)
    document = responses.success(responses.CONSUMER_DELETE)
    if consumer.log.enabled:
        call.answer_durable(document)
    else:
        call.answer(document)
