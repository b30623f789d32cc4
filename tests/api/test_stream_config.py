"""The stream configuration as a document."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.api.error_codes import ApiError
from jetspark.api.responses import encode_json
from jetspark.api.stream_config import (
    Compression,
    ConsumerLimits,
    Discard,
    ExternalStream,
    PersistMode,
    Placement,
    RePublish,
    Retention,
    Storage,
    StreamConfig,
    StreamSource,
    SubjectTransform,
    parse_stream_config_request,
)
from jetspark.api.timestamps import parse_time

FULL = StreamConfig(
    name="S",
    description="d",
    subjects=("a", "b.>"),
    retention=Retention.INTEREST,
    max_consumers=1,
    max_msgs=2,
    max_bytes=3,
    max_age=4,
    max_msgs_per_subject=5,
    max_msg_size=6,
    discard=Discard.NEW,
    storage=Storage.MEMORY,
    num_replicas=1,
    no_ack=True,
    duplicate_window=7,
    placement=Placement(cluster="c", tags=("t",)),
    mirror=StreamSource(name="M", opt_start_time=parse_time("2026-01-01T00:00:00+01:00")),
    sources=(
        StreamSource(
            name="O",
            opt_start_seq=3,
            subject_transforms=(SubjectTransform(src="a", dest="b"),),
            external=ExternalStream(api="x", deliver="y"),
        ),
    ),
    compression=Compression.S2,
    first_seq=8,
    subject_transform=SubjectTransform(src="a", dest="b"),
    republish=RePublish(src="a", dest="b", headers_only=True),
    allow_direct=True,
    mirror_direct=True,
    discard_new_per_subject=True,
    sealed=True,
    deny_delete=True,
    deny_purge=True,
    allow_rollup_hdrs=True,
    consumer_limits=ConsumerLimits(inactive_threshold=9, max_ack_pending=10),
    allow_msg_ttl=True,
    subject_delete_marker_ttl=11,
    allow_msg_counter=True,
    allow_atomic=True,
    allow_msg_schedules=True,
    persist_mode=PersistMode.ASYNC,
    allow_batched=True,
    metadata={"k": "v"},
)


def test_only_what_is_set_or_always_present_is_written() -> None:
    assert list(StreamConfig(name="S").encode()) == [
        *("name", "retention", "max_consumers", "max_msgs", "max_bytes", "max_age", "max_msgs_per_subject"),
        *("max_msg_size", "discard", "storage", "num_replicas", "compression", "allow_direct", "mirror_direct"),
        *("sealed", "deny_delete", "deny_purge", "allow_rollup_hdrs", "consumer_limits", "allow_msg_ttl"),
    ]


def test_a_full_configuration_survives_writing_and_reading() -> None:
    assert StreamConfig.decode(FULL.encode(), strict=True) == FULL
    assert parse_stream_config_request(encode_json(FULL.encode())).config == FULL


def test_lists_may_be_given_as_lists() -> None:
    given: Any = ["a"]
    assert StreamConfig(name="S", subjects=given) == StreamConfig(name="S", subjects=("a",))


def test_a_newer_servers_fields_and_words_survive_a_lenient_reading() -> None:
    document = {**FULL.encode(), "new_field": [1], "retention": "forever"}

    config = StreamConfig.decode(document)

    assert config.encode() == document
    with pytest.raises(ApiError, match="new_field"):
        StreamConfig.decode({"name": "S", "new_field": [1]}, strict=True)


def test_a_server_told_not_to_be_strict_forgets_what_it_does_not_know() -> None:
    request = parse_stream_config_request(b'{"name":"S","x":1,"pedantic":true}', strict=False)

    assert request.config == StreamConfig(name="S")
    assert request.pedantic


def test_an_empty_body_is_an_empty_configuration() -> None:
    assert parse_stream_config_request(b"").config == StreamConfig()


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,nameSubjct1.e-', max_size=40).map(str.encode))
def test_any_body_is_read_or_refused_as_bad_json(body: bytes) -> None:
    err_code = 10025
    try:
        parse_stream_config_request(body)
    except ApiError as error:
        err_code = error.err_code

    assert err_code == 10025
