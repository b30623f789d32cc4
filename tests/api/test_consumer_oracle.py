"""Consumers: our checks and a real nats-server say the same about every row of the table."""

from typing import Any

import pytest
from tests.api.consumer_rows import ALL, STREAMS, Request
from tests.api.nats_oracle import Oracle, encode

from jetspark.api.api_subjects import CONSUMER_DURABLE_CREATE, split_request
from jetspark.api.asset_metadata import with_response_metadata
from jetspark.api.consumer_checks import ConsumerContext, check_consumer, name_consumer
from jetspark.api.consumer_config import ConsumerConfig, parse_consumer_create_request
from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.stream_checks import StreamContext, check_new_stream
from jetspark.api.stream_config import StreamConfig

pytestmark = pytest.mark.oracle

CONFIGS: dict[str, StreamConfig] = {
    str(stream["name"]): check_new_stream(StreamConfig.decode(stream), StreamContext()) for stream in STREAMS
}


def checked(consumers: dict[str, dict[str, ConsumerConfig]], subject: str, body: Any) -> tuple[str, ConsumerConfig]:
    request = parse_consumer_create_request(encode(body))
    parts = split_request(f"$JS.API.CONSUMER.{subject}")
    assert parts is not None
    verb, names, rest = parts
    request = name_consumer(
        request,
        stream=names[0],
        consumer=names[1] if len(names) > 1 else "",
        filter_subject=rest,
        legacy_durable=verb == CONSUMER_DURABLE_CREATE,
    )
    if names[0] not in CONFIGS:
        raise make(ErrorCode.STREAM_NOT_FOUND)
    return names[0], check_consumer(
        request, ConsumerContext(stream=CONFIGS[names[0]], consumers=consumers.get(names[0], {}))
    )


def our_answer(requests: list[Request]) -> dict[str, Any]:
    consumers: dict[str, dict[str, ConsumerConfig]] = {}
    for subject, body in requests:
        try:
            stream, config = checked(consumers, subject, body)
        except ApiError as error:
            return {"error": error.to_document()}
        consumers.setdefault(stream, {})[config.durable_name or config.name] = config
    return {"config": with_response_metadata(config, "2.15.1").encode()}


@pytest.fixture(autouse=True, scope="module")
def _streams(oracle: Oracle) -> Any:
    for stream in STREAMS:
        assert "error" not in oracle.api(f"STREAM.CREATE.{stream['name']}", stream)
    yield
    oracle.remove_streams()


@pytest.mark.parametrize(("subject", "body", "before"), [row[1:] for row in ALL], ids=[row[0] for row in ALL])
def test_creating_a_consumer_ends_as_with_nats_server(
    oracle: Oracle, subject: str, body: Any, before: list[Request]
) -> None:
    for earlier_subject, earlier_body in before:
        assert "error" not in oracle.api(f"CONSUMER.{earlier_subject}", earlier_body)

    theirs = oracle.api(f"CONSUMER.{subject}", body)
    for stream in STREAMS:
        for name in oracle.api(f"CONSUMER.NAMES.{stream['name']}")["consumers"]:
            oracle.api(f"CONSUMER.DELETE.{stream['name']}.{name}")
    ours = our_answer([*before, (subject, body)])

    assert ours.get("error") == theirs.get("error")
    assert ours.get("config") == theirs.get("config")
    if "config" in ours:
        assert list(ours["config"]) == list(theirs["config"])
