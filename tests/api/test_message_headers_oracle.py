"""Publish headers that this room reads, `Nats-TTL` and `Nats-Schedule*`, put to a real nats-server and compared."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.api.nats_oracle import Oracle

from jetspark.api.error_codes import ApiError
from jetspark.api.message_ttl import parse_message_ttl
from jetspark.api.schedule import ScheduleHeaders, check_schedule
from jetspark.api.stream_checks import StreamContext, check_new_stream
from jetspark.api.stream_config import StreamConfig
from jetspark.api.timestamps import parse_time

pytestmark = pytest.mark.oracle

NOW_NS = parse_time("2026-11-15T12:00:00Z").unix_ns
STREAMS: dict[str, dict[str, Any]] = {
    "full": {"name": "full", "subjects": ["full.>"], "allow_msg_ttl": True, "allow_msg_schedules": True},
    "nottl": {"name": "nottl", "subjects": ["nottl.>"], "allow_msg_schedules": True},
    "plain": {"name": "plain", "subjects": ["plain.>"]},
}
CONFIGS = {name: check_new_stream(StreamConfig.decode(body), StreamContext()) for name, body in STREAMS.items()}

TTLS = [
    *("0", "00", "5", "+5", "-5", "1.5s", "0.5s", "999ms", "1s", "NEVER", "never", "1h", "1h30m", "5 ", "x", "1d"),
    *("99999999999", "-1s", "1e3", "1000000us", "0s", "1.9s", "1s1", ".s", "1.s", "1s-1s", "1µs", "3600s", "nevers"),
]
PATTERNS = [
    *("@at 2040-01-01T00:00:00Z", "@at 2040-01-01T00:00:00+02:00", "@at 2040-01-01", "@at x"),
    *("@at  2040-01-01T00:00:00Z", "@at", "@AT 2040-01-01T00:00:00Z", "@every 1s", "@every 999ms", "@every x"),
    *("@every 1", "@every -5s", "@every", "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight"),
    *("@hourly", "@minutely", "0 0 0 * * *", "0 0 * * *", "* * * * * * *", "60 * * * * *", "0 0 24 * * *"),
    *("0 0 0 0 * *", "0 0 0 32 * *", "0 0 0 * 13 *", "0 0 0 * * 7", "0 0 0 * * sun", "0 0 0 * jan MON-FRI"),
    *("*/5 * * * * *", "*/0 * * * * *", "5/10 * * * * *", "5-1 * * * * *", "1-5-7 * * * * *", "1/2/3 * * * * *"),
    *("0 0 0 30 2 *", "0 0 0 29 2 *", "0 0 0 31 4,6 *", "1,,2 * * * * *", "? ? ? ? ? ?", "*-5 * * * * *"),
    *("+5 * * * * *", "a * * * * *", "0\t0 0 1 1 *", "0 0 0 29 2 1", "0 0 0 30 2 1", "*/100 * * * * *"),
    *("0-59/70 * * * * *", "99999999999999999999 * * * * *", "0 0 0 * xyz *"),
]
ZONES = [
    *("UTC", "Europe/Amsterdam", "Local", "local", "x/y", "", "America/New_York", "Etc/GMT+5", "CET", "EST5EDT"),
    *("../etc", "GMT", "+02:00", "/etc/localtime"),
]
COMPANY: list[tuple[str, dict[str, str]]] = [
    ("full", {}),
    ("full", {"Nats-Schedule-Target": "full.t"}),
    ("full", {"Nats-Schedule-Target": "full.a"}),
    ("full", {"Nats-Schedule-Target": "full.*"}),
    ("full", {"Nats-Schedule-Target": "elsewhere"}),
    ("full", {"Nats-Schedule-Target": "full.t", "Nats-Schedule-Source": "full.s"}),
    ("full", {"Nats-Schedule-Target": "full.t", "Nats-Schedule-Source": "full.t"}),
    ("full", {"Nats-Schedule-Target": "full.t", "Nats-Schedule-Source": "full.a"}),
    ("full", {"Nats-Schedule-Target": "full.t", "Nats-Schedule-Source": "full.>"}),
    ("full", {"Nats-Schedule-Target": "full.t", "Nats-Schedule-Source": "elsewhere"}),
    ("full", {"Nats-Schedule-Target": "full.t", "Nats-Schedule-TTL": "5s"}),
    ("full", {"Nats-Schedule-Target": "full.t", "Nats-Schedule-TTL": "x"}),
    ("full", {"Nats-Schedule-Target": "full.t", "Nats-Schedule-Rollup": "sub"}),
    ("full", {"Nats-Schedule-Target": "full.t", "Nats-Schedule-Rollup": "all"}),
    ("full", {"Nats-Schedule-Target": "full.t", "Nats-Schedule-Rollup": "SUB"}),
    ("full", {"Nats-Schedule-Target": "full.t", "Nats-Rollup": "all"}),
    ("full", {"Nats-Schedule-Target": "full.t", "Nats-Rollup": "SUB"}),
    ("nottl", {"Nats-Schedule-Target": "nottl.t", "Nats-Schedule-TTL": "5s"}),
    ("nottl", {"Nats-Schedule-Target": "nottl.t", "Nats-Schedule-TTL": "x"}),
    ("plain", {"Nats-Schedule-Target": "plain.t"}),
    ("plain", {"Nats-Schedule-Target": "plain.t", "Nats-Schedule": "nonsense"}),
    ("plain", {"Nats-Schedule": ""}),
    ("full", {"Nats-Schedule": "", "Nats-Schedule-Target": "full.t"}),
    ("full", {"Nats-Schedule": "", "Nats-Schedule-Time-Zone": "x"}),
]


@pytest.fixture(autouse=True, scope="module")
def _streams(oracle: Oracle) -> Iterator[None]:
    for name, body in STREAMS.items():
        assert "error" not in oracle.api(f"STREAM.CREATE.{name}", body)
    yield
    oracle.remove_streams()


def their_error(oracle: Oracle, subject: str, headers: dict[str, str]) -> dict[str, Any] | None:
    block = "NATS/1.0\r\n" + "".join(f"{key}: {value}\r\n" for key, value in headers.items()) + "\r\n"
    _, answer = oracle.request(subject, b"x", block.encode())
    error: dict[str, Any] | None = json.loads(answer).get("error")
    return error


def our_error(stream: str, headers: dict[str, str]) -> dict[str, Any] | None:
    try:
        check_schedule(
            ScheduleHeaders(
                pattern=headers["Nats-Schedule"],
                time_zone=headers.get("Nats-Schedule-Time-Zone"),
                ttl=headers.get("Nats-Schedule-TTL", ""),
                rollup=headers.get("Nats-Schedule-Rollup", ""),
                target=headers.get("Nats-Schedule-Target", ""),
                source=headers.get("Nats-Schedule-Source", ""),
                message_rollup=headers.get("Nats-Rollup", "").lower(),
            ),
            f"{stream}.a",
            CONFIGS[stream],
            NOW_NS,
        )
    except ApiError as error:
        return error.to_document()
    return None


@pytest.mark.parametrize("text", TTLS)
def test_a_ttl_is_accepted_or_refused_as_by_nats_server(oracle: Oracle, text: str) -> None:
    theirs = their_error(oracle, "full.ttl", {"Nats-TTL": text})

    try:
        parse_message_ttl(text)
        ours = None
    except ApiError as error:
        ours = error.to_document()

    assert ours == theirs


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_schedule_is_accepted_or_refused_as_by_nats_server(oracle: Oracle, pattern: str) -> None:
    headers = {"Nats-Schedule": pattern, "Nats-Schedule-Target": "full.t"}

    assert our_error("full", headers) == their_error(oracle, "full.a", headers)


@pytest.mark.parametrize("pattern", ["0 0 0 * * *", "@daily", "@at 2040-01-01T00:00:00Z", "@every 5s"])
@pytest.mark.parametrize("zone", ZONES)
def test_a_time_zone_is_accepted_or_refused_as_by_nats_server(oracle: Oracle, zone: str, pattern: str) -> None:
    headers = {"Nats-Schedule": pattern, "Nats-Schedule-Time-Zone": zone, "Nats-Schedule-Target": "full.t"}

    assert our_error("full", headers) == their_error(oracle, "full.a", headers)


@pytest.mark.parametrize(("stream", "headers"), COMPANY)
def test_the_headers_beside_a_schedule_are_checked_as_by_nats_server(
    oracle: Oracle, stream: str, headers: dict[str, str]
) -> None:
    headers = {"Nats-Schedule": "@at 2040-01-01T00:00:00Z", **headers}

    assert our_error(stream, headers) == their_error(oracle, f"{stream}.a", headers)
