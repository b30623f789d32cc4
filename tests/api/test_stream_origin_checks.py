"""Mirrors and sources; the wide table is in the tests against nats-server."""

import pytest

from jetspark.api.error_codes import ApiError
from jetspark.api.stream_config import ExternalStream, StreamConfig, StreamSource, SubjectTransform
from jetspark.api.stream_origin_checks import check_origins, source_identity


def nothing(_name: str) -> StreamConfig | None:
    return None


def test_a_mirror_inherits_direct_gets_from_an_origin_that_can_be_seen() -> None:
    origin = StreamConfig(name="O", allow_direct=True)
    config = StreamConfig(name="S", mirror=StreamSource(name="O"))

    assert check_origins(config, {"O": origin}.get, pedantic=False).mirror_direct
    assert not check_origins(config, nothing, pedantic=False).mirror_direct


def test_an_origin_elsewhere_is_not_looked_up_here() -> None:
    elsewhere = StreamSource(name="S", external=ExternalStream(api="$JS.hub.API", deliver="d"))

    check_origins(StreamConfig(name="S", mirror=elsewhere), nothing, pedantic=False)


def test_a_long_chain_back_to_the_start_is_a_cycle() -> None:
    streams = {
        "B": StreamConfig(name="B", sources=(StreamSource(name="C"),)),
        "C": StreamConfig(name="C", mirror=StreamSource(name="A")),
    }

    with pytest.raises(ApiError, match="detected cycle"):
        check_origins(StreamConfig(name="A", sources=(StreamSource(name="B"),)), streams.get, pedantic=False)


def test_sources_differ_by_filter_transform_and_place() -> None:
    sources = [
        StreamSource(name="O"),
        StreamSource(name="O", filter_subject="a"),
        StreamSource(name="O", subject_transforms=(SubjectTransform(src="a", dest="b"),)),
        StreamSource(name="O", external=ExternalStream(api="x", deliver="")),
        StreamSource(name="P"),
    ]

    assert len({source_identity(source) for source in sources}) == len(sources)
    assert source_identity(StreamSource(name="O", filter_subject=">")) == source_identity(sources[0])
