"""Secrets that come from a function: it may fail, and it may know of a change later than the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from jetspark.client import errors
from jetspark.client.aio import connect
from jetspark.client.sync import connect as connect_sync
from tests.client.conftest import NatsServer
from tests.client.waiting import until


def config_of(password: str) -> str:
    return f"authorization {{ user: u, password: {password} }}"


def has_refusal(told: list[BaseException]) -> bool:
    return any(isinstance(one, errors.AuthorizationError) for one in told)


class Vault:
    """Gives the password, or raises."""

    def __init__(self, password: str) -> None:
        self.password = password
        self.error: type[Exception] | None = None
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.error is not None:
            error, self.error = self.error, None
            raise error("the vault is away")
        return self.password


@pytest.mark.parametrize("error", [RuntimeError, KeyError, OSError])
async def test_a_secret_function_that_raises_is_asked_again(
    make_server: Callable[..., NatsServer], error: type[Exception]
) -> None:
    server = make_server(config=config_of("p"), jetstream=False)
    vault, sync_vault = Vault("p"), Vault("p")
    told: list[BaseException] = []
    connection = await connect(server.url, user="u", password=vault, reconnect_wait=0.01, on_error=told.append)
    blocking = await asyncio.to_thread(connect_sync, server.url, user="u", password=sync_vault, reconnect_wait=0.01)
    vault.error = sync_vault.error = error

    await asyncio.to_thread(server.restart)

    await until(lambda: connection.reconnect_count == 1 and blocking.reconnect_count == 1)
    assert vault.calls >= 3
    assert sync_vault.calls >= 3
    assert [type(one) for one in told if not isinstance(one, (OSError, errors.JetsparkError))] == (
        [] if error is OSError else [error]
    )
    await connection.close()
    await asyncio.to_thread(blocking.close)


async def test_a_password_that_changes_on_the_server_first_is_offered_when_the_function_knows_it(
    make_server: Callable[..., NatsServer],
) -> None:
    server = make_server(config=config_of("old"), jetstream=False)
    vault = Vault("old")
    told: list[BaseException] = []
    sync_told: list[BaseException] = []
    connection = await connect(server.url, user="u", password=vault, reconnect_wait=0.01, on_error=told.append)
    blocking = await asyncio.to_thread(
        connect_sync, server.url, user="u", password=vault, reconnect_wait=0.01, on_error=sync_told.append
    )
    server.config = config_of("new")

    await asyncio.to_thread(server.restart)
    # Refused twice.
    for heard in (told, sync_told):
        await until(partial(has_refusal, heard))
    assert not connection.is_closed
    assert not blocking.is_closed
    vault.password = "new"

    await until(lambda: connection.is_connected and blocking.is_connected)
    await connection.close()
    await asyncio.to_thread(blocking.close)


async def test_a_password_that_cannot_change_is_not_offered_for_ever(make_server: Callable[..., NatsServer]) -> None:
    server = make_server(config=config_of("old"), jetstream=False)
    connection = await connect(server.url, user="u", password="old", reconnect_wait=0.01)
    server.config = config_of("new")

    await asyncio.to_thread(server.restart)

    await until(lambda: connection.is_closed)
