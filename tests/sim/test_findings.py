"""What the simulator once found, each as a short story of its own."""

from __future__ import annotations

import errno

import pytest
from tests.sim.stories import (
    disk_of,
    fail_next_commit,
    info,
    make_consumer,
    make_stream,
    new_driver,
    power_fails,
    pull,
    pull_body,
    stop_before,
)

from jetspark.store.disk import APPEND, SYNC, WRITE_FILE
from jetspark.testing.broker_driver import BrokerDriver, FakeConnection


def test_a_double_ack_confirmed_after_a_kill_holds_when_the_power_fails_next() -> None:
    for seed in range(20):
        driver = new_driver(seed)
        client = driver.connect()
        make_stream(client)
        make_consumer(client)
        client.publish_acked("s.a", b"one")
        (token, _), *_ = pull(client)
        driver.advance(1)
        driver.holds_commits = True
        client.start_request(token, b"+ACK")
        stop_before(driver, SYNC, "state.log")
        driver.holds_commits = False
        driver.crash()

        client = driver.connect()
        assert client.request(token, b"+ACK") is not None
        power_fails(driver)

        client = driver.connect()
        driver.advance(60)
        assert pull(client) == []


def test_a_stream_found_after_a_kill_is_there_when_the_power_fails_next() -> None:
    for seed in range(20):
        driver = new_driver(seed)
        client = driver.connect()
        driver.holds_commits = True
        client.start_request("$JS.API.STREAM.CREATE.S", b'{"name":"S","subjects":["s.>"]}')
        commit = driver._commit
        assert commit is not None
        for op in commit.ops:
            if op.kind == WRITE_FILE:
                # All of it but the directory's sync.
                steps = list(disk_of(driver)._steps(op))
                for step in steps[:-1]:
                    step()
                break
            driver.disk.perform(op)
        driver.holds_commits = False
        driver.crash()

        client = driver.connect()
        assert client.publish_acked("s.a", b"one")["seq"] == 1
        power_fails(driver)

        client = driver.connect()
        assert client.api("STREAM.INFO.S")["state"]["messages"] == 1


def test_a_purge_the_disk_refused_leaves_consumers_where_they_were() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client)
    make_consumer(client)
    for number in range(3):
        client.publish_acked("s.a", b"%d" % number)
    fail_next_commit(driver)

    assert "error" in client.api("STREAM.PURGE.S")

    assert info(client)["num_pending"] == 3
    assert [data for _, data in pull(client)] == [b"0", b"1", b"2"]


def test_what_was_delivered_between_two_refused_purges_stays_delivered() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client)
    make_consumer(client)
    for number in range(4):
        client.publish_acked("s.a", b"%d" % number)
    driver.holds_commits = True
    client.start_request("$JS.API.STREAM.PURGE.S", b'{"seq": 2}')
    assert [data for _, data in pull(client, batch=1)] == [b"1"]
    client.start_request("$JS.API.STREAM.PURGE.S", b"{}")
    driver.finish_commit("disk full")
    driver.holds_commits = False
    driver.advance(1)

    assert [data for _, data in pull(client)] == [b"2", b"3"]


def test_messages_stored_after_a_refused_commit_reach_a_consumer_made_during_it() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client)
    driver.holds_commits = True
    client.publish("s.a", b"lost")
    # In memory: one on the disk would go with the commit.
    make_consumer(client, deliver_policy="new", mem_storage=True)
    driver.finish_commit("disk full")
    driver.holds_commits = False
    driver.advance(1)

    assert client.publish_acked("s.a", b"kept")["seq"] == 1

    assert [data for _, data in pull(client)] == [b"kept"]


def test_an_acknowledged_message_of_a_work_queue_goes_also_when_its_commit_was_refused() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client, retention="workqueue")
    make_consumer(client)
    client.publish_acked("s.a", b"one")
    (token, _), *_ = pull(client)
    driver.advance(1)
    fail_next_commit(driver)
    assert client.request(token, b"+ACK") is None

    driver.advance(1)

    assert client.api("STREAM.INFO.S")["state"]["messages"] == 0


def test_limits_lowered_in_a_refused_commit_are_taken_back_and_with_them_what_they_cost() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client)
    for number in range(5):
        client.publish_acked("s.a", b"%d" % number)
    fail_next_commit(driver)

    client.api("STREAM.UPDATE.S", {"name": "S", "subjects": ["s.>"], "max_msgs": 2})
    driver.advance(1)

    found = client.api("STREAM.INFO.S")
    assert (found["config"]["max_msgs"], found["state"]["messages"]) == (-1, 5)


def test_a_message_evicted_by_a_refused_publish_is_owed_again() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client, max_msgs=1)
    make_consumer(client, ack_wait=1_000_000_000)
    client.publish_acked("s.a", b"first")
    assert len(pull(client)) == 1
    fail_next_commit(driver)

    assert "error" in client.publish_acked("s.a", b"second")

    driver.advance(2)
    assert [data for _, data in pull(client)] == [b"first"]


def test_a_stream_has_its_first_sequence_when_its_creation_was_refused_at_first() -> None:
    driver = new_driver()
    client = driver.connect()
    disk_of(driver).fail_next(WRITE_FILE, errno.ENOSPC)
    config = {"name": "S", "subjects": ["s.>"], "first_seq": 100}
    assert "error" in client.api("STREAM.CREATE.S", config)
    driver.advance(1)

    assert "error" not in client.api("STREAM.CREATE.S", config)

    assert client.publish_acked("s.a", b"one")["seq"] == 100


def test_a_message_given_up_after_its_only_delivery_stays_in_a_work_queue_over_a_restart() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client, retention="workqueue")
    make_consumer(client, max_deliver=1, ack_wait=100_000_000)
    client.publish_acked("s.a", b"one")
    assert len(pull(client)) == 1
    driver.advance(1)

    driver.restart()

    assert driver.connect().api("STREAM.INFO.S")["state"]["messages"] == 1


def test_a_consumer_without_acks_knows_its_floor_after_a_restart() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client)
    make_consumer(client, ack_policy="none")
    client.publish_acked("s.a", b"one")
    assert len(pull(client)) == 1
    before = info(client)["ack_floor"]
    driver.advance(1)

    driver.restart()

    after = info(driver.connect())["ack_floor"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert after["consumer_seq"] == before["consumer_seq"] == 1
    assert after["stream_seq"] == before["stream_seq"] == 1


def test_a_pinned_consumer_of_last_messages_delivers_them() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client)
    client.publish_acked("s.a", b"one")
    make_consumer(
        client,
        deliver_policy="last_per_subject",
        filter_subject="s.>",
        priority_policy="pinned_client",
        priority_groups=["g"],
    )

    assert [data for _, data in pull(client, group="g")] == [b"one"]


def test_a_purge_does_not_move_a_consumer_back_that_begins_later() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client)
    make_consumer(client, deliver_policy="by_start_sequence", opt_start_seq=5, filter_subject="s.a")
    client.publish_acked("s.a", b"1")
    client.api("STREAM.PURGE.S", {"filter": "s.a"})

    client.publish_acked("s.a", b"2")

    assert info(client)["num_pending"] == 0
    assert pull(client) == []


def test_an_old_ack_subject_cannot_raise_the_floor_above_what_was_delivered() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client)
    make_consumer(client, ack_policy="all")
    for number in range(3):
        client.publish_acked("s.a", b"%d" % number)
    tokens = [token for token, _ in pull(client)]
    client.api("CONSUMER.RESET.S.c", {"seq": 2})
    assert len(pull(client)) == 2

    client.request(tokens[1], b"+ACK")

    floor = info(client)["ack_floor"]
    assert isinstance(floor, dict)
    assert floor["consumer_seq"] <= 2


@pytest.mark.parametrize("storage", ["file", "memory"])
def test_a_consumer_set_ahead_of_its_stream_counts_nothing_before_its_place(storage: str) -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client, storage=storage)
    make_consumer(client)
    client.api("CONSUMER.RESET.S.c", {"seq": 3})

    for number in range(3):
        client.publish_acked("s.a", b"%d" % number)

    assert info(client)["num_pending"] == 1
    assert [data for _, data in pull(client)] == [b"2"]


def test_a_purge_of_what_a_consumer_now_looks_at_leaves_the_floor_below_what_it_owes() -> None:
    client = new_driver().connect()
    make_stream(client)
    client.publish_acked("s.a", b"owed")
    make_consumer(client, filter_subject="s.a")
    assert [data for _, data in pull(client)] == [b"owed"]
    make_consumer(client, filter_subject="s.b")
    client.publish_acked("s.b", b"purged")

    client.api("STREAM.PURGE.S", {"filter": "s.b"})

    info = client.api("CONSUMER.INFO.S.c")
    assert (info["ack_floor"]["stream_seq"], info["num_ack_pending"]) == (0, 1)


def test_what_was_given_up_is_kept_after_a_purge_that_the_disk_refused() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client, retention="interest")
    make_consumer(client, "once", max_deliver=1, ack_wait=10**9)
    make_consumer(client, "other")
    client.publish_acked("s.a", b"given up")
    pull(client, "once")
    driver.advance(2)
    fail_next_commit(driver)
    assert "error" in client.api("STREAM.PURGE.S")

    [(token, _)] = pull(client, "other")
    driver.advance(1)
    client.request(token, b"+ACK")

    assert client.api("STREAM.INFO.S")["state"]["messages"] == 1


def give_up_a_message(driver: BrokerDriver, client: FakeConnection) -> None:
    """Sequence 1 is delivered as often as allowed, and never acknowledged."""
    make_stream(client)
    make_consumer(client, max_deliver=2, ack_wait=10**9)
    client.publish_acked("s.a", b"given up")
    for _ in range(3):
        pull(client)
        driver.advance(2)


def test_a_message_given_up_and_deleted_is_no_longer_counted() -> None:
    driver = new_driver()
    client = driver.connect()
    give_up_a_message(driver, client)
    assert client.api("CONSUMER.INFO.S.c")["num_redelivered"] == 1

    client.api("STREAM.MSG.DELETE.S", {"seq": 1})

    assert client.api("CONSUMER.INFO.S.c")["num_redelivered"] == 0


def test_a_message_given_up_and_deleted_is_no_longer_counted_after_a_kill_in_between() -> None:
    driver = new_driver()
    client = driver.connect()
    give_up_a_message(driver, client)

    driver.holds_commits = True
    client.start_request("$JS.API.STREAM.MSG.DELETE.S", b'{"seq": 1}')
    stop_before(driver, APPEND, "state.log")
    driver.holds_commits = False
    driver.crash()

    client = driver.connect()
    assert client.api("STREAM.INFO.S")["state"]["messages"] == 0
    assert client.api("CONSUMER.INFO.S.c")["num_redelivered"] == 0


def test_a_refused_pause_is_over_only_when_what_was_owed_is_owed_again() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client)
    make_consumer(client, max_ack_pending=1)
    for data in (b"owed", b"next"):
        client.publish_acked("s.a", data)
    assert [data for _, data in pull(client, batch=1)] == [b"owed"]
    driver.advance(1)
    client.start_request("$JS.API.CONSUMER.MSG.NEXT.S.c", pull_body({"no_wait": False}))
    driver.holds_commits = True
    client.start_request("$JS.API.CONSUMER.PAUSE.S.c", b'{"pause_until": "2100-01-01T00:00:00Z"}')
    client.start_request("$JS.API.STREAM.MSG.DELETE.S", b'{"seq": 1}')
    driver.finish_commit("disk full")
    driver.holds_commits = False
    driver.settle()

    assert info(client)["num_ack_pending"] == 1
    assert [message.data for message in client.take_messages() if message.reply.startswith("$JS.ACK")] == []


def test_what_a_work_queue_keeps_unread_outlives_a_commit_that_the_disk_refused() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client, retention="workqueue")
    make_consumer(client, filter_subject="s.a")
    client.publish_acked("s.b", b"unread")
    client.publish_acked("s.a", b"done")
    [(token, _)] = pull(client)
    client.request(token, b"+ACK")
    make_consumer(client)
    fail_next_commit(driver)
    assert "error" in client.publish_acked("s.a", b"refused")

    driver.advance(1)

    assert client.api("STREAM.INFO.S")["state"]["messages"] == 1
    assert client.api("STREAM.MSG.GET.S", {"seq": 1})["message"]["subject"] == "s.b"


def test_a_work_queue_whose_consumer_was_set_ahead_keeps_what_it_skipped_after_a_refused_commit() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client, retention="workqueue")
    make_consumer(client)
    for number in range(3):
        client.publish_acked("s.a", b"%d" % number)
    client.api("CONSUMER.RESET.S.c", {"seq": 3})
    fail_next_commit(driver)
    assert "error" in client.publish_acked("s.a", b"refused")

    driver.advance(1)

    assert client.api("STREAM.INFO.S")["state"]["messages"] == 3


def test_what_a_start_takes_for_acknowledged_goes_again_when_its_commit_was_refused() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client, retention="workqueue")
    make_consumer(client)
    client.publish_acked("s.a", b"done")
    client.publish_acked("s.a", b"kept")
    client.api("CONSUMER.RESET.S.c", {"seq": 2})
    fail_next_commit(driver)
    driver.restart()
    client = driver.connect()
    driver.advance(1)

    assert client.api("STREAM.INFO.S")["state"]["messages"] == 1


def test_a_consumer_of_the_last_message_that_was_reset_does_not_begin_anew_after_a_refused_commit() -> None:
    driver = new_driver()
    client = driver.connect()
    make_stream(client)
    client.publish_acked("s.a", b"done")
    make_consumer(client, deliver_policy="last")
    [(token, _)] = pull(client)
    assert client.request(token, b"+ACK") is not None
    driver.holds_commits = True
    client.publish("s.a", b"refused")
    client.start_request("$JS.API.CONSUMER.RESET.S.c", b"")
    driver.finish_commit("disk full")
    driver.holds_commits = False
    driver.advance(1)

    assert pull(client) == []
