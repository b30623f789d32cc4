"""Updating streams: our checks and a real nats-server say the same about every row of the table."""

from typing import Any

import pytest
from tests.api.nats_oracle import Oracle, encode
from tests.api.update_rows import UPDATES

from jetspark.api.asset_metadata import with_response_metadata
from jetspark.api.consumer_checks import ConsumerContext, check_consumer
from jetspark.api.consumer_config import ConsumerConfig, ConsumerCreateRequest
from jetspark.api.error_codes import ApiError
from jetspark.api.limits import ServerLimits
from jetspark.api.stream_checks import StreamContext, check_new_stream, check_stream_update
from jetspark.api.stream_config import StreamConfig, parse_stream_config_request

pytestmark = pytest.mark.oracle

LIMITS = ServerLimits(max_memory_bytes=100_000_000, max_storage_bytes=200_000_000)
OTHER = {"name": "OTHER", "subjects": ["other.>"]}


def created(*bodies: dict[str, Any]) -> dict[str, StreamConfig]:
    streams: dict[str, StreamConfig] = {}
    for body in bodies:
        request = parse_stream_config_request(encode(body))
        streams[body["name"]] = check_new_stream(request.config, StreamContext(streams=streams, server_limits=LIMITS))
    return streams


def our_answer(
    streams: dict[str, StreamConfig], body: Any, consumers: dict[str, ConsumerConfig] | None = None
) -> dict[str, Any]:
    reserved = sum(max(stream.max_bytes, 0) for stream in streams.values())
    context = StreamContext(streams=streams, server_limits=LIMITS, reserved_storage_bytes=reserved)
    try:
        request = parse_stream_config_request(encode(body))
        config = check_stream_update(
            request.config, context, subject_name="S", pedantic=request.pedantic, consumers=consumers
        )
    except ApiError as error:
        return {"error": error.to_document()}
    return {"config": with_response_metadata(config, "2.15.1").encode()}


@pytest.mark.parametrize(("before", "body"), [row[1:] for row in UPDATES], ids=[row[0] for row in UPDATES])
def test_updating_a_stream_ends_as_with_nats_server(oracle: Oracle, before: dict[str, Any], body: Any) -> None:
    for stream in (OTHER, before):
        assert "error" not in oracle.api(f"STREAM.CREATE.{stream['name']}", stream)

    theirs = oracle.api("STREAM.UPDATE.S", body)
    oracle.remove_streams()
    ours = our_answer(created(OTHER, before), body)

    assert ours.get("error") == theirs.get("error")
    assert ours.get("config") == theirs.get("config")


def test_a_sealed_stream_stays_sealed_as_with_nats_server(oracle: Oracle) -> None:
    sealed = {"name": "S", "sealed": True}
    oracle.api("STREAM.CREATE.S", {"name": "S"})
    oracle.api("STREAM.UPDATE.S", sealed)
    theirs = oracle.api("STREAM.UPDATE.S", {"name": "S"})
    oracle.remove_streams()

    streams = created({"name": "S"})
    streams["S"] = check_stream_update(StreamConfig(name="S", sealed=True), StreamContext(streams=streams))

    assert our_answer(streams, {"name": "S"})["error"] == theirs["error"]


def test_lowering_consumer_limits_below_a_consumer_is_refused_as_with_nats_server(oracle: Oracle) -> None:
    lowered = {"name": "S", "consumer_limits": {"max_ack_pending": 5}}
    config = {"name": "c", "ack_policy": "explicit", "max_ack_pending": 10}
    oracle.api("STREAM.CREATE.S", {"name": "S"})
    oracle.api("CONSUMER.CREATE.S.c", {"stream_name": "S", "config": config})
    theirs = oracle.api("STREAM.UPDATE.S", lowered)
    oracle.remove_streams()

    streams = created({"name": "S"})
    request = ConsumerCreateRequest(stream_name="S", config=ConsumerConfig.decode(config))
    consumers = {"c": check_consumer(request, ConsumerContext(stream=streams["S"]))}

    assert our_answer(streams, lowered, consumers)["error"] == theirs["error"]
