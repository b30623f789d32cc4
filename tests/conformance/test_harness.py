"""The comparison itself: what it hides, and what it must not hide."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from tests.conformance.compare import transcript_differences
from tests.conformance.masking import Masker
from tests.conformance.sequences import steps_of

NOW = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S")


@pytest.mark.parametrize("ending", ["Z", ".5Z", ".123456789Z"])
def test_a_time_near_the_present_is_hidden(ending: str) -> None:
    assert Masker().text(NOW + ending) == "<time>"


@pytest.mark.parametrize("ending", [".120Z", ".1234567890Z", "", ".5"])
def test_a_time_in_another_form_shows(ending: str) -> None:
    assert Masker().text(NOW + ending) != "<time>"


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "2099-01-01T00:00:00Z"])
def test_a_fixed_time_shows(text: str) -> None:
    assert Masker().text(text) == text


def test_the_same_id_has_the_same_placeholder() -> None:
    masker = Masker()
    one, two = "A" * 22, "B" * 22

    assert masker.text(f"{one} {two} {one}") == "<nuid:1> <nuid:2> <nuid:1>"


def test_sequences_and_counts_show() -> None:
    document = {"seq": 5, "num_pending": 3, "description": "order 5"}

    assert Masker().document(document) == document


def test_an_ack_subject_shows_all_but_its_time() -> None:
    subject = f"$JS.ACK.S.C.1.2.3.{time.time_ns()}.4"

    assert Masker().text(subject) == "$JS.ACK.S.C.1.2.3.<unix-ns>.4"


def test_differences_name_the_event_and_the_field() -> None:
    expected = [{"event": "api", "what": "INFO", "payload": {"a": 1, "b": [1, 2]}}]
    actual = [{"event": "api", "what": "INFO", "payload": {"a": 1.0, "b": [1], "c": None}}]

    assert transcript_differences(expected, actual) == [
        "#0 api INFO .payload.a: reference 1 | ours 1.0",
        "#0 api INFO .payload.b[1]: reference 2 | ours '<missing>'",
        "#0 api INFO .payload.c: reference '<missing>' | ours None",
    ]


def test_a_missing_event_is_a_difference() -> None:
    assert transcript_differences([{"event": "message", "what": ""}], [])


def test_a_seed_always_gives_the_same_steps() -> None:
    assert steps_of(7, 50) == steps_of(7, 50)
    assert steps_of(7, 50) != steps_of(8, 50)
