"""Planning is a pure function: ranges cover what they should, once, and skip only what is deleted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.spark import planner
from jetspark.spark.offsets import BadOffsetError, Offset, Position

SEQUENCES = st.sets(st.integers(1, 300), max_size=200)


def naive_runs(sequences: set[int]) -> set[int]:
    return {one for first, last in planner.runs_of(sorted(sequences)) for one in range(first, last + 1)}


@given(SEQUENCES)
def test_runs_hold_the_same_sequences_in_order_and_never_touch(deleted: set[int]) -> None:
    runs = planner.runs_of(sorted(deleted))

    assert naive_runs(deleted) == deleted
    assert all(runs[index][1] + 1 < runs[index + 1][0] for index in range(len(runs) - 1))


@given(st.integers(1, 50), st.integers(0, 300), st.integers(1, 20))
def test_a_cut_range_is_covered_once_and_in_order(first: int, span: int, parts: int) -> None:
    cuts = planner.cut(first, first + span - 1, parts)

    assert [one for low, high in cuts for one in range(low, high + 1)] == list(range(first, first + span))
    sizes = [high - low + 1 for low, high in cuts]
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert len(cuts) == min(parts, span)


@given(SEQUENCES, st.integers(1, 100), st.integers(0, 200), st.integers(1, 8))
def test_an_even_cut_covers_every_message_once_and_shares_them_out(
    deleted: set[int], first: int, span: int, parts: int
) -> None:
    last = first + span - 1
    runs = planner.runs_of(sorted(deleted))

    cuts = planner.cut_evenly(first, last, parts, runs)

    live = [one for one in range(first, last + 1) if one not in deleted]
    held = [[one for one in range(low, high + 1) if one not in deleted] for low, high in cuts]
    assert [one for part in held for one in part] == live
    if live:
        assert max(len(part) for part in held) - min(len(part) for part in held) <= 1


@pytest.mark.long
@given(SEQUENCES, st.integers(1, 200), st.integers(0, 100), st.integers(1, 300))
def test_a_narrowed_range_loses_nothing_but_deleted_messages(
    deleted: set[int], first: int, span: int, stream_first: int
) -> None:
    last = first + span - 1
    live = [one for one in range(max(first, stream_first), last + 1) if one not in deleted]

    left = planner.narrowed(first, last, stream_first, planner.runs_of(sorted(deleted)))

    assert left.count == len(live)
    assert [one for one in range(left.first, left.last + 1) if one not in deleted] == live
    if live:
        assert (left.first, left.last) == (live[0], live[-1])
    else:
        assert left.is_empty


def test_without_details_of_deletes_a_range_is_only_moved_to_the_streams_first_message() -> None:
    assert planner.narrowed(5, 100, 20, None) == planner.Range(20, 100, None)


@given(st.dictionaries(st.sampled_from("ABCDE"), st.integers(0, 1000), min_size=1), st.integers(1, 2000))
def test_a_limit_is_shared_out_and_used_up(backlog: dict[str, int], most: int) -> None:
    shares = planner.share_out(backlog, most)

    assert sum(shares.values()) == min(most, sum(backlog.values()))
    assert all(0 <= shares[name] <= backlog[name] for name in backlog)
    assert shares == planner.share_out(dict(reversed(list(backlog.items()))), most)


def test_a_limit_in_bytes_takes_about_that_many_and_never_nothing() -> None:
    assert planner.within_bytes({"A": 1000}, {"A": 100.0}, 10_000) == {"A": 100}
    assert planner.within_bytes({"A": 1000}, {"A": 100.0}, 1) == {"A": 1}
    assert planner.within_bytes({"A": 10}, {"A": 100.0}, 10_000) == {"A": 10}


@pytest.mark.parametrize(
    ("span", "messages", "least", "most", "parts"),
    [(1000, 1000, 1, 250, 4), (1001, 2000, 1, 250, 5), (10, 10, 4, 250, 4), (3, 3, 8, 250, 3), (10**9, 100, 1, 250, 1)],
)
def test_parts_follow_the_options_and_what_is_really_there(
    span: int, messages: int, least: int, most: int, parts: int
) -> None:
    assert planner.part_count(span, messages, least, most) == parts


def test_an_offset_is_the_same_text_however_it_was_made() -> None:
    one = Offset({"B": Position(5, "2026"), "A": Position(7, "2025", start=3, parts=4)})
    other = Offset({"A": Position(7, "2025", start=3, parts=4), "B": Position(5, "2026")})

    text = json.dumps(one.to_json())

    assert text == json.dumps(other.to_json())
    assert text == json.dumps(Offset.from_json(json.loads(text)).to_json())
    assert text == (
        '{"v": 1, "streams": {"A": {"created": "2025", "from": 3, "parts": 4, "seq": 7},'
        ' "B": {"created": "2026", "seq": 5}}}'
    )


@pytest.mark.parametrize("document", [{}, {"v": 2, "streams": {}}, {"v": 1}, {"v": 1, "streams": {"A": {}}}])
def test_an_offset_of_another_kind_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(BadOffsetError, match="offset"):
        Offset.from_json(document)
