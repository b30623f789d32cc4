"""Bad JSON: the sentence a client gets is the one nats-server would have sent."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.api.json_rows import CONSUMER_BODIES, STREAM_BODIES
from tests.api.nats_oracle import Oracle

from jetspark.api.consumer_config import parse_consumer_create_request
from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.stream_checks import StreamContext, check_new_stream
from jetspark.api.stream_config import StreamConfig, parse_stream_config_request

pytestmark = pytest.mark.oracle


def our_answer(read: Callable[[], StreamConfig | None]) -> dict[str, Any]:
    try:
        config = read()
    except ApiError as error:
        return {"error": error.to_document()}
    return {"config": config.encode() if config is not None else {}}


@pytest.mark.parametrize("body", STREAM_BODIES)
def test_a_bad_stream_body_is_refused_in_nats_servers_words(oracle: Oracle, body: str) -> None:
    theirs = oracle.api("STREAM.CREATE.S", body)
    oracle.remove_streams()

    def read() -> StreamConfig:
        request = parse_stream_config_request(body.encode())
        return check_new_stream(request.config, StreamContext(), subject_name="S")

    ours = our_answer(read)

    assert ours.get("error") == theirs.get("error")
    assert ours.get("config", {}).get("mirror") == theirs.get("config", {}).get("mirror")


@pytest.mark.parametrize("body", CONSUMER_BODIES)
def test_a_bad_consumer_body_is_refused_in_nats_servers_words(oracle: Oracle, body: str) -> None:
    # The stream does not exist: the answer to a body that can be read.
    theirs = oracle.api("CONSUMER.CREATE.S.c", body)["error"]

    def read() -> StreamConfig:
        parse_consumer_create_request(body.encode())
        raise make(ErrorCode.STREAM_NOT_FOUND)

    assert our_answer(read)["error"] == theirs
