"""CONNECT, read as Go reads it."""

from __future__ import annotations

import pytest

from jetspark.api.connect_options import read_connect
from jetspark.api.error_codes import ApiError


def test_names_count_in_any_case_and_null_leaves_an_option_as_it_was() -> None:
    assert read_connect(b'{"Verbose":false,"NAME":"n","pedantic":null,"own":1}', {}) == {"verbose": False, "name": "n"}


@pytest.mark.parametrize("document", [b"{}", b"null"])
def test_what_is_not_named_stays_as_it_was(document: bytes) -> None:
    assert read_connect(document, {"verbose": False, "headers": True}) == {"verbose": False, "headers": True}


@pytest.mark.parametrize(
    "document", [b"", b"5", b"[]", b"{} x", b'{"verbose":"yes"}', b'{"name":5}', b'{"protocol":1.0}', b'{"a":NaN}']
)
def test_a_value_of_the_wrong_type_is_refused(document: bytes) -> None:
    with pytest.raises(ApiError):
        read_connect(document, {})
