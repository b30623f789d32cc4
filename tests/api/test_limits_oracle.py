"""Limits of the account and the server: our checks and a nats-server that has such limits say the same."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.nats_oracle import Oracle, encode, find_nats_server

from jetspark.api.consumer_checks import ConsumerContext, check_consumer
from jetspark.api.consumer_config import ConsumerConfig, ConsumerCreateRequest
from jetspark.api.error_codes import ApiError
from jetspark.api.limits import AccountLimits, ServerLimits
from jetspark.api.stream_checks import StreamContext, check_new_stream, check_stream_update
from jetspark.api.stream_config import StreamConfig, parse_stream_config_request
from jetspark.api.timestamps import SECOND

pytestmark = pytest.mark.oracle

SERVER_TEXT = ", limits { max_ack_pending: 100, max_request_batch: 20, duplicate_window: 30s }"
ACCOUNT_TEXT = """
accounts { A {
  jetstream: { max_streams: 2, max_consumers: 3, max_ack_pending: 50, max_mem: 1000000, max_file: 2000000,
    disk_max_stream_bytes: 1500000, mem_max_stream_bytes: 500000, max_bytes_required: true }
  users: [{ user: a, password: a }] } }
no_auth_user: a
"""
SERVER = ServerLimits(
    max_ack_pending=100,
    max_request_batch=20,
    duplicate_window_ns=30 * SECOND,
    max_memory_bytes=100_000_000,
    max_storage_bytes=200_000_000,
)
ACCOUNT = AccountLimits(
    max_streams=2,
    max_consumers=3,
    max_ack_pending=50,
    max_memory=1_000_000,
    max_storage=2_000_000,
    storage_max_stream_bytes=1_500_000,
    memory_max_stream_bytes=500_000,
    max_bytes_required=True,
)
X = {"name": "X", "max_bytes": 1_000_000}
Y = {"name": "Y", "max_bytes": 400_000, "storage": "memory"}


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    binary = find_nats_server()
    if binary is None:
        pytest.skip("no nats-server binary: install the test dependencies to compare with it")
    server = Oracle(binary, tmp_path_factory.mktemp("limited"), limits=SERVER_TEXT, more=ACCOUNT_TEXT)
    yield server
    server.close()


def context_of(streams: dict[str, StreamConfig]) -> StreamContext:
    return StreamContext(
        streams=streams,
        server_limits=SERVER,
        account_limits=ACCOUNT,
        reserved_memory_bytes=sum(s.max_bytes for s in streams.values() if s.storage == "memory"),
        reserved_storage_bytes=sum(s.max_bytes for s in streams.values() if s.storage == "file"),
    )


def our_streams(bodies: list[dict[str, Any]], *, update: bool = False) -> dict[str, Any]:
    streams: dict[str, StreamConfig] = {}
    for position, body in enumerate(bodies):
        request = parse_stream_config_request(encode(body))
        check = check_stream_update if update and position == len(bodies) - 1 else check_new_stream
        try:
            config = check(request.config, context_of(streams), pedantic=request.pedantic)
        except ApiError as error:
            return {"error": error.to_document()}
        streams[config.name] = config
    return {"config": config.encode()}


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    if "error" in ours or "error" in theirs:
        return ours.get("error") == theirs.get("error")
    for config in (ours["config"], theirs["config"]):
        config.pop("metadata")
    return bool(ours["config"] == theirs["config"])


@pytest.mark.parametrize(
    ("body", "existing"),
    [
        ({"name": "X"}, []),
        (X, []),
        (X, [X]),
        ({"name": "X", "max_bytes": 1_600_000}, []),
        ({"name": "X", "max_bytes": 600_000, "storage": "memory"}, []),
        ({"name": "X", "max_bytes": 3_000_000, "storage": "file"}, []),
        ({"name": "X", "max_bytes": 3_000_000, "storage": "memory"}, []),
        ({"name": "Z", "max_bytes": 1_100_000, "storage": "file"}, [X]),
        ({"name": "Z", "max_bytes": 1_000_000, "storage": "file"}, [X]),
        ({"name": "Z", "max_bytes": 1000}, [X, Y]),
        ({"name": "X", "max_bytes": 1000, "max_consumers": 7, "storage": "file"}, []),
        ({"name": "X", "max_bytes": 1000, "max_consumers": 2}, []),
        ({"name": "X", "max_bytes": 1000, "duplicate_window": 60 * SECOND}, []),
        ({"name": "X", "max_bytes": 1000, "duplicate_window": 20 * SECOND}, []),
        ({"name": "X", "max_bytes": 1000, "pedantic": True}, []),
        ({"name": "X", "max_bytes": 1000, "max_age": 10 * SECOND}, []),
    ],
)
def test_a_stream_is_held_to_the_limits_as_by_nats_server(
    limited: Oracle, body: dict[str, Any], existing: list[dict[str, Any]]
) -> None:
    for other in existing:
        assert "error" not in limited.api(f"STREAM.CREATE.{other['name']}", other)
    theirs = limited.api(f"STREAM.CREATE.{body['name']}", body)
    limited.remove_streams()

    assert same(our_streams([*existing, body]), theirs)


@pytest.mark.parametrize(
    "body",
    [
        {"name": "X"},
        {"name": "X", "max_bytes": 1_500_000},
        {"name": "X", "max_bytes": 1_600_000},
        {"name": "X", "max_bytes": 10},
        {"name": "X", "max_bytes": 1000, "max_consumers": 7},
    ],
)
def test_an_update_is_held_to_the_limits_as_by_nats_server(limited: Oracle, body: dict[str, Any]) -> None:
    for stream in (X, Y):
        assert "error" not in limited.api(f"STREAM.CREATE.{stream['name']}", stream)
    theirs = limited.api("STREAM.UPDATE.X", body)
    limited.remove_streams()

    assert same(our_streams([X, Y, body], update=True), theirs)


@pytest.mark.parametrize("pedantic", [False, True])
@pytest.mark.parametrize(
    "config",
    [
        {"ack_policy": "explicit"},
        {"ack_policy": "explicit", "max_ack_pending": 60},
        {"ack_policy": "explicit", "max_ack_pending": 160},
        {"ack_policy": "explicit", "max_ack_pending": -1},
        {"ack_policy": "explicit", "max_batch": 21},
        {"ack_policy": "explicit", "max_batch": 20},
        {"ack_policy": "none"},
        {"deliver_subject": "d", "ack_policy": "explicit"},
    ],
)
def test_a_consumer_is_held_to_the_limits_as_by_nats_server(
    limited: Oracle, config: dict[str, Any], pedantic: bool
) -> None:
    limited.api("STREAM.CREATE.X", X)
    body = {"stream_name": "X", "config": {"durable_name": "c", **config}, "pedantic": pedantic}
    theirs = limited.api("CONSUMER.CREATE.X.c", body)
    limited.remove_streams()

    request = ConsumerCreateRequest(
        stream_name="X",
        config=ConsumerConfig.decode({"name": "c", "durable_name": "c", **config}),
        pedantic=pedantic,
    )
    stream = check_new_stream(StreamConfig.decode(X), context_of({}))
    context = ConsumerContext(stream=stream, server_limits=SERVER, account_limits=ACCOUNT)
    try:
        ours: dict[str, Any] = {"config": check_consumer(request, context).encode()}
    except ApiError as error:
        ours = {"error": error.to_document()}

    assert same(ours, theirs)


def test_the_accounts_number_of_consumers_is_counted_per_stream_as_by_nats_server(limited: Oracle) -> None:
    limited.api("STREAM.CREATE.X", X)
    for name in ("a", "b", "c"):
        limited.api(f"CONSUMER.CREATE.X.{name}", {"stream_name": "X", "config": {"durable_name": name}})
    theirs = limited.api("CONSUMER.CREATE.X.d", {"stream_name": "X", "config": {"durable_name": "d"}})
    limited.remove_streams()

    context = ConsumerContext(
        stream=StreamConfig(name="X"),
        consumers={name: ConsumerConfig(durable_name=name) for name in ("a", "b", "c")},
        server_limits=SERVER,
        account_limits=ACCOUNT,
    )
    request = ConsumerCreateRequest(stream_name="X", config=ConsumerConfig(durable_name="d", name="d"))
    with pytest.raises(ApiError) as refused:
        check_consumer(request, context)

    assert refused.value.to_document() == theirs["error"]


def test_the_accounts_limits_are_shown_as_by_nats_server(limited: Oracle) -> None:
    assert ACCOUNT.encode() == limited.api("INFO")["limits"]
