"""`jetspark errors`: what a number in brackets means, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jetspark.api.error_codes import ErrorCode
from jetspark.cli.main import cli
from jetspark.client import api_errors


def run(*arguments: str) -> Result:
    # Nobody listens there: a command that asked would fail.
    return CliRunner(env={"NATS_URL": "nats://127.0.0.1:1", "NO_COLOR": "1"}).invoke(cli, ["errors", *arguments])


def document(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def test_an_error_is_explained_with_the_exception_a_program_catches() -> None:
    shown = run("lookup", "10059").stdout

    assert shown.startswith("NATS Error Code: 10059\n")
    for row in (
        "Description: stream not found",
        "HTTP Code: 404",
        "Name: STREAM_NOT_FOUND",
        "Meaning: No such stream.",
    ):
        assert row in shown
    assert document("lookup", "10059") == {
        "constant": "STREAM_NOT_FOUND",
        "code": 404,
        "error_code": 10059,
        "description": "stream not found",
        "exception": "jetspark.client.api_errors.StreamNotFoundError",
    }


def test_every_error_is_listed_with_an_exception_that_exists() -> None:
    listed = document("ls")

    assert [one["error_code"] for one in listed] == sorted(int(row) for row in ErrorCode)
    for one in listed:
        module, _, name = one["exception"].rpartition(".")
        assert name == "ApiError" or getattr(api_errors, name).__module__ == module


@pytest.mark.parametrize("match", ["LAST sequence", "10071", "wrong_last_seq", "WrongLastSequenceError"])
def test_errors_are_found_by_words_numbers_and_names(match: str) -> None:
    assert 10071 in [one["error_code"] for one in document("ls", match)]
    assert "wrong last sequence: {seq}" in run("ls", match).stdout


def test_a_list_is_sorted_as_asked_either_way() -> None:
    by_status = [one["code"] for one in document("ls", ".", "http")]
    by_words = [one["description"] for one in document("ls", ".", "d", "-R")]

    assert by_status == sorted(by_status)
    assert by_words == sorted(by_words, reverse=True)


@pytest.mark.parametrize(
    ("line", "exit_code", "told"),
    [
        (["lookup", "3"], 4, "no error has the code 3; codes are 10002 to "),
        (["lookup", "x"], 2, "'x' is not a valid integer"),
        (["ls", "zzz"], 4, "no error matches 'zzz'"),
        (["ls", "("], 2, "'(' is no regular expression"),
    ],
)
def test_what_is_not_there_says_so(line: list[str], exit_code: int, told: str) -> None:
    result = run(*line)

    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert told in result.stderr
