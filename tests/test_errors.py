"""Errors cross processes: what a worker raises is what its parent catches."""

from __future__ import annotations

import pickle

import pytest

from jetspark.api.error_codes import ApiError
from jetspark.client import errors
from jetspark.errors import JetsparkError


@pytest.mark.parametrize(
    "error",
    [
        JetsparkError("plain"),
        ApiError(404, 10059, "stream not found"),
        errors.NoRespondersError("orders.new"),
        errors.NoStreamError("orders.new"),
        errors.PullError(409, "Consumer Deleted"),
        errors.ConnectTimeoutError("nats://127.0.0.1:4222 did not answer within 2 s"),
        errors.PublishUnknownError("1 message is not acknowledged and may be stored"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_after_it_was_pickled(error: JetsparkError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)
