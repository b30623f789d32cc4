"""The `Nats-TTL` header."""

import pytest

from jetspark.api.error_codes import ApiError
from jetspark.api.message_ttl import NEVER, parse_message_ttl


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", 0), ("5", 5), ("1h", 3600), ("1.9s", 1), ("never", NEVER), ("Never", NEVER), ("1m30s", 90), ("00", 0)],
)
def test_a_ttl_is_whole_seconds(text: str, seconds: int) -> None:
    assert parse_message_ttl(text) == seconds


@pytest.mark.parametrize("text", ["0", "999ms", "-1", "x", "1d", " 5"])
def test_less_than_a_second_or_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ApiError) as refused:
        parse_message_ttl(text)

    assert refused.value.err_code == 10165


def test_a_ttl_of_ages_still_fits_a_clock() -> None:
    assert parse_message_ttl("9" * 30) * 1_000_000_000 < 1 << 63


def test_a_ttl_of_any_length_is_read_or_refused() -> None:
    assert parse_message_ttl("0" * 5_000 + "7") == 7
    assert parse_message_ttl("9" * 5_000) == parse_message_ttl("9" * 30)
    with pytest.raises(ApiError):
        parse_message_ttl("9" * 5_000 + "s")
