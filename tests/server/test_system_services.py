"""The system account asks and listens, on real sockets. The documents are compared with nats-server's elsewhere."""

from __future__ import annotations

import json
from typing import Any

from tests.server.harness import Running, StartServer, WireClient

CONFIG = """
port: -1
server_name: here
server_tags: ["Edge"]
accounts {
  SYS { users: [ {user: sys, password: pw} ] }
  APP { users: [ {user: app, password: pw} ] }
}
system_account: SYS
"""


async def login(running: Running, user: str) -> WireClient:
    client = await running.connect()
    client.connect(user=user, headers=True, no_responders=True, name=user, **{"pass": "pw"})
    client.send("SUB answers 1")
    await client.until_pong()
    return client


async def ask(client: WireClient, subject: str, body: str = "") -> Any:
    """The answer's document; None when nobody is there, an empty document for silence."""
    client.send(f"PUB {subject} answers {len(body)}", body)
    lines = await client.until_pong()
    if not lines:
        return {}
    return None if lines[0].startswith("HMSG") else json.loads(lines[1])


async def test_only_the_system_account_may_look_at_the_server(start_server: StartServer) -> None:
    running = await start_server(config=CONFIG)
    operator, user = await login(running, "sys"), await login(running, "app")

    assert (await ask(operator, "$SYS.REQ.SERVER.PING.VARZ"))["data"]["server_name"] == "here"
    assert await ask(user, "$SYS.REQ.SERVER.PING.VARZ") is None


async def test_a_user_is_told_whether_its_account_is_the_system_s(start_server: StartServer) -> None:
    running = await start_server(config=CONFIG)
    told = {}
    for user in ("sys", "app"):
        client = await running.connect()
        client.connect(user=user, protocol=1, **{"pass": "pw"})
        await client.until_pong()
        told[user] = await client.read_info()

    assert told["sys"]["acc_is_sys"] is True
    assert "acc_is_sys" not in told["app"]
    assert (told["sys"]["remote_account"], told["app"]["remote_account"]) == ("SYS", "APP")


async def test_a_user_sees_the_connections_of_its_own_account(start_server: StartServer) -> None:
    running = await start_server(config=CONFIG)
    await login(running, "sys")
    user = await login(running, "app")

    answer = await ask(user, "$SYS.REQ.SERVER.PING.CONNZ", '{"acc": "SYS"}')

    assert [connection["name"] for connection in answer["data"]["connections"]] == ["app"]


async def test_a_request_for_servers_with_another_tag_is_not_answered(start_server: StartServer) -> None:
    running = await start_server(config=CONFIG)
    operator = await login(running, "sys")

    assert "data" in await ask(operator, "$SYS.REQ.SERVER.PING.HEALTHZ", '{"tags": ["edge"]}')
    assert await ask(operator, "$SYS.REQ.SERVER.PING.HEALTHZ", '{"tags": ["core"]}') == {}


async def test_totals_asked_for_without_a_reply_are_told_to_everybody(start_server: StartServer) -> None:
    running = await start_server(config=CONFIG)
    operator, listener = await login(running, "sys"), await login(running, "sys")
    listener.send("SUB $SYS.SERVER.*.STATSZ 2")
    await listener.until_pong()

    operator.send("PUB $SYS.REQ.SERVER.PING 0", "")
    await operator.until_pong()
    lines = await listener.until_pong()

    assert lines[0].split()[1] == f"$SYS.SERVER.{running.server.server_id}.STATSZ"
    assert json.loads(lines[1])["statsz"]["connections"] == 2


async def test_subscribers_of_a_subject_are_counted(start_server: StartServer) -> None:
    running = await start_server(config=CONFIG)
    operator, user = await login(running, "sys"), await login(running, "app")
    user.send("SUB work.* 2", "SUB work.a helpers 3")
    await user.until_pong()

    assert await ask(operator, "$SYS.REQ.ACCOUNT.NSUBS", '{"acc": "APP", "subject": "work.a"}') == 2
    assert await ask(operator, "$SYS.REQ.ACCOUNT.NSUBS", '{"acc": "APP", "subject": "play"}') == 0


async def test_a_listener_in_the_system_account_hears_requests_too(start_server: StartServer) -> None:
    running = await start_server(config=CONFIG)
    operator, listener = await login(running, "sys"), await login(running, "sys")
    listener.send("SUB $SYS.REQ.> 2")
    await listener.until_pong()

    assert "data" in await ask(operator, "$SYS.REQ.SERVER.PING.HEALTHZ")

    assert "MSG $SYS.REQ.SERVER.PING.HEALTHZ 2 answers 0" in await listener.until_pong()
