"""A table fits its terminal: nothing is lost, no word is broken but for long names, and it never runs over."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.conftest import Jetspark
from tests.cli.terminal import at_terminal

from jetspark.cli.table_fit import LINED, SPACED, WORD_WIDTH_MAX, fit

words = st.text("abcd", min_size=1, max_size=25)
cells = st.lists(words, max_size=4).map(" ".join)
tables = st.integers(1, 6).flatmap(
    lambda count: st.tuples(
        st.lists(words, min_size=count, max_size=count, unique=True),
        st.lists(st.lists(cells, min_size=count, max_size=count), min_size=1, max_size=4),
    )
)
STYLE = re.compile(r"\x1b\[[0-9;]*m|\r")


def longest_word(column: Sequence[str]) -> int:
    return min(WORD_WIDTH_MAX, max(len(word) for cell in column for word in cell.split()))


@pytest.mark.long
@given(tables, st.integers(10, 200))
def test_a_table_is_within_the_terminal_and_breaks_long_names_only(
    made: tuple[list[str], list[list[str]]], width: int
) -> None:
    names, rows = made
    filled = [column for column in zip(names, *rows, strict=True) if any(column[1:])]

    found = fit(names, rows, width)

    if found is None:
        assert sum(map(longest_word, filled)) + SPACED * (len(filled) - 1) > width
        return
    gap, edge = (LINED, 1) if found.is_lined else (SPACED, -SPACED)
    assert sum(found.widths) + gap * len(found.widths) + edge <= max(width, 1)
    shown = list(zip(found.columns, *found.rows, strict=True))
    assert set(filled) <= set(shown)
    assert all(wide >= longest_word(column) for wide, column in zip(found.widths, shown, strict=True))


def test_what_is_wide_enough_is_left_as_it_is() -> None:
    found = fit(["Name", "Empty"], [["a b c", ""]], 80)

    assert found is not None
    assert (found.columns, found.widths, found.is_lined) == (["Name", "Empty"], [5, 5], True)


def test_in_a_narrow_terminal_first_empty_columns_go_then_words_move_then_lines() -> None:
    names, rows = ["Some Name", "Empty", "Count"], [["one", "", "22222"]]

    without_empty, moved, unlined, nothing = (fit(names, rows, width) for width in (21, 16, 11, 10))

    assert without_empty is not None
    assert moved is not None
    assert unlined is not None
    assert (without_empty.columns, without_empty.widths) == (["Some Name", "Count"], [9, 5])
    assert (moved.widths, moved.is_lined) == ([4, 5], True)
    assert (unlined.widths, unlined.is_lined) == ([4, 5], False)
    assert nothing is None


@pytest.mark.long
def test_a_report_has_whole_words_at_a_usual_terminal(ours: Jetspark, name: str) -> None:
    ours("stream", "add", name, "--subjects", name, "--storage", "memory", "--defaults")
    for consumer in ("ONE", "TWO"):
        ours("consumer", "add", name, consumer, "--pull", "--defaults")

    streams = STYLE.sub("", at_terminal(ours, "stream", "report", COLUMNS="100").screen)
    consumers = STYLE.sub("", at_terminal(ours, "consumer", "report", name, COLUMNS="100").screen)

    for column in ("Stream", "Storage", "Consumers", "Messages"):
        assert re.search(rf"\b{column}\b", streams)
    heads = consumers.split("ONE")[0]
    for word in ("Consumer", "Redelivered", "Unprocessed", "Policy", "Waiting"):
        assert re.search(rf"\b{word}\b", heads), consumers
    assert all(len(line) <= 100 for line in (streams + consumers).split("\n"))
