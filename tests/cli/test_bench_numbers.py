"""The arithmetic of a benchmark."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.cli.bench_numbers import ClientResult, Latency, Outcome, histogram, percentile
from jetspark.cli.bench_plan import Kind, Plan
from jetspark.cli.bench_report import Side, document, microseconds, ratio
from jetspark.cli.charts import sparkline

SECOND_NS = 1_000_000_000
durations = st.lists(st.integers(1, 10**10), min_size=1, max_size=300)


def client(count: int, start_s: float, end_s: float, marks: list[tuple[int, int]] | None = None) -> ClientResult:
    return ClientResult(count, count * 10, int(start_s * SECOND_NS), int(end_s * SECOND_NS), [], marks or [])


@pytest.mark.parametrize(
    ("percent", "wanted"), [(0.1, 1), (50, 50), (90, 90), (99, 99), (99.9, 100), (100, 100)], ids=str
)
def test_percentiles_of_one_to_a_hundred(percent: float, wanted: int) -> None:
    assert percentile(range(1, 101), percent) == wanted


@given(durations)
def test_percentiles_rise_and_stay_within_what_was_measured(values: list[int]) -> None:
    latency = Latency.of(values)

    assert latency is not None
    rising = [latency.min_ns, latency.p50_ns, latency.p90_ns, latency.p99_ns, latency.p999_ns, latency.max_ns]
    assert rising == sorted(rising)
    assert (rising[0], rising[-1], latency.count) == (min(values), max(values), len(values))


@given(durations)
def test_a_histogram_loses_nothing_and_hides_nothing(values: list[int]) -> None:
    rows = histogram(values)

    assert sum(row.count for row in rows) == len(values)
    assert [bool(row.bar) for row in rows] == [row.count > 0 for row in rows]
    assert rows[-1].limit_ns == max(values)


def test_no_durations_are_no_latency() -> None:
    assert Latency.of([]) is None
    assert histogram([]) == []


def test_a_sparkline_is_as_high_as_its_values() -> None:
    assert sparkline([0, 1, 2, 4]) == "▁▃▅█"
    assert sparkline([0, 0]) == "▁▁"
    assert sparkline([]) == ""


def test_clients_are_added_up_from_the_first_start_to_the_last_end() -> None:
    outcome = Outcome([client(100, 0, 1), client(100, 1, 2)])

    assert outcome.elapsed_s == 2.0
    assert outcome.rate == 100.0
    assert outcome.byte_rate == 1000.0
    assert outcome.spread() == (100.0, 100.0, 100.0, 0.0)


def test_a_client_that_got_nothing_does_not_stretch_the_run() -> None:
    assert Outcome([client(100, 0, 1), client(0, 0, 9)]).elapsed_s == 1.0


def test_rates_over_time_follow_the_marks() -> None:
    # Ten in the first second, ninety in the second.
    outcome = Outcome([client(100, 0, 2, [(SECOND_NS, 10)])])

    assert outcome.rates_over_time(2) == [10.0, 90.0]


@given(st.integers(1, 1000), st.integers(1, 20))
def test_clients_share_all_messages_and_none_twice(message_count: int, client_count: int) -> None:
    plan = Plan(kind=Kind.JS_SYNC, message_count=message_count, client_count=client_count)

    shares = [number for place in range(client_count) for number in plan.share(place)]

    assert shares == list(range(message_count))


def test_every_ordered_reader_reads_everything() -> None:
    plan = Plan(kind=Kind.ORDERED, message_count=10, client_count=3)

    assert [len(plan.share(place)) for place in range(3)] == [10, 10, 10]
    assert plan.total_count == 30


def test_multi_subject_goes_through_the_subjects_in_turn() -> None:
    plan = Plan(kind=Kind.PUB, subject="s", message_count=6, multi_subject=True, multi_subject_max=4)

    assert plan.subjects(range(6), Random(1)) == ["s.0", "s.1", "s.2", "s.3"]
    assert plan.pattern == "s.*"


@pytest.mark.parametrize(
    ("duration_ns", "wanted"),
    [(950, "950 ns"), (1500, "1.50 µs"), (87_300, "87.3 µs"), (451_000_000, "451 ms"), (1_200_000_000, "1.20 s")],
)
def test_latencies_have_three_digits(duration_ns: int, wanted: str) -> None:
    assert microseconds(duration_ns) == wanted


def test_the_ratio_is_of_the_medians() -> None:
    first = Side("nats://a", "a", [Outcome([client(count, 0, 1)]) for count in (10, 200, 300)])
    second = Side("nats://b", "b", [Outcome([client(count, 0, 1)]) for count in (100, 50, 900)])

    assert ratio([first, second]) == 2.0
    assert first.median.rate == 200.0
    assert document(Plan(kind=Kind.PUB), [first, second])["ratio"] == 2.0
