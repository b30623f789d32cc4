"""Credentials files and JWTs on a server in operator mode, on both faces."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jetspark.client import errors
from jetspark.client.aio import Connection, connect
from jetspark.client.sync import connect as connect_sync
from tests.client.conftest import THEIRS, NatsServer
from tests.client.operator_keys import Operator
from tests.client.waiting import until

# Our server has no operator mode: it refuses the keys by name.
pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    made = NatsServer(tmp_path_factory.mktemp("operator"), config=Operator().server_config(), kind=THEIRS).start()
    yield made
    made.stop()


def write(folder: Path, text: str) -> str:
    path = folder / "user.creds"
    path.write_text(text)
    return str(path)


async def who(connection: Connection) -> str:
    """The user the server takes us for."""
    answer = json.loads((await connection.request("$SYS.REQ.USER.INFO")).data)
    user: str = answer["data"]["user"]
    return user


async def test_a_credentials_file_opens_both_faces(server: NatsServer, tmp_path: Path, name: str) -> None:
    path = write(tmp_path, Operator().credentials("ann"))
    async with await connect(server.url, credentials_file=path) as connection:
        stream = await connection.jetstream().create_stream(name, subjects=[name], storage="memory")
        assert (await connection.jetstream().publish(name, b"1")).seq == 1
        await stream.delete()

    def blocking() -> None:
        with connect_sync(server.url, credentials_file=path) as connection:
            assert connection.jetstream().account_info().raw["streams"] == 0

    await asyncio.to_thread(blocking)


async def test_a_jwt_and_its_seed_may_be_given_apart(server: NatsServer) -> None:
    jwt, seed = Operator().user_jwt("ann")
    async with await connect(server.url, jwt=lambda: jwt, nkey_seed=seed) as connection:
        await connection.flush()


async def test_a_bearer_needs_no_seed(server: NatsServer) -> None:
    jwt, _ = Operator().user_jwt("bob", bearer_token=True)
    async with await connect(server.url, jwt=jwt) as connection:
        await connection.flush()


async def test_credentials_that_are_refused_fail_at_once(server: NatsServer, tmp_path: Path) -> None:
    jwt, _ = Operator().user_jwt("ann")
    _, other_seed = Operator().user_jwt("eve")
    with pytest.raises(errors.AuthorizationError):
        await connect(server.url, jwt=jwt, nkey_seed=other_seed)
    with pytest.raises(errors.AuthorizationError):
        await connect(server.url)


async def test_permissions_of_the_user_hold(server: NatsServer, tmp_path: Path) -> None:
    told: list[BaseException] = []
    path = write(tmp_path, Operator().credentials("eve", pub={"deny": ["secret.>"]}))
    async with await connect(server.url, credentials_file=path, on_error=told.append) as connection:
        await connection.publish("secret.a")
        await until(lambda: told)
        assert isinstance(told[0], errors.PermissionsError)


async def test_a_credentials_file_that_was_replaced_is_read_again_on_the_way_back(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "server", config=Operator().server_config(), kind=THEIRS).start()
    path = write(tmp_path, Operator().credentials("ann"))
    try:
        async with await connect(server.url, credentials_file=path, reconnect_wait=0.05) as connection:
            first = await who(connection)
            write(tmp_path, Operator().credentials("bob"))
            await asyncio.to_thread(server.restart)
            await until(lambda: connection.reconnect_count == 1)
            second = await who(connection)
            assert first != second
            # A file that is gone is no reason to forget what has worked.
            await asyncio.to_thread(Path(path).unlink)
            await asyncio.to_thread(server.restart)
            await until(lambda: connection.reconnect_count == 2)
            assert await who(connection) == second
    finally:
        server.stop()
