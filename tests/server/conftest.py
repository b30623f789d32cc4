"""Fixtures of the server's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.server.harness import MemorySink, Running, StartServer

from jetspark.server.embedded import embedded_options
from jetspark.server.log import Logger
from jetspark.server.options import Options
from jetspark.server.options_reader import read_config_file
from jetspark.server.server import Server
from jetspark.store.disk import Disk


@pytest.fixture
async def start_server(tmp_path: Path) -> AsyncIterator[StartServer]:
    """Start servers: `await start_server(options)` or `await start_server(config="…")`."""
    started: list[Running] = []

    async def start(
        options: Options | None = None, *, config: str = "", jetstream: bool = False, disk: Disk | None = None
    ) -> Running:
        options = options or embedded_options(jetstream=jetstream)
        if config:
            file = tmp_path / "server.conf"
            file.write_text(config)
            options, _ = read_config_file(str(file), options)
        if options.jetstream.enabled and not options.jetstream.store_dir:
            options.jetstream.store_dir = str(tmp_path / "store")
        sink = MemorySink()
        server = Server(options, logger=Logger(sink, debug=True, trace=options.trace), disk=disk)
        await server.start()
        started.append(Running(server, sink))
        return started[-1]

    yield start
    for running in started:
        await running.close()
