"""The nats-server the oracle tests compare with."""

from collections.abc import Iterator

import pytest
from tests.api.nats_oracle import Oracle, find_nats_server


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    binary = find_nats_server()
    if binary is None:
        pytest.skip("no nats-server binary: install the test dependencies to compare with it")
    server = Oracle(binary, tmp_path_factory.mktemp("oracle"))
    yield server
    server.close()
