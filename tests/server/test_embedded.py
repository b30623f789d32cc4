"""The server inside another program."""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import socket
from pathlib import Path

import pytest

from jetspark.server.embedded import RunningServer, serve, serve_async
from jetspark.server.options import Options, OptionsError

pytest_plugins = ["pytester"]


def read_info(port: int) -> dict[str, object]:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        line = connection.makefile("rb").readline()
    document: dict[str, object] = json.loads(line.removeprefix(b"INFO "))
    return document


def test_a_thread_serves_until_the_block_ends() -> None:
    with serve() as server:
        assert read_info(server.port)["jetstream"] is True
        assert server.url == f"nats://127.0.0.1:{server.port}"

    with pytest.raises(OSError, match="refused"):
        read_info(server.port)


def test_two_servers_run_side_by_side() -> None:
    with serve() as one, serve() as two:
        assert one.port != two.port
        assert read_info(one.port)["server_id"] != read_info(two.port)["server_id"]


async def test_the_callers_loop_serves_until_the_block_ends() -> None:
    async with serve_async(jetstream=False) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert (await reader.readline()).startswith(b"INFO ")
        writer.close()


def test_a_given_store_stays_and_a_temporary_one_goes(tmp_path: Path) -> None:
    with serve(store_dir=tmp_path / "mine") as server:
        assert Path(server.server.store_path).is_relative_to(tmp_path / "mine")
    with serve() as server:
        temporary = Path(server.server.store_path)
        assert temporary.exists()

    assert (tmp_path / "mine" / "jetstream").exists()
    assert not temporary.exists()


def test_a_failure_to_start_reaches_the_caller(tmp_path: Path) -> None:
    with serve(store_dir=tmp_path), pytest.raises(OptionsError, match="in use"), serve(store_dir=tmp_path):
        pass


def test_a_configuration_file_may_be_given(tmp_path: Path) -> None:
    file = tmp_path / "a.conf"
    file.write_text("max_payload: 1234\n")

    with serve(config_file=file, jetstream=False) as server:
        assert read_info(server.port)["max_payload"] == 1234


def test_options_may_be_given_whole() -> None:
    options = Options(host="127.0.0.1", port=-1, server_name="whole")

    with serve(options) as server:
        assert read_info(server.port)["server_name"] == "whole"


def test_an_error_in_the_block_is_the_callers_and_the_server_stops() -> None:
    seen: list[RunningServer] = []

    def use() -> None:
        with serve(jetstream=False) as server:
            seen.append(server)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        use()
    with pytest.raises(OSError, match="refused"):
        read_info(seen[0].port)


@pytest.mark.long
def test_the_pytest_fixture_gives_a_server(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import socket

        def test_it(jetspark_server):
            with socket.create_connection((jetspark_server.host, jetspark_server.port), timeout=5) as connection:
                assert connection.recv(5) == b"INFO "
        """
    )

    # An installed package brings the plugin along; a bare source tree has to name it.
    is_installed = any(
        entry.value == "jetspark.testing.pytest_plugin" for entry in importlib.metadata.entry_points(group="pytest11")
    )
    arguments = [] if is_installed else ["-p", "jetspark.testing.pytest_plugin"]

    result = pytester.runpytest_subprocess(*arguments, "-p", "no:cacheprovider")

    result.assert_outcomes(passed=1)


def test_a_port_that_is_taken_is_named() -> None:
    with serve() as first:
        taken = f"{first.host}:{first.port}"
        with pytest.raises(OSError, match=f"{taken}: bind: address already in use"), serve(port=first.port):
            pass
