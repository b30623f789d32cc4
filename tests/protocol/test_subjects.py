"""Subjects: validity, matching, overlap."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.protocol.subjects import (
    SubjectFilter,
    collides,
    has_wildcard,
    is_literal,
    is_subset,
    is_valid_subject,
    matches,
)


@pytest.mark.parametrize("subject", [b"a", b"a.b", b"a.*", b"a.>", b">", b"*", b"foo>bar", b"a*", b"$JS.API.>"])
def test_valid(subject: bytes) -> None:
    assert is_valid_subject(subject)


@pytest.mark.parametrize("subject", [b"", b".", b"a.", b".a", b"a..b", b"a b", b"a.>.b", b"a\t", b"a\r\n", b"a\0"])
def test_invalid(subject: bytes) -> None:
    assert not is_valid_subject(subject)


def test_wildcards_count_only_as_whole_tokens() -> None:
    assert [has_wildcard(subject) for subject in (b"a.*", b"a.>", b"a*", b"foo>bar")] == [True, True, False, False]
    assert is_literal(b"a*")


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        (b"a.b", b"a.b", True),
        (b"a.*", b"a.b", True),
        (b"a.*", b"a", False),
        (b"a.*", b"a.b.c", False),
        (b"a.>", b"a.b.c", True),
        (b"a.>", b"a", False),
        (b"*.b", b"a.b", True),
        (b">", b"a", True),
        (b"a*", b"ab", False),
    ],
)
def test_matching(pattern: bytes, subject: bytes, expected: bool) -> None:
    assert matches(pattern, subject) is expected
    assert SubjectFilter([pattern]).accepts(subject) is expected


def join(pair: tuple[list[bytes], bool]) -> bytes:
    return b".".join([*pair[0], b">"] if pair[1] else pair[0])


patterns = st.tuples(st.lists(st.sampled_from([b"a", b"b", b"*"]), min_size=1, max_size=3), st.booleans()).map(join)
ALL_SUBJECTS = [
    b".".join(words) for size in range(1, 6) for words in itertools.product([b"a", b"b", b"c"], repeat=size)
]


@given(patterns, patterns)
def test_overlap_and_subset_agree_with_the_subjects_themselves(left: bytes, right: bytes) -> None:
    under_left = {subject for subject in ALL_SUBJECTS if matches(left, subject)}
    under_right = {subject for subject in ALL_SUBJECTS if matches(right, subject)}

    assert collides(left, right) is bool(under_left & under_right)
    assert is_subset(left, right) is (under_left <= under_right)


def test_a_filter_of_several_patterns_takes_what_any_takes() -> None:
    chosen = SubjectFilter([b"a.*", b"b"])

    assert [s for s in (b"a.x", b"b", b"c", b"a") if chosen.accepts(s)] == [b"a.x", b"b"]
    assert SubjectFilter([]).match_all
    assert SubjectFilter([b"a.b"]).literal == b"a.b"
