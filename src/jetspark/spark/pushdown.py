"""Filters of a batch pushed down to the server: sequences, times and subjects become a narrower range.

Only behind option filterPushdown. Spark 4.3.0 keeps one plan for each `load()` and overwrites it with every filter that
is pushed, so a DataFrame that is used twice with different filters gets the rows of the last one both times. One
`load()` for each query is safe. Spark checks every filter again afterwards: what is pushed only needs to let through at
least what matches.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from jetspark.protocol.subjects import is_literal, is_subset, is_valid_subject
from jetspark.spark import columns
from jetspark.spark.batch_reader import JetStreamReader
from jetspark.spark.facts import Facts, sequence_at

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from jetspark.spark.options import Options

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class PushingReader(JetStreamReader):
    """A batch read that narrows itself to what Spark will keep."""

    def __init__(self, options: Options, schema: StructType) -> None:
        super().__init__(options, schema)
        # Both ends included; None: no bound.
        self._sequence_least: int | None = None
        self._sequence_most: int | None = None
        # From the first on, before the second.
        self._time_from_ns: int | None = None
        self._time_before_ns: int | None = None

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take what helps, and give every filter back: Spark checks them all."""
        for one in filters:
            name = getattr(one, "attribute", ())
            if name == (columns.SEQUENCE,):
                self._push_sequence(one)
            elif name == (columns.TIMESTAMP,):
                self._push_time(one)
            elif name == (columns.SUBJECT,):
                self._push_subject(one)
        return filters

    def bounds(self, facts: Facts) -> tuple[int, int]:
        """The range the options give, and of that what the filters leave."""
        first, last = super().bounds(facts)
        if self._sequence_least is not None:
            first = max(first, self._sequence_least)
        if self._sequence_most is not None:
            last = min(last, self._sequence_most)
        if self._time_from_ns is not None:
            found = sequence_at(self._options, facts, self._time_from_ns)
            first = max(first, found if found is not None else facts.last + 1)
        if self._time_before_ns is not None:
            found = sequence_at(self._options, facts, self._time_before_ns)
            last = min(last, found - 1 if found is not None else last)
        return first, last

    def _push_sequence(self, one: Filter) -> None:
        value = getattr(one, "value", None)
        if isinstance(one, In):
            numbers = [number for number in one.value if isinstance(number, int)]
            if numbers and len(numbers) == len(one.value):
                self._narrow(min(numbers), max(numbers))
        elif not isinstance(value, int):
            return
        elif isinstance(one, (EqualTo, EqualNullSafe)):
            self._narrow(value, value)
        elif isinstance(one, GreaterThan):
            self._narrow(value + 1, None)
        elif isinstance(one, GreaterThanOrEqual):
            self._narrow(value, None)
        elif isinstance(one, LessThan):
            self._narrow(None, value - 1)
        elif isinstance(one, LessThanOrEqual):
            self._narrow(None, value)

    def _narrow(self, least: int | None, most: int | None) -> None:
        if least is not None:
            self._sequence_least = max(least, self._sequence_least or 0)
        if most is not None:
            self._sequence_most = most if self._sequence_most is None else min(most, self._sequence_most)

    def _push_time(self, one: Filter) -> None:
        value: Any = getattr(one, "value", None)
        if not isinstance(value, datetime):
            return
        # The column is cut to microseconds, so the moment at hand lasts until the next one.
        at_ns = (value.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1) * 1000
        if isinstance(one, (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual)):
            self._time_from_ns = max(at_ns, self._time_from_ns or 0)
        if isinstance(one, (EqualTo, EqualNullSafe, LessThan, LessThanOrEqual)):
            before_ns = at_ns + 1000
            self._time_before_ns = min(before_ns, self._time_before_ns or before_ns)

    def _push_subject(self, one: Filter) -> None:
        value = getattr(one, "value", None)
        wanted: list[str] = []
        if isinstance(one, (EqualTo, EqualNullSafe)) and isinstance(value, str):
            wanted = [value]
        elif isinstance(one, In) and all(isinstance(text, str) for text in one.value):
            wanted = list(one.value)
        elif isinstance(one, StringStartsWith) and one.value.endswith("."):
            wanted = [one.value + ">"]
        given = self._options["subjects"] or (">",)
        is_narrower = all(any(is_subset(text.encode(), wide.encode()) for wide in given) for text in wanted)
        if wanted and is_narrower and all(_is_pushable(text) for text in wanted):
            self._options = self._options.with_values(subjects=tuple(sorted(set(wanted))))


def _is_pushable(text: str) -> bool:
    """A subject, or a prefix of one; a filter on text with wildcards in it means these very characters."""
    body = text.removesuffix(".>").encode()
    return is_valid_subject(body) and is_literal(body)
