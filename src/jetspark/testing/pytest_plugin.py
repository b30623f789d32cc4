"""A JetStream server as a pytest fixture.

    def test_orders(jetspark_server):
        connect(jetspark_server.url)

One server a test, on a free loopback port, with a store of its own that is gone afterwards. pytest finds this module
through the `pytest11` entry point; nothing needs to be imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from jetspark.server.embedded import RunningServer


@pytest.fixture
def jetspark_server(tmp_path: Path) -> Iterator[RunningServer]:
    """A server with JetStream for one test; `url`, `host` and `port` say where.

    It runs in a thread of the test process, and its store is below the test's `tmp_path`. To test a restart, use
    `jetspark.serve(store_dir=…)` twice instead.
    """
    # Used here and not above: a test run that never asks for a server must not need the server's packages.
    import jetspark

    with jetspark.serve(store_dir=tmp_path / "jetspark-store") as server:
        yield server
