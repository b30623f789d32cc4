"""Consumers through the API, on a broker without sockets."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.broker.consumer.writing import digits
from jetspark.testing.broker_driver import BrokerDriver, FakeConnection


@pytest.fixture
def driver() -> BrokerDriver:
    return BrokerDriver()


@pytest.fixture
def client(driver: BrokerDriver) -> FakeConnection:
    connection = driver.connect()
    connection.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})
    for number in range(1, 7):
        connection.publish_acked("S.a" if number % 2 else "S.b", b"m%d" % number)
    return connection


def make_consumer(client: FakeConnection, name: str = "C", **config: Any) -> Any:
    body = {"stream_name": "S", "config": {"durable_name": name, "ack_policy": "explicit", **config}}
    answer = client.api(f"CONSUMER.CREATE.S.{name}", body)
    assert "error" not in answer, answer
    return answer


def pull(client: FakeConnection, count: int, name: str = "C") -> list[Any]:
    client.start_request(f"$JS.API.CONSUMER.MSG.NEXT.S.{name}", b'{"batch": %d, "no_wait": true}' % count)
    return [message for message in client.take_messages() if not message.status]


def info(client: FakeConnection, name: str = "C") -> Any:
    return client.api(f"CONSUMER.INFO.S.{name}")


def error_code(answer: Any) -> Any:
    return answer["error"]["err_code"] if "error" in answer else None


def test_a_consumer_is_answered_only_when_it_is_durable(driver: BrokerDriver, client: FakeConnection) -> None:
    driver.holds_commits = True

    inbox = client.start_request(
        "$JS.API.CONSUMER.CREATE.S.C", b'{"stream_name":"S","config":{"durable_name":"C","ack_policy":"explicit"}}'
    )
    assert client.replies(inbox) == []

    driver.finish_commit()
    driver.settle()
    assert client.replies(inbox)[0].json()["num_pending"] == 6


def test_a_consumer_kept_in_memory_does_not_wait_for_the_disk(driver: BrokerDriver, client: FakeConnection) -> None:
    driver.holds_commits = True

    assert make_consumer(client, mem_storage=True)["name"] == "C"


def test_the_legacy_form_makes_up_a_name(client: FakeConnection) -> None:
    answer = client.api("CONSUMER.CREATE.S", {"stream_name": "S", "config": {"ack_policy": "none"}})

    assert len(answer["name"]) == 8
    assert "name" not in answer["config"]
    assert answer["config"]["inactive_threshold"] == 5_000_000_000


def test_ephemerals_go_when_nobody_uses_them(driver: BrokerDriver, client: FakeConnection) -> None:
    make_consumer(client, "D")
    name = client.api("CONSUMER.CREATE.S", {"stream_name": "S", "config": {}})["name"]

    driver.advance(4.5)
    assert client.api("CONSUMER.NAMES.S")["consumers"] == sorted(["D", name])
    driver.advance(2)
    assert client.api("CONSUMER.NAMES.S")["consumers"] == ["D"]


def test_creating_again_updates_in_place(client: FakeConnection) -> None:
    make_consumer(client)
    pull(client, 2)

    answer = make_consumer(client, max_ack_pending=10, description="d")

    assert answer["config"]["max_ack_pending"] == 10
    assert answer["delivered"]["stream_seq"] == 2


def test_a_changed_filter_changes_what_is_pending(client: FakeConnection) -> None:
    make_consumer(client)
    pull(client, 1)

    make_consumer(client, filter_subject="S.b")

    assert info(client)["num_pending"] == 3
    assert [message.data for message in pull(client, 5)] == [b"m2", b"m4", b"m6"]


def test_an_updated_consumer_is_still_so_after_a_restart(driver: BrokerDriver, client: FakeConnection) -> None:
    make_consumer(client)
    make_consumer(client, filter_subject="S.b", max_deliver=3)

    driver.restart()

    config = info(driver.connect())["config"]
    assert (config["filter_subject"], config["max_deliver"]) == ("S.b", 3)


def test_only_create_and_only_update_are_kept_apart(client: FakeConnection) -> None:
    make_consumer(client)
    body = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "explicit", "max_deliver": 2}}

    assert error_code(client.api("CONSUMER.CREATE.S.C", {**body, "action": "create"})) == 10148
    missing = {"stream_name": "S", "config": {"durable_name": "X"}, "action": "update"}
    assert error_code(client.api("CONSUMER.CREATE.S.X", missing)) == 10149


def test_deleting_a_consumer_tells_its_waiting_requests(client: FakeConnection) -> None:
    make_consumer(client, deliver_policy="new")
    inbox = client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b"1")

    assert client.api("CONSUMER.DELETE.S.C")["success"] is True

    assert client.replies(inbox)[0].status == "409 Consumer Deleted"
    assert error_code(info(client)) == 10014


def test_a_deleted_consumer_stays_deleted(driver: BrokerDriver, client: FakeConnection) -> None:
    make_consumer(client)
    client.api("CONSUMER.DELETE.S.C")

    driver.restart()

    assert driver.connect().api("CONSUMER.NAMES.S")["consumers"] == []
    assert driver.disk.list_dir("/store/jetstream/%24G/streams/S/obs") == []


def test_names_and_infos_come_in_pages(client: FakeConnection) -> None:
    client.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>"], "max_consumers": 2000})
    for number in range(300):
        make_consumer(client, f"C{number:03}", mem_storage=True)

    assert len(client.api("CONSUMER.NAMES.S")["consumers"]) == 300
    assert len(client.api("CONSUMER.LIST.S")["consumers"]) == 256
    assert client.api("CONSUMER.LIST.S", {"offset": 299})["consumers"][0]["name"] == "C299"


def test_a_paused_consumer_delivers_nothing_until_its_time(driver: BrokerDriver, client: FakeConnection) -> None:
    sid = client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.PAUSE.>")
    make_consumer(client)
    until_s = driver.now_ns // 10**9 + 60

    answer = client.api("CONSUMER.PAUSE.S.C", {"pause_until": "2023-11-14T22:14:20Z"})
    assert until_s == 1_700_000_060
    assert (answer["paused"], answer["pause_remaining"]) == (True, 60 * 10**9)
    client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b"1")
    assert [message for message in client.messages if message.subject == "S.a"] == []

    driver.advance(61)
    assert [message.data for message in client.messages if message.subject == "S.a"] == [b"m1"]
    assert [message.json()["paused"] for message in client.take_messages(sid)] == [True, False]


def test_a_pause_outlives_a_restart(driver: BrokerDriver, client: FakeConnection) -> None:
    make_consumer(client)
    client.api("CONSUMER.PAUSE.S.C", {"pause_until": "2023-11-14T22:14:20Z"})

    driver.restart()

    again = driver.connect()
    assert info(again)["paused"] is True
    driver.advance(61)
    assert "paused" not in info(again)


def test_an_empty_pause_resumes(client: FakeConnection) -> None:
    make_consumer(client)
    client.api("CONSUMER.PAUSE.S.C", {"pause_until": "2030-01-01T00:00:00Z"})

    assert client.api("CONSUMER.PAUSE.S.C")["paused"] is False

    assert "pause_until" not in info(client)["config"]
    assert len(pull(client, 2)) == 2


@pytest.mark.parametrize("in_subject", [True, False])
def test_unpinning_lets_another_client_take_over(client: FakeConnection, in_subject: bool) -> None:
    make_consumer(client, priority_groups=["jobs"], priority_policy="pinned_client")
    client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": 1, "group": "jobs"}')
    first = client.take_messages()[0].headers["Nats-Pin-Id"]
    assert info(client)["priority_groups"][0]["pinned_client_id"] == first

    if in_subject:
        answer = client.api("CONSUMER.UNPIN.S.C.jobs")
    else:
        answer = client.api("CONSUMER.UNPIN.S.C", {"group": "jobs"})

    assert answer == {"type": "io.nats.jetstream.api.v1.consumer_unpin_response"}
    client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": 1, "group": "jobs"}')
    assert client.take_messages()[0].headers["Nats-Pin-Id"] != first


@pytest.mark.parametrize(
    ("verb", "body", "expected"),
    [
        ("CONSUMER.UNPIN.S.C", None, 10025),
        ("CONSUMER.UNPIN.S.C", {"group": "other"}, 10160),
        ("CONSUMER.UNPIN.S.C.other", None, 10160),
        ("CONSUMER.UNPIN.S.C.far-too-long-for-a-group", None, 10162),
        ("CONSUMER.UNPIN.S.X.jobs", None, 10014),
        ("CONSUMER.UNPIN.X.C.jobs", None, 10059),
    ],
)
def test_unpinning_says_what_is_wrong(client: FakeConnection, verb: str, body: Any, expected: int) -> None:
    make_consumer(client, priority_groups=["jobs"], priority_policy="pinned_client")

    assert error_code(client.api(verb, body)) == expected


def test_a_reset_goes_back_to_the_ack_floor(driver: BrokerDriver, client: FakeConnection) -> None:
    make_consumer(client)
    messages = pull(client, 3)
    client.publish(messages[0].reply)

    answer = client.api("CONSUMER.RESET.S.C")

    assert answer["reset_seq"] == 2
    assert (answer["delivered"]["stream_seq"], answer["num_ack_pending"], answer["num_pending"]) == (1, 0, 5)
    driver.crash()
    again = driver.connect()
    assert [message.data for message in pull(again, 1)] == [b"m2"]


def test_a_reset_before_the_configured_start_is_refused(client: FakeConnection) -> None:
    make_consumer(client, deliver_policy="by_start_sequence", opt_start_seq=4)

    assert error_code(client.api("CONSUMER.RESET.S.C", {"seq": 3})) == 10204
    assert client.api("CONSUMER.RESET.S.C", {"seq": 5})["reset_seq"] == 5


def test_a_reset_of_nobody_meets_silence(client: FakeConnection) -> None:
    assert client.api("CONSUMER.RESET.S.X") is None
    assert client.api("CONSUMER.RESET.X.C") is None


def test_pulls_from_nobody_have_no_responder(client: FakeConnection) -> None:
    answer = client.request("$JS.API.CONSUMER.MSG.NEXT.S.X", b"1")

    assert answer is not None
    assert answer.status == "503"


def test_a_pull_that_asks_for_a_newer_server_is_refused(client: FakeConnection) -> None:
    make_consumer(client)

    answer = client.request("$JS.API.CONSUMER.MSG.NEXT.S.C", b"1", {"Nats-Required-Api-Level": "99"})

    assert answer is not None
    assert answer.status == "412 Required Api Level"


def test_consumers_tell_of_their_creation_and_end(client: FakeConnection) -> None:
    sid = client.subscribe("$JS.EVENT.ADVISORY.CONSUMER.>")

    make_consumer(client)
    client.api("CONSUMER.DELETE.S.C")

    assert [message.json()["action"] for message in client.take_messages(sid)] == ["create", "delete"]


def test_a_pause_to_the_end_of_time_is_a_pause(driver: BrokerDriver, client: FakeConnection) -> None:
    make_consumer(client)

    answer = client.api("CONSUMER.PAUSE.S.C", {"pause_until": "9999-12-31T23:59:59Z"})

    assert (answer["pause_until"], answer["pause_remaining"]) == ("9999-12-31T23:59:59Z", 2**63 - 1)
    driver.restart()
    again = driver.connect()
    assert info(again)["paused"] is True
    assert client.api("CONSUMER.PAUSE.S.C") is None
    assert again.api("CONSUMER.PAUSE.S.C", {"pause_until": "0001-01-01T00:00:00Z"})["paused"] is False


def test_waits_of_centuries_are_waits(driver: BrokerDriver, client: FakeConnection) -> None:
    longest = 2**63 - 1
    make_consumer(client, ack_wait=longest, inactive_threshold=longest, backoff=[longest])
    client.start_request(
        "$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch": 10, "expires": %d, "idle_heartbeat": %d}' % (longest, 10**18)
    )
    assert len(client.take_messages()) == 6

    driver.advance(365 * 86400)

    assert client.take_messages() == []
    assert (info(client)["num_ack_pending"], info(client)["num_waiting"]) == (6, 1)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ({"deliver_policy": "by_start_sequence", "opt_start_seq": 2**64 - 1}, 0),
        ({"deliver_policy": "by_start_time", "opt_start_time": "9999-12-31T00:00:00Z"}, 0),
        ({"deliver_policy": "by_start_time", "opt_start_time": "0001-01-01T00:00:01Z"}, 6),
    ],
)
def test_starts_out_of_reach_are_no_trouble(client: FakeConnection, start: dict[str, Any], expected: int) -> None:
    make_consumer(client, **start)

    assert len(pull(client, 10)) == expected


@pytest.mark.long
@given(st.integers(0, 2**63 - 1))
def test_the_digits_of_a_number_are_counted_without_writing_it(number: int) -> None:
    assert digits(number) == len(str(number))


@pytest.mark.parametrize("power", range(19))
def test_the_digits_of_round_numbers_are_counted_right(power: int) -> None:
    assert (digits(10**power), digits(10**power - 1)) == (power + 1, max(1, power))
