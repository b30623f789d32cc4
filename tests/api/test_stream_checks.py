"""Rules on streams; the wide table is in the tests against nats-server, here are those that hold without it."""

import pytest

from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.error_codes import ApiError
from jetspark.api.limits import AccountLimits, ServerLimits
from jetspark.api.stream_checks import StreamContext, check_new_stream, check_stream_update
from jetspark.api.stream_config import ConsumerLimits, Discard, Storage, StreamConfig
from jetspark.api.timestamps import MINUTE, SECOND


def refusal(config: StreamConfig, context: StreamContext | None = None, *, update: bool = False) -> tuple[int, str]:
    check = check_stream_update if update else check_new_stream
    with pytest.raises(ApiError) as refused:
        check(config, context or StreamContext())
    return refused.value.err_code, refused.value.description


def context(*streams: StreamConfig, limits: AccountLimits | None = None) -> StreamContext:
    return StreamContext(
        streams={stream.name: check_new_stream(stream, StreamContext()) for stream in streams},
        account_limits=limits or AccountLimits(),
    )


def test_a_stream_without_subjects_listens_to_its_name() -> None:
    stream = check_new_stream(StreamConfig(name="S"), StreamContext())

    assert stream.subjects == ("S",)
    assert stream.duplicate_window == 2 * MINUTE
    assert stream.metadata == {"_nats.req.level": "0"}


def test_the_first_broken_rule_is_the_answer() -> None:
    assert refusal(StreamConfig(name="a.b", max_age=-1))[0] == 10052
    assert "name is required" in refusal(StreamConfig(name="a.b", max_age=-1))[1]


def test_a_name_of_255_bytes_is_the_longest() -> None:
    check_new_stream(StreamConfig(name="n" * 255), StreamContext())

    assert refusal(StreamConfig(name="n" * 256)) == (10052, "stream name is too long, maximum allowed is 255")


def test_the_name_in_the_subject_must_be_the_name_in_the_body() -> None:
    with pytest.raises(ApiError, match="does not match request"):
        check_new_stream(StreamConfig(name="S"), StreamContext(), subject_name="T")
    with pytest.raises(ApiError, match="path separators"):
        check_new_stream(StreamConfig(name="a/b"), StreamContext(), subject_name="a/b")


def test_creating_the_same_stream_again_gives_the_existing_one() -> None:
    there = context(StreamConfig(name="S", metadata={"k": "v"}))

    assert check_new_stream(StreamConfig(name="S", metadata={"k": "v"}), there) is there.streams["S"]
    assert refusal(StreamConfig(name="S"), there)[0] == 10058


def test_a_full_account_takes_no_new_stream_but_keeps_its_own() -> None:
    full = context(StreamConfig(name="A"), StreamConfig(name="B"), limits=AccountLimits(max_streams=2))

    assert refusal(StreamConfig(name="C"), full)[0] == 10027
    assert check_new_stream(StreamConfig(name="A"), full).name == "A"


def test_reservations_of_other_streams_count_and_those_of_the_stream_itself_do_not() -> None:
    there = context(
        StreamConfig(name="A", max_bytes=600), StreamConfig(name="M", max_bytes=900, storage=Storage.MEMORY),
        limits=AccountLimits(max_storage=1000),
    )  # fmt: skip

    assert refusal(StreamConfig(name="B", max_bytes=500), there)[0] == 10047
    assert check_new_stream(StreamConfig(name="B", max_bytes=400), there).max_bytes == 400
    assert check_stream_update(StreamConfig(name="A", max_bytes=1000), there).max_bytes == 1000
    assert refusal(StreamConfig(name="A", max_bytes=1001), there, update=True)[0] == 10047


def test_the_servers_memory_is_shared_by_all_accounts() -> None:
    busy = StreamContext(server_limits=ServerLimits(max_memory_bytes=1000), reserved_memory_bytes=900)

    assert refusal(StreamConfig(name="B", max_bytes=200, storage=Storage.MEMORY), busy)[0] == 10028


def test_sealing_sets_what_a_sealed_stream_needs() -> None:
    there = context(StreamConfig(name="S", max_age=SECOND, allow_rollup_hdrs=True))

    sealed = check_stream_update(StreamConfig(name="S", max_age=SECOND, allow_rollup_hdrs=True, sealed=True), there)

    assert (sealed.max_age, sealed.discard) == (0, Discard.NEW)
    assert (sealed.deny_delete, sealed.deny_purge, sealed.allow_rollup_hdrs) == (True, True, False)


def test_an_update_of_a_missing_stream_is_refused() -> None:
    assert refusal(StreamConfig(name="S"), update=True) == (10059, "stream not found")


def test_consumer_limits_may_not_fall_below_a_consumer() -> None:
    there = context(StreamConfig(name="S"))
    consumers = {"b": ConsumerConfig(max_ack_pending=10), "a": ConsumerConfig(max_ack_pending=11)}
    lower = StreamConfig(name="S", consumer_limits=ConsumerLimits(max_ack_pending=5))

    with pytest.raises(ApiError, match="change to limits violates consumers: a, b"):
        check_stream_update(lower, there, consumers=consumers)


def test_subjects_may_not_overlap_with_another_stream_when_updating() -> None:
    there = context(StreamConfig(name="S"), StreamConfig(name="T", subjects=("t.>",)))

    assert refusal(StreamConfig(name="S", subjects=("t.a",)), there, update=True)[0] == 10065


def test_a_changed_feature_changes_the_level_a_stream_requires() -> None:
    there = context(StreamConfig(name="S"))

    updated = check_stream_update(StreamConfig(name="S", allow_batched=True), there)

    assert updated.metadata == {"_nats.req.level": "4"}
