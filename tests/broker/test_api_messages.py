"""Reading and deleting single messages through the API, as documents and directly."""

import json
from base64 import b64decode
from typing import Any

import pytest

from jetspark.testing.broker_driver import BrokerDriver, FakeConnection, Received


@pytest.fixture
def driver() -> BrokerDriver:
    return BrokerDriver()


@pytest.fixture(params=["file", "memory"])
def client(driver: BrokerDriver, request: pytest.FixtureRequest) -> FakeConnection:
    connection = driver.connect()
    config = {"name": "S", "subjects": ["S.>"], "allow_direct": True, "storage": request.param}
    connection.api("STREAM.CREATE.S", config)
    for number, subject in enumerate(["S.a", "S.b", "S.a", "S.c", "S.b"], 1):
        driver.advance(1)
        connection.publish_acked(subject, b"m%d" % number, {"K": "v"} if number == 3 else None)
    return connection


def get(client: FakeConnection, **request: Any) -> Any:
    return client.api("STREAM.MSG.GET.S", request)


def direct(client: FakeConnection, document: Any, path: str = "S") -> list[Received]:
    body = b"" if document is None else json.dumps(document).encode()
    return client.replies(client.start_request(f"$JS.API.DIRECT.GET.{path}", body))


@pytest.mark.parametrize(
    ("request_body", "seq"),
    [
        ({"seq": 2}, 2),
        ({"last_by_subj": "S.a"}, 3),
        ({"last_by_subj": "S.*"}, 5),
        ({"next_by_subj": "S.b"}, 2),
        ({"next_by_subj": "S.b", "seq": 3}, 5),
        ({"start_time": "2023-11-14T22:13:22.5Z"}, 3),
        ({"next_by_subj": "S.b", "start_time": "2023-11-14T22:13:23Z"}, 5),
    ],
)
def test_a_message_is_found_by_what_is_known_of_it(client: FakeConnection, request_body: Any, seq: int) -> None:
    assert get(client, **request_body)["message"]["seq"] == seq
    (message,) = direct(client, request_body)
    assert message.headers["Nats-Sequence"] == str(seq)


@pytest.mark.parametrize(
    "request_body",
    [
        {"seq": 6},
        {"last_by_subj": "S.z"},
        {"next_by_subj": "S.c", "seq": 5},
        {"start_time": "2030-01-01T00:00:00Z"},
        {"start_time": "9999-12-31T00:00:00Z"},
    ],
)
def test_what_is_not_there_is_not_found(client: FakeConnection, request_body: Any) -> None:
    assert get(client, **request_body)["error"]["err_code"] == 10037
    (message,) = direct(client, request_body)
    assert message.status == "404 Message Not Found"


def test_payload_and_headers_are_encoded(client: FakeConnection) -> None:
    message = get(client, seq=3)["message"]

    assert b64decode(message["data"]) == b"m3"
    assert b64decode(message["hdrs"]) == b"NATS/1.0\r\nK: v\r\n\r\n"
    assert "hdrs" not in get(client, seq=3, no_hdr=True)["message"]


def test_a_direct_message_carries_its_own_headers_first(client: FakeConnection) -> None:
    (message,) = direct(client, {"seq": 3})

    assert message.data == b"m3"
    assert list(message.headers) == ["K", "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp"]


def test_the_subject_form_gives_the_last_message(client: FakeConnection) -> None:
    (message,) = direct(client, None, "S.S.b")

    assert message.headers["Nats-Sequence"] == "5"


def test_a_batch_counts_down_and_ends(client: FakeConnection) -> None:
    client.api("STREAM.MSG.DELETE.S", {"seq": 3})

    *messages, end = direct(client, {"seq": 1, "batch": 3})

    assert [message.headers["Nats-Sequence"] for message in messages] == ["1", "2", "4"]
    assert [message.headers["Nats-Num-Pending"] for message in messages] == ["3", "2", "1"]
    assert [message.headers["Nats-Last-Sequence"] for message in messages] == ["0", "1", "2"]
    assert (end.status, end.headers["Nats-Num-Pending"], end.data) == ("204 EOB", "1", b"")


def test_a_batch_stops_at_its_bytes(client: FakeConnection) -> None:
    assert len(direct(client, {"seq": 1, "batch": 5, "max_bytes": 6})) == 3


def test_the_last_of_many_subjects_come_in_order(client: FakeConnection) -> None:
    *messages, end = direct(client, {"multi_last": ["S.>"]})

    assert [message.headers["Nats-Sequence"] for message in messages] == ["3", "4", "5"]
    assert end.headers["Nats-UpTo-Sequence"] == "5"


def test_the_last_of_many_subjects_as_of_a_sequence(client: FakeConnection) -> None:
    *messages, end = direct(client, {"multi_last": ["S.a", "S.b"], "up_to_seq": 2})

    assert [message.headers["Nats-Sequence"] for message in messages] == ["1", "2"]
    assert end.headers["Nats-UpTo-Sequence"] == "2"


def test_more_than_a_thousand_subjects_are_too_many(client: FakeConnection) -> None:
    client.send(b"".join(b"PUB S.many.%d 0\r\n\r\n" % number for number in range(1025)))

    (message,) = direct(client, {"multi_last": ["S.many.>"]})

    assert message.status == "413 Too Many Results"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (None, "408 Empty Request"),
        ({}, "408 Empty Request"),
        ({"seq": 1, "last_by_subj": "S.a"}, "408 Bad Request"),
        ({"last_by_subj": "S.a", "batch": 2}, "408 Bad Request"),
    ],
)
def test_bad_direct_requests_get_a_status(client: FakeConnection, body: Any, status: str) -> None:
    assert [message.status for message in direct(client, body)] == [status]


@pytest.mark.parametrize("name", ["X", "PLAIN"])
def test_streams_that_do_not_answer_directly_have_no_responder(client: FakeConnection, name: str) -> None:
    client.api("STREAM.CREATE.PLAIN", {"name": "PLAIN"})

    assert [message.status for message in direct(client, {"seq": 1}, name)] == ["503"]


def test_a_deleted_message_is_gone(client: FakeConnection) -> None:
    assert client.api("STREAM.MSG.DELETE.S", {"seq": 2})["success"] is True

    assert get(client, seq=2)["error"]["err_code"] == 10037
    assert client.api("STREAM.INFO.S", {"deleted_details": True})["state"]["deleted"] == [2]
    assert client.api("STREAM.MSG.DELETE.S", {"seq": 2})["error"]["err_code"] == 10043


@pytest.mark.parametrize("ask", ["$JS.API.STREAM.MSG.GET.F", "$JS.API.DIRECT.GET.F"])
def test_a_message_that_could_still_be_lost_is_not_shown(ask: str) -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.F", {"name": "F", "allow_direct": True})
    client.publish_acked("F", b"durable")
    driver.holds_commits = True
    client.publish("F", b"not yet")

    first = client.start_request(ask, b'{"seq": 1}')
    second = client.start_request(ask, b'{"last_by_subj": "F"}')

    assert len(client.replies(first)) == 1
    assert client.replies(second) == []
    driver.holds_commits = False
    driver.settle()
    assert len(client.replies(second)) == 1


def test_a_batch_stays_in_order_across_what_is_durable() -> None:
    driver = BrokerDriver()
    client = driver.connect()
    client.api("STREAM.CREATE.F", {"name": "F", "allow_direct": True})
    client.publish_acked("F", b"1")
    driver.holds_commits = True
    client.publish("F", b"2")
    inbox = client.start_request("$JS.API.DIRECT.GET.F", b'{"seq": 1, "batch": 5}')
    driver.holds_commits = False
    driver.settle()

    assert [message.data for message in client.replies(inbox)] == [b"1", b"2", b""]
