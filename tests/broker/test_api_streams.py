"""Streams through the API, on a broker without sockets. The exact documents are compared with nats-server elsewhere."""

import pytest

from jetspark.broker.options import BrokerOptions
from jetspark.testing.broker_driver import BrokerDriver, FakeConnection


@pytest.fixture
def driver() -> BrokerDriver:
    return BrokerDriver()


@pytest.fixture
def client(driver: BrokerDriver) -> FakeConnection:
    return driver.connect()


def make_stream(client: FakeConnection, name: str = "S", **config: object) -> None:
    answer = client.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [f"{name}.>"], **config})
    assert "error" not in answer, answer


def error_code(answer: dict[str, object]) -> object:
    error = answer.get("error")
    return error["err_code"] if isinstance(error, dict) else None


def test_a_created_stream_is_reported_and_takes_messages(client: FakeConnection) -> None:
    answer = client.api("STREAM.CREATE.S", {"name": "S", "subjects": ["S.>"]})

    assert answer["did_create"] is True
    assert answer["config"]["duplicate_window"] == 120_000_000_000
    assert client.publish_acked("S.a", b"x") == {"stream": "S", "seq": 1}


def test_a_create_is_answered_only_when_it_is_durable(driver: BrokerDriver, client: FakeConnection) -> None:
    driver.holds_commits = True

    inbox = client.start_request("$JS.API.STREAM.CREATE.S", b'{"name":"S"}')
    assert client.replies(inbox) == []

    driver.finish_commit()
    driver.settle()
    assert client.replies(inbox)[0].json()["did_create"] is True


def test_a_create_whose_commit_failed_is_an_error(driver: BrokerDriver, client: FakeConnection) -> None:
    driver.holds_commits = True
    inbox = client.start_request("$JS.API.STREAM.CREATE.S", b'{"name":"S"}')

    driver.finish_commit("No space left on device")
    driver.settle()

    answer = client.replies(inbox)[0].json()
    assert answer["type"].endswith("stream_create_response")
    assert error_code(answer) == 10077


def test_what_a_failed_commit_should_have_written_is_not_written_later(
    driver: BrokerDriver, client: FakeConnection
) -> None:
    driver.holds_commits = True
    client.start_request("$JS.API.STREAM.CREATE.S", b'{"name":"S"}')
    driver.finish_commit("No space left on device")
    driver.holds_commits = False

    driver.advance(1)
    driver.crash()

    assert driver.connect().api("STREAM.NAMES")["streams"] is None


def test_a_memory_stream_is_answered_without_the_disk(driver: BrokerDriver, client: FakeConnection) -> None:
    driver.holds_commits = True

    make_stream(client, storage="memory")

    assert client.publish_acked("S.a", b"x") == {"stream": "S", "seq": 1}
    assert not driver.is_committing


def test_a_memory_stream_leaves_nothing_on_disk(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client, storage="memory")
    client.publish_acked("S.a", b"x")

    driver.restart()

    assert driver.connect().api("STREAM.NAMES")["streams"] is None


def test_names_and_infos_come_in_pages(client: FakeConnection) -> None:
    for number in range(300):
        make_stream(client, f"N{number:03}", storage="memory")

    assert client.api("STREAM.NAMES")["total"] == 300
    first = client.api("STREAM.LIST")
    second = client.api("STREAM.LIST", {"offset": 256})

    assert (first["limit"], len(first["streams"]), len(second["streams"])) == (256, 256, 44)
    assert second["streams"][0]["config"]["name"] == "N256"


@pytest.mark.long
def test_subjects_come_in_pages_of_a_hundred_thousand(client: FakeConnection) -> None:
    make_stream(client, storage="memory")
    for _ in range(11):
        start = _ * 10_000
        client.send(b"".join(b"PUB S.%06d 0\r\n\r\n" % number for number in range(start, start + 10_000)))

    first = client.api("STREAM.INFO.S", {"subjects_filter": ">"})
    second = client.api("STREAM.INFO.S", {"subjects_filter": ">", "offset": 100_000})

    assert (first["total"], first["limit"], len(first["state"]["subjects"])) == (110_000, 100_000, 100_000)
    assert second["offset"] == 100_000
    assert min(second["state"]["subjects"]) == "S.100000"


def test_info_never_shows_what_could_still_be_lost(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    driver.holds_commits = True
    client.publish("S.a", b"x")
    client.publish("S.a", b"y")

    inbox = client.start_request("$JS.API.STREAM.INFO.S")
    assert client.replies(inbox) == []

    driver.finish_commit()
    driver.settle()
    driver.finish_commit()
    driver.settle()
    assert client.replies(inbox)[0].json()["state"]["messages"] == 2


def test_deleting_a_stream_removes_its_files_and_its_interest(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    client.publish_acked("S.a", b"x")

    assert client.api("STREAM.DELETE.S")["success"] is True

    assert driver.disk.list_dir("/store/jetstream") == []
    answer = client.request("S.a", b"x")
    assert answer is not None
    assert answer.status == "503"


def test_a_stream_made_again_at_once_starts_empty(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    client.publish_acked("S.a", b"old")
    driver.holds_commits = True
    client.start_request("$JS.API.STREAM.DELETE.S")
    client.start_request("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["S.>"]}')
    driver.holds_commits = False
    driver.settle()

    assert client.publish_acked("S.a", b"new") == {"stream": "S", "seq": 1}
    driver.restart()

    assert driver.connect().api("STREAM.INFO.S")["state"]["messages"] == 1


def test_a_purge_beyond_the_end_moves_the_sequences(client: FakeConnection) -> None:
    make_stream(client)
    client.publish_acked("S.a", b"x")

    assert client.api("STREAM.PURGE.S", {"seq": 100})["purged"] == 1

    assert client.publish_acked("S.a", b"y")["seq"] == 100


@pytest.mark.parametrize("seq", [2**63 - 1, 2**63, 2**64 - 1])
def test_sequences_beyond_every_stream_are_simply_not_there(client: FakeConnection, seq: int) -> None:
    make_stream(client, allow_direct=True)
    client.publish_acked("S.a", b"x")

    assert error_code(client.api("STREAM.MSG.GET.S", {"seq": seq})) == 10037
    assert error_code(client.api("STREAM.MSG.DELETE.S", {"seq": seq})) == 10057
    direct = client.request("$JS.API.DIRECT.GET.S", b'{"seq": %d}' % seq)
    assert direct is not None
    assert direct.status == "404 Message Not Found"


def test_a_request_without_a_reply_still_acts(client: FakeConnection) -> None:
    client.publish("$JS.API.STREAM.CREATE.S", b'{"name":"S"}')

    assert client.api("STREAM.NAMES")["streams"] == ["S"]


@pytest.mark.parametrize("verb", ["NOPE", "STREAM.INFO", "STREAM.INFO.a.b", "CONSUMER.INFO.S", "STREAM.TEMPLATE.NAMES"])
def test_unknown_requests_meet_silence(client: FakeConnection, verb: str) -> None:
    assert client.api(verb) is None


def test_an_account_without_jetstream_is_told_so(driver: BrokerDriver, client: FakeConnection) -> None:
    driver.broker.account("$G").jetstream.enabled = False

    answer = client.api("STREAM.NAMES")

    assert answer["type"].endswith("stream_names_response")
    assert error_code(answer) == 10039


def test_a_server_without_jetstream_has_no_responder() -> None:
    def without_jetstream(options: BrokerOptions) -> None:
        options.jetstream = False

    client = BrokerDriver(configure=without_jetstream).connect()

    answer = client.request("$JS.API.INFO")

    assert answer is not None
    assert answer.status == "503"


def test_requests_are_counted_by_account(driver: BrokerDriver, client: FakeConnection) -> None:
    make_stream(client)
    client.publish_acked("S.a", b"x")
    client.api("STREAM.INFO.NONE")
    client.api("STREAM.MSG.GET.S", {"seq": 1})

    api = client.api("INFO")["api"]

    assert (api["total"], api["errors"]) == (2, 1)
    assert (driver.broker.api_total, driver.broker.api_errors) == (3, 1)


def test_a_message_that_is_not_there_is_no_error_and_a_reset_not_counted(client: FakeConnection) -> None:
    make_stream(client)
    client.api("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"durable_name": "C"}})

    client.api("STREAM.MSG.DELETE.S", {"seq": 7})
    client.api("CONSUMER.RESET.S.C")

    api = client.api("INFO")["api"]
    assert (api["total"], api["errors"]) == (3, 0)


def test_a_first_sequence_that_leaves_no_room_is_refused(client: FakeConnection) -> None:
    answer = client.api("STREAM.CREATE.S", {"name": "S", "first_seq": (1 << 64) - 1})

    assert answer["error"]["err_code"] == 10052
    assert client.api("STREAM.CREATE.S", {"name": "S", "first_seq": 1 << 62})["state"]["last_seq"] == (1 << 62) - 1
    assert client.publish_acked("S", b"x")["seq"] == 1 << 62


def test_a_domain_answers_under_its_own_prefix() -> None:
    def with_domain(options: BrokerOptions) -> None:
        options.domain = "hub"

    client = BrokerDriver(configure=with_domain).connect()

    answer = client.request("$JS.hub.API.STREAM.CREATE.S", b'{"name":"S"}')

    assert answer is not None
    assert "domain" not in answer.json()
    assert client.api("STREAM.INFO.S")["domain"] == "hub"


def test_audits_tell_who_asked_what_and_got_what(client: FakeConnection) -> None:
    sid = client.subscribe("$JS.EVENT.ADVISORY.API")

    client.api("STREAM.CREATE.S", {"name": "S"})

    (audit,) = [message.json() for message in client.take_messages(sid)]
    assert audit["subject"] == "$JS.API.STREAM.CREATE.S"
    assert audit["client"]["acc"] == "$G"
    assert '"did_create":true' in audit["response"]


def test_streams_tell_of_their_creation_change_and_end(client: FakeConnection) -> None:
    sid = client.subscribe("$JS.EVENT.ADVISORY.STREAM.>")

    make_stream(client)
    client.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["S.>"], "max_msgs": 10})
    client.api("STREAM.DELETE.S")

    assert [message.json()["action"] for message in client.take_messages(sid)] == ["create", "modify", "delete"]


def test_a_stream_can_keep_its_own_advisories(client: FakeConnection) -> None:
    client.api("STREAM.CREATE.EVENTS", {"name": "EVENTS", "subjects": ["$JS.EVENT.ADVISORY.>"]})

    make_stream(client)

    subjects = client.api("STREAM.INFO.EVENTS", {"subjects_filter": "$JS.EVENT.ADVISORY.STREAM.>"})["state"]["subjects"]
    assert subjects["$JS.EVENT.ADVISORY.STREAM.CREATED.S"] == 1
