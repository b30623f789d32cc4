"""Names of streams and consumers."""

import pytest

from jetspark.api.asset_names import has_path_separator, is_valid_asset_name, metadata_bytes
from jetspark.api.priority_group import is_valid_group_name


@pytest.mark.parametrize("name", ["S", "ORDERS-1", "orders_eu", "$x", "é", "a:b"])
def test_names_may_be_almost_anything(name: str) -> None:
    assert is_valid_asset_name(name)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a*", ">", "a\tb", "a/b", "a\\b", "a\n"])
def test_names_may_not_leave_their_token_or_directory(name: str) -> None:
    assert not is_valid_asset_name(name)


def test_path_separators_are_told_apart_from_other_mistakes() -> None:
    assert has_path_separator("a/b")
    assert has_path_separator("a\\b")
    assert not has_path_separator("a.b")


def test_metadata_is_measured_in_bytes() -> None:
    assert metadata_bytes({"é": "ab", "k": ""}) == 5


def test_priority_groups_have_short_plain_names() -> None:
    assert is_valid_group_name("a-Z_0/=")
    assert not is_valid_group_name("")
    assert not is_valid_group_name("x" * 17)
    assert not is_valid_group_name("a\n")
    assert not is_valid_group_name("é")
