"""What a user may not do is said at once, by name, to whoever waits for the answer; nobody waits for a timeout."""

from __future__ import annotations

from typing import Any

import pytest

import jetspark.sync
from jetspark.client import errors
from jetspark.client.aio import Connection, connect

USERS = """
authorization { users = [
  {user: admin, password: x},
  {user: few, password: x, permissions: {publish: ["ok.>", "$JS.API.>"], subscribe: "_INBOX.>"}},
  {user: deaf, password: x, permissions: {publish: ">", subscribe: "ok.>"}},
] }
"""
# Far beyond what any of these may take: a test that waits for it fails.
TIMEOUT_S = 600


async def made(make_server: Any, user: str) -> Connection:
    """A connection of one of the users; stream S has ok.> and no.>."""
    server = make_server(config=USERS)
    async with await connect(server.url, user="admin", password="x") as admin:
        await admin.jetstream().create_stream("S", subjects=["ok.>", "no.>"])
    return await connect(server.url, user=user, password="x")


@pytest.mark.long
async def test_a_publish_that_is_not_allowed_says_so_and_is_not_stored(make_server: Any) -> None:
    async with await made(make_server, "few") as connection:
        jetstream = connection.jetstream()

        with pytest.raises(errors.PublishDeniedError, match=r'Publish to "no\.way".*is not stored') as caught:
            await jetstream.publish("no.way", b"x", timeout=TIMEOUT_S)

        assert caught.value.subject == "no.way"
        assert not caught.value.may_be_stored
        assert isinstance(caught.value, errors.PermissionsError)
        assert (await jetstream.publish("ok.way", b"y")).seq == 1, "the connection goes on"


@pytest.mark.long
async def test_of_many_publishes_only_the_denied_ones_fail(make_server: Any) -> None:
    async with await made(make_server, "few") as connection:
        jetstream = connection.jetstream()

        futures = [
            await jetstream.publish_async(subject, b"x", timeout=TIMEOUT_S) for subject in ("ok.1", "no.2", "ok.3")
        ]

        assert (await futures[0]).seq == 1
        with pytest.raises(errors.PublishDeniedError, match=r"no\.2"):
            await futures[1]
        assert (await futures[2]).seq == 2
        assert jetstream.publish_pending == 0


@pytest.mark.long
async def test_a_block_with_a_denied_message_says_so(make_server: Any) -> None:
    async with await made(make_server, "few") as connection:
        block = await connection.jetstream().publish_many([b"ok.1", b"no.2"], [b"", b""], [b"1", b"2"])

        with pytest.raises(errors.PublishDeniedError, match=r"no\.2"):
            await block.wait(TIMEOUT_S)

        assert not block.is_stored(1)


@pytest.mark.long
async def test_a_request_that_is_not_allowed_says_so(make_server: Any) -> None:
    async with await made(make_server, "few") as connection:
        with pytest.raises(errors.PermissionsError, match=r"service\.a"):
            await connection.request("service.a", b"", timeout=TIMEOUT_S)


@pytest.mark.long
async def test_whoever_may_not_hear_answers_learns_that(make_server: Any) -> None:
    async with await made(make_server, "deaf") as connection:
        with pytest.raises(errors.PermissionsError, match="Subscription to"):
            await connection.request("$JS.API.INFO", b"", timeout=TIMEOUT_S)
        with pytest.raises(errors.PublishUnknownError, match=r"ok\.1 cannot be heard, it may have been stored"):
            await connection.jetstream().publish("ok.1", b"x", timeout=TIMEOUT_S)


@pytest.mark.long
def test_the_blocking_client_says_the_same(make_server: Any) -> None:
    server = make_server(config=USERS)
    with (
        jetspark.sync.connect(server.url, user="few", password="x") as connection,
        pytest.raises(errors.PublishDeniedError, match=r"no\.way"),
    ):
        connection.jetstream().publish("no.way", b"x", timeout=TIMEOUT_S)
