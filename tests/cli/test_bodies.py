"""Templates, headers and bodies become what is sent."""

from __future__ import annotations

import random

import pytest

from jetspark.cli.bodies import Templates, read_headers
from jetspark.cli.errors import UsageError


@pytest.fixture
def templates() -> Templates:
    return Templates(chance=random.Random(1))


def test_count_and_request_are_filled_in(templates: Templates) -> None:
    assert templates.fill("{{Count}}: {{ .Request }}", 7, request=b"hello") == "7: hello"


def test_random_text_is_between_the_two_lengths(templates: Templates) -> None:
    lengths = {len(templates.fill("{{ Random 3 5 }}", 1)) for _ in range(200)}

    assert lengths == {3, 4, 5}


def test_ids_are_never_the_same(templates: Templates) -> None:
    assert len({templates.fill("{{ID}}", 1) for _ in range(1000)}) == 1000


def test_times_are_of_now(templates: Templates) -> None:
    seconds, nanoseconds = templates.fill("{{Unix}} {{UnixNano}}", 1).split()

    assert int(nanoseconds) // 1_000_000_000 in (int(seconds), int(seconds) + 1)
    assert templates.fill("{{TimeStamp}}", 1).startswith("20")


def test_braces_that_are_no_template_stay(templates: Templates) -> None:
    assert templates.fill('{"a": {{x}}}', 1) == '{"a": {{x}}}'


def test_templates_can_be_switched_off() -> None:
    assert Templates(enabled=False).fill("{{Count}}", 1) == "{{Count}}"


def test_a_random_text_needs_two_lengths(templates: Templates) -> None:
    with pytest.raises(UsageError, match="needs two lengths"):
        templates.fill("{{Random 9}}", 1)


def test_a_header_is_a_name_a_colon_and_a_value() -> None:
    assert read_headers(["A:b", "C: d:e"]) == [("A", "b"), ("C", "d:e")]
    with pytest.raises(UsageError, match="'A=b' is not KEY:VALUE"):
        read_headers(["A=b"])
