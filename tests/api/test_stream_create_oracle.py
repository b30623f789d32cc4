"""Creating streams: our checks and a real nats-server say the same about every row of the table."""

from typing import Any

import pytest
from tests.api.nats_oracle import Oracle, encode
from tests.api.stream_rows import CREATES

from jetspark.api.asset_metadata import with_response_metadata
from jetspark.api.error_codes import ApiError
from jetspark.api.limits import ServerLimits
from jetspark.api.stream_checks import StreamContext, check_new_stream
from jetspark.api.stream_config import StreamConfig, parse_stream_config_request

pytestmark = pytest.mark.oracle

LIMITS = ServerLimits(max_memory_bytes=100_000_000, max_storage_bytes=200_000_000)


def our_answer(bodies: list[Any]) -> dict[str, Any]:
    """Create the streams one after the other; the last one's outcome counts."""
    streams: dict[str, StreamConfig] = {}
    for position, body in enumerate(bodies):
        try:
            request = parse_stream_config_request(encode(body))
            subject_name = body["name"] if position < len(bodies) - 1 else "S"
            context = StreamContext(streams=streams, server_limits=LIMITS)
            config = check_new_stream(request.config, context, subject_name=subject_name, pedantic=request.pedantic)
        except ApiError as error:
            return {"error": error.to_document()}
        streams[config.name] = config
    return {"config": with_response_metadata(config, "2.15.1").encode()}


@pytest.mark.parametrize(("body", "existing"), [row[1:] for row in CREATES], ids=[row[0] for row in CREATES])
def test_creating_a_stream_ends_as_with_nats_server(oracle: Oracle, body: Any, existing: list[dict[str, Any]]) -> None:
    for other in existing:
        assert "error" not in oracle.api(f"STREAM.CREATE.{other['name']}", other)

    theirs = oracle.api("STREAM.CREATE.S", body)
    oracle.remove_streams()
    ours = our_answer([*existing, body])

    assert ours.get("error") == theirs.get("error")
    assert ours.get("config") == theirs.get("config")
    if "config" in ours:
        assert list(ours["config"]) == list(theirs["config"])
