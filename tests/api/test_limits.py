"""How many consumers a stream may have."""

import pytest

from jetspark.api.limits import AccountLimits, ServerLimits, consumers_allowed


@pytest.mark.parametrize(
    ("stream", "account", "allowed"),
    [(-1, -1, 1000), (5, -1, 5), (-1, 7, 7), (5, 7, 5), (9, 7, 7), (2000, -1, 2000), (-1, 2000, 2000)],
)
def test_the_stream_decides_within_its_account_and_the_server_when_neither_does(
    stream: int, account: int, allowed: int
) -> None:
    assert consumers_allowed(stream, ServerLimits(), AccountLimits(max_consumers=account)) == allowed
