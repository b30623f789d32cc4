"""The error table: numbers, words and the documents made of them."""

import re

import pytest

from jetspark.api.error_codes import ApiError, ErrorCode, api_error, make, table
from jetspark.errors import JetsparkError


def test_a_row_without_blanks_becomes_its_document() -> None:
    assert make(ErrorCode.STREAM_NOT_FOUND).to_document() == {
        "code": 404,
        "err_code": 10059,
        "description": "stream not found",
    }


def test_blanks_are_filled_by_name() -> None:
    assert make(ErrorCode.STREAM_WRONG_LAST_SEQUENCE, seq=3).description == "wrong last sequence: 3"
    assert api_error(10022, prefix="p", subject="s").description == (
        "stream external delivery prefix p overlaps with stream subject s"
    )


def test_a_value_with_braces_is_not_filled_again() -> None:
    assert make(ErrorCode.INVALID_JSON, err='can not unmarshal "{x}"').description == (
        'invalid JSON: can not unmarshal "{x}"'
    )


def test_numbers_are_unique_and_every_row_has_words() -> None:
    rows = table()

    assert len({row[0] for row in rows}) == len(rows) == len(ErrorCode)
    assert all(description and 400 <= status < 600 for _, status, _, description in rows)
    assert rows == sorted(rows)


def test_every_blank_of_the_table_is_a_plain_word() -> None:
    blanks = {blank for row in ErrorCode for blank in re.findall(r"\{(.*?)\}", row.template)}

    assert blanks == {"err", "seq", "id", "prefix", "subject", "max", "limit", "header", "size", "msg"}


def test_an_unknown_number_is_refused() -> None:
    with pytest.raises(KeyError):
        api_error(99999)


def test_api_errors_are_our_errors_and_compare_by_content() -> None:
    error = make(ErrorCode.BAD_REQUEST)

    assert isinstance(error, JetsparkError)
    assert error == ApiError.from_document(error.to_document())
    assert error != make(ErrorCode.STREAM_NOT_FOUND)
    assert len({error, make(ErrorCode.BAD_REQUEST)}) == 1


def test_an_error_of_a_newer_peer_is_read_as_far_as_it_goes() -> None:
    assert ApiError.from_document({"code": 500}) == ApiError(500, 0, "")
    assert ApiError(500, 0, "").to_document() == {"code": 500}
