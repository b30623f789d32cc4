"""Messages that are stored by a schedule. Virtual time starts at 2023-11-14T22:13:20Z."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from jetspark.testing.broker_driver import SECOND_NS, BrokerDriver, FakeConnection

TARGET = {"Nats-Schedule-Target": "S.t"}
PAST = {"Nats-Schedule": "@at 2020-01-01T00:00:00Z", **TARGET}


def stream(client: FakeConnection, **config: Any) -> None:
    reply = client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"], "allow_msg_schedules": True, **config})
    assert "error" not in reply, reply


def every(period: str) -> dict[str, str]:
    return {"Nats-Schedule": f"@every {period}", **TARGET}


def code(ack: Any) -> int:
    return int(ack.get("error", {}).get("err_code", 0))


def message(client: FakeConnection, seq: int) -> tuple[str, bytes, bytes] | None:
    reply = client.api("STREAM.MSG.GET.S", {"seq": seq})
    if "error" in reply:
        return None
    found = reply["message"]
    return found["subject"], base64.b64decode(found.get("hdrs", "")), base64.b64decode(found.get("data", ""))


def subjects(client: FakeConnection) -> dict[str, int]:
    counts: dict[str, int] = client.api("STREAM.INFO.S", {"subjects_filter": ">"})["state"].get("subjects", {})
    return counts


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_time_fires_once_and_ends_its_schedule(storage: str) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, storage=storage, allow_msg_ttl=True)
    more = {"Keep": "me", "Nats-Msg-Id": "1", "Nats-TTL": "100", "Nats-Expected-Last-Sequence": "0"}
    special = {"Nats-Schedule-TTL": "5s", "Nats-Schedule-Rollup": "sub"}

    client.publish_acked("S.s", b"b", {**PAST, **more, **special})
    stored = message(client, 1)
    driver.advance(0.5)

    assert stored is not None
    assert stored[1].endswith(b"Nats-Schedule-Rollup: sub\r\nNats-Rollup: sub\r\n\r\n")
    assert message(client, 1) is None
    assert message(client, 2) == (
        "S.t",
        b"NATS/1.0\r\nKeep: me\r\nNats-Scheduler: S.s\r\nNats-Schedule-Next: purge\r\nNats-TTL: 5s\r\n"
        b"Nats-Rollup: sub\r\n\r\n",
        b"b",
    )
    driver.advance(6)
    assert subjects(client) == {}, "the message it made has a lifetime"


def test_a_time_to_come_is_waited_for() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    client.publish_acked("S.s", b"", {"Nats-Schedule": "@at 2023-11-14T22:14:20Z", **TARGET})

    driver.advance(59)
    assert subjects(client) == {"S.s": 1}
    driver.advance(2)
    assert subjects(client) == {"S.t": 1}


def test_a_time_in_another_age_is_waited_for_too() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    client.publish_acked("S.s", b"", {"Nats-Schedule": "@at 9999-12-31T23:59:59Z", **TARGET})

    driver.advance(86_400)

    assert subjects(client) == {"S.s": 1}


def test_a_period_fires_again_and_again() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    client.publish_acked("S.s", b"tick", every("5s"))

    driver.advance(16)

    assert subjects(client) == {"S.s": 1, "S.t": 3}
    assert message(client, 2) == (
        "S.t",
        b"NATS/1.0\r\nNats-Scheduler: S.s\r\nNats-Schedule-Next: 2023-11-14T22:13:30Z\r\n\r\n",
        b"tick",
    )


def test_a_cron_pattern_fires_in_its_zone() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    headers = {"Nats-Schedule": "0 0 5 * * *", "Nats-Schedule-Time-Zone": "Europe/Oslo", **TARGET}
    client.publish_acked("S.s", b"", headers)

    driver.advance(5 * 3600 + 46 * 60)
    assert subjects(client) == {"S.s": 1}
    driver.advance(60)

    made = message(client, 2)
    assert made is not None
    assert b"Nats-Schedule-Next: 2023-11-16T05:00:00+01:00\r\n" in made[1]


def test_the_content_may_come_from_another_subject() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    client.publish_acked("S.s", b"own", {**every("1s"), "Nats-Schedule-Source": "S.src"})
    driver.advance(1.1)
    client.publish_acked("S.src", b"other", {"H": "1", "Nats-Msg-Id": "z"})
    driver.advance(1)

    first, second = message(client, 2), message(client, 4)
    assert first is not None
    assert first[2] == b"own", "there was nothing on the other subject yet"
    assert second is not None
    assert second[2] == b"other"
    assert second[1].startswith(b"NATS/1.0\r\nH: 1\r\nNats-Scheduler: S.s\r\n")


def test_a_new_schedule_replaces_the_old_and_a_plain_message_ends_it() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    client.publish_acked("S.s", b"", every("1s"))
    client.publish_acked("S.s", b"", every("1h"))
    driver.advance(10)
    assert subjects(client) == {"S.s": 1}

    client.publish_acked("S.s", b"", every("1s"))
    client.publish_acked("S.s", b"plain")
    driver.advance(10)

    assert subjects(client) == {"S.s": 2}


def test_deleting_or_purging_the_message_ends_its_schedule() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    client.publish_acked("S.s", b"", every("1s"))
    client.api("STREAM.MSG.DELETE.S", {"seq": 1})
    client.publish_acked("S.r", b"", every("1s"))
    client.api("STREAM.PURGE.S", {"filter": "S.r"})

    driver.advance(10)

    assert subjects(client) == {}


def test_a_client_may_end_a_schedule_by_name() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    client.publish_acked("S.s", b"", every("1s"))

    ack = client.publish_acked("S.x", b"", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "S.s"})
    driver.advance(5)

    assert ack == {"stream": "S", "seq": 2}
    assert subjects(client) == {"S.x": 1}


# Asked of nats-server 2.15.1, as everything above.
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Nats-Schedule": "@nope", **TARGET}, 10189),
        ({"Nats-Schedule": "@every 500ms", **TARGET}, 10189),
        ({"Nats-Schedule": "* * * *", **TARGET}, 10189),
        ({"Nats-Schedule": "", **TARGET}, 0),
        ({"Nats-Schedule": "@at 9999-12-31T23:59:59Z", **TARGET}, 0),
        ({"Nats-Schedule": "@at 0001-01-01T00:00:01Z", **TARGET}, 0),
        (every("2562047h"), 0),
        ({"Nats-Schedule": "@every 5s"}, 10190),
        ({"Nats-Schedule": "@every 5s", "Nats-Schedule-Target": "other"}, 10190),
        ({"Nats-Schedule": "@every 5s", "Nats-Schedule-Target": "S.s"}, 10190),
        ({**every("5s"), "Nats-Schedule-TTL": "5s"}, 10166),
        ({**every("5s"), "Nats-Schedule-TTL": "x"}, 10191),
        ({**every("5s"), "Nats-Schedule-Source": "S.*"}, 10203),
        ({**every("5s"), "Nats-Schedule-Rollup": "all"}, 10192),
        ({**every("5s"), "Nats-Rollup": "all"}, 10192),
        ({**every("5s"), "Nats-Rollup": "sub"}, 0),
        ({**every("5s"), "Nats-Schedule-Time-Zone": "UTC"}, 10189),
        ({"Nats-Schedule-Time-Zone": "Nowhere"}, 10223),
        ({"Nats-Schedule-Next": "purge", "Nats-Scheduler": "S.plain"}, 10212),
        ({"Nats-Schedule-Next": "purge", "Nats-Scheduler": "S.none"}, 0),
        ({"Nats-Schedule-Next": "purge", "Nats-Scheduler": "S.s"}, 10212),
        ({"Nats-Schedule-Next": "purge", "Nats-Scheduler": "S.*"}, 10212),
        ({"Nats-Schedule-Next": "purge"}, 10212),
        ({"Nats-Schedule-Next": "2030-01-01T00:00:00Z", "Nats-Scheduler": "S.none"}, 10212),
        ({"Nats-Scheduler": "S.none"}, 10212),
    ],
)
def test_what_makes_a_schedule(headers: dict[str, str], expected: int) -> None:
    client = BrokerDriver().connect()
    stream(client)
    client.publish_acked("S.plain")

    assert code(client.publish_acked("S.s", b"", headers)) == expected


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (every("5s"), 10188),
        ({"Nats-Schedule": "@nope"}, 10188),
        ({"Nats-Schedule": ""}, 0),
        ({"Nats-Schedule-Target": "a"}, 0),
        ({"Nats-Schedule-Time-Zone": "UTC"}, 0),
        ({"Nats-Schedule-Time-Zone": ""}, 10188),
        ({"Nats-Schedule-Next": "purge", "Nats-Scheduler": "T.s"}, 10188),
        ({"Nats-Scheduler": "x"}, 10212),
    ],
)
def test_a_stream_without_schedules_says_so(headers: dict[str, str], expected: int) -> None:
    client = BrokerDriver().connect()
    client.api("STREAM.CREATE.T", {"name": "T", "subjects": ["T.>"]})

    assert code(client.publish_acked("T.a", b"", headers)) == expected


def test_two_parts_of_a_batch_may_make_and_end_a_schedule() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client, allow_atomic=True)
    batch = {"Nats-Batch-Id": "u", "Nats-Batch-Sequence": "1"}
    client.request("S.s", b"", {**batch, **every("1s")})
    end = {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "S.s"}
    batch |= {"Nats-Batch-Sequence": "2", "Nats-Batch-Commit": "1"}

    assert client.publish_acked("S.x", b"", {**batch, **end})["count"] == 2
    driver.advance(5)

    assert subjects(client) == {"S.x": 1}


# -- restart ---------------------------------------------------------------------------------------------------------


def test_a_schedule_goes_on_after_a_restart_and_fires_once_for_all_it_missed() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    client.publish_acked("S.s", b"", every("10s"))
    driver.advance(25)
    driver.restart()
    driver.advance(4)
    assert subjects(driver.connect()) == {"S.s": 1, "S.t": 2}, "what has fired does not fire again"
    driver.advance(2)
    assert subjects(driver.connect()) == {"S.s": 1, "S.t": 3}, "and the next time is what it was"

    driver.now_ns += 100 * SECOND_NS
    driver.crash()
    driver.advance(1)

    assert subjects(driver.connect()) == {"S.s": 1, "S.t": 4}
    driver.advance(10)
    assert subjects(driver.connect()) == {"S.s": 1, "S.t": 5}


def test_what_fired_is_known_even_when_the_messages_are_gone() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    client.publish_acked("S.s", b"", every("10s"))
    driver.advance(25)
    client.api("STREAM.PURGE.S", {"filter": "S.t"})

    driver.restart()
    driver.advance(1)

    assert subjects(driver.connect()) == {"S.s": 1}
    driver.advance(5)
    assert subjects(driver.connect()) == {"S.s": 1, "S.t": 1}


def test_a_schedule_that_was_ended_stays_ended() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    client.publish_acked("S.s", b"", every("10s"))
    client.publish_acked("S.s", b"plain")

    driver.restart()
    driver.advance(30)

    assert subjects(driver.connect()) == {"S.s": 2}


def test_a_schedule_the_disk_refused_does_not_fire_and_the_one_it_replaced_does() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    client.publish_acked("S.s", b"old", every("5s"))
    driver.holds_commits = True
    client.publish("S.s", b"new", headers=every("1s"))
    driver.finish_commit("disk full")
    driver.holds_commits = False

    driver.advance(5.5)

    made = message(client, 2)
    assert made is not None
    assert made[2] == b"old"


def test_a_firing_the_disk_refused_happens_later() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    stream(client)
    client.publish_acked("S.s", b"", PAST)
    client.publish_acked("S.e", b"", {**every("5s"), "Nats-Schedule-Target": "S.u"})
    driver.holds_commits = True
    driver.advance(0.5)
    driver.finish_commit("disk full")
    driver.holds_commits = False
    assert subjects(client) == {"S.s": 1, "S.e": 1}

    driver.advance(6)

    assert subjects(client) == {"S.t": 1, "S.e": 1, "S.u": 1}
