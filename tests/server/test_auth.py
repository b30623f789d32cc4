"""Logging in: tokens, passwords, hashes, keys, accounts and permissions, on real sockets."""

from __future__ import annotations

import base64

import bcrypt
import pytest
from nacl.signing import SigningKey
from tests.server.harness import Running, StartServer, WireClient

from jetspark.server.identity import PREFIX_USER, encode_key

VIOLATION = "-ERR 'Authorization Violation'"
HASH = bcrypt.hashpw(b"s3cret", bcrypt.gensalt(4)).decode()


async def attempt(running: Running, **options: object) -> list[str]:
    """Log in with these; the lines before the PONG, or before the end."""
    client = await running.connect()
    client.connect(**options)
    client.send("PING")
    line = await client.line()
    return [] if line == "PONG" else [line, *await client.rest()]


async def test_a_token_lets_in_and_nothing_else_does(start_server: StartServer) -> None:
    running = await start_server(config="port: -1\nauthorization { token: s3cret }\n")

    assert await attempt(running, auth_token="s3cret") == []
    assert await attempt(running, auth_token="wrong") == [VIOLATION]
    assert await attempt(running) == [VIOLATION]
    assert await attempt(running, user="s3cret", **{"pass": "s3cret"}) == [VIOLATION]


@pytest.mark.parametrize("stored", ["s3cret", HASH], ids=["plain", "bcrypt"])
async def test_a_user_needs_the_right_password(start_server: StartServer, stored: str) -> None:
    running = await start_server(config=f'port: -1\nauthorization {{ user: joe, password: "{stored}" }}\n')

    assert await attempt(running, user="joe", **{"pass": "s3cret"}) == []
    assert await attempt(running, user="joe", **{"pass": "wrong"}) == [VIOLATION]
    assert await attempt(running, user="ann", **{"pass": "s3cret"}) == [VIOLATION]
    assert await attempt(running, user="joe") == [VIOLATION]


async def test_a_hashed_token_is_checked_like_a_password(start_server: StartServer) -> None:
    running = await start_server(config=f'port: -1\nauthorization {{ token: "{HASH}" }}\n')

    assert await attempt(running, auth_token="s3cret") == []
    assert await attempt(running, auth_token="wrong") == [VIOLATION]


async def test_what_follows_connect_waits_while_a_hash_is_checked(start_server: StartServer) -> None:
    running = await start_server(config=f'port: -1\nauthorization {{ users: [{{user: joe, password: "{HASH}"}}] }}\n')
    client = await running.connect()

    client.connect(user="joe", **{"pass": "s3cret"})
    client.send("SUB a 1", "PUB a 2", "hi", "PING")

    assert [await client.line() for _ in range(3)] == ["MSG a 1 2", "hi", "PONG"]


async def test_a_client_that_leaves_while_its_hash_is_checked_does_no_harm(start_server: StartServer) -> None:
    running = await start_server(config=f'port: -1\nauthorization {{ user: joe, password: "{HASH}" }}\n')
    client = await running.connect()
    client.connect(user="joe", **{"pass": "s3cret"})
    await client.close()
    await running.log.wait_for("Client connection closed")

    assert await attempt(running, user="joe", **{"pass": "s3cret"}) == []


async def test_saying_anything_before_logging_in_is_a_violation(start_server: StartServer) -> None:
    running = await start_server(config="port: -1\nauthorization { token: s3cret }\n")
    client = await running.connect()

    client.send("PING")

    assert await client.rest() == [VIOLATION]


async def test_a_refusal_is_logged_with_the_name(start_server: StartServer) -> None:
    running = await start_server(config="port: -1\nauthorization { users: [{user: joe, password: x}] }\n")

    await attempt(running, user="eve", **{"pass": "x"})

    assert await running.log.wait_for('authentication error - User "eve"')


async def test_the_user_for_the_silent_needs_no_connect_at_all(start_server: StartServer) -> None:
    running = await start_server(
        config="""
        port: -1
        no_auth_user: guest
        authorization { users: [
          {user: guest, password: g, permissions: {publish: "open.>"}}
          {user: joe, password: j}
        ] }
        """
    )
    silent = await running.connect()

    silent.send("PUB closed 1", "x", "PING")

    assert "auth_required" not in silent.info
    assert await silent.line() == "-ERR 'Permissions Violation for Publish to \"closed\"'"
    assert await attempt(running) == []
    assert await attempt(running, user="joe", **{"pass": "j"}) == []
    assert await attempt(running, user="joe", **{"pass": "wrong"}) == [VIOLATION]


async def login_with_key(running: Running, key: SigningKey) -> list[str]:
    client = await running.connect()
    signature = base64.urlsafe_b64encode(key.sign(client.info["nonce"].encode()).signature).decode().rstrip("=")
    client.connect(nkey=encode_key(PREFIX_USER, bytes(key.verify_key)), sig=signature)
    client.send("PING")
    line = await client.line()
    return [] if line == "PONG" else [line, *await client.rest()]


async def test_a_key_logs_in_by_signing_the_nonce(start_server: StartServer) -> None:
    key, stranger = SigningKey.generate(), SigningKey.generate()
    public = encode_key(PREFIX_USER, bytes(key.verify_key))
    running = await start_server(config=f"port: -1\nauthorization {{ users: [{{nkey: {public}}}] }}\n")

    assert await login_with_key(running, key) == []
    assert await login_with_key(running, stranger) == [VIOLATION]
    assert await attempt(running, nkey=public, sig="AAAA") == [VIOLATION]


PERMISSIONS = """
port: -1
authorization { users: [
  {user: joe, password: j, permissions: {
     publish: {allow: ["out.>", "_INBOX.>"], deny: "out.secret"}
     subscribe: {allow: ["in.>", "jobs.* workers"], deny: "in.hidden"}
  }}
  {user: service, password: s, permissions: {subscribe: "ask", allow_responses: {max: 1}}}
  {user: admin, password: a}
] }
"""


async def login(running: Running, name: str) -> WireClient:
    return await running.login(user=name, **{"pass": name[0]})


async def test_permissions_say_what_is_published_and_subscribed(start_server: StartServer) -> None:
    running = await start_server(config=PERMISSIONS)
    joe = await login(running, "joe")

    joe.send("PUB out.a 0", "", "PUB out.secret 0", "", "PUB in.a 0", "")
    joe.send("SUB in.a 1", "SUB other 2", "SUB jobs.x 3", "SUB jobs.x workers 4", "SUB jobs.x others 5", "SUB > 6")

    assert await joe.until_pong() == [
        "-ERR 'Permissions Violation for Publish to \"out.secret\"'",
        "-ERR 'Permissions Violation for Publish to \"in.a\"'",
        "-ERR 'Permissions Violation for Subscription to \"other\"'",
        "-ERR 'Permissions Violation for Subscription to \"jobs.x\"'",
        '-ERR \'Permissions Violation for Subscription to "jobs.x" using queue "others"\'',
        "-ERR 'Permissions Violation for Subscription to \">\"'",
    ]


async def test_denied_messages_do_not_arrive_through_a_wildcard(start_server: StartServer) -> None:
    running = await start_server(config=PERMISSIONS)
    joe, admin = await login(running, "joe"), await login(running, "admin")
    joe.send("SUB in.* 1")
    await joe.until_pong()

    admin.send("PUB in.hidden 1", "x", "PUB in.open 1", "y")

    assert await joe.line() == "MSG in.open 1 1"


async def test_a_denied_queue_group_gets_nothing_through_a_wildcard(start_server: StartServer) -> None:
    running = await start_server(
        config="port: -1\n"
        "authorization { users: [{user: joe, password: j, permissions: {subscribe: {deny: 't q1'}}}] }\n"
    )
    joe = await login(running, "joe")

    joe.send("SUB * q1 1", "SUB * q2 2", "PUB t 0", "")

    assert await joe.line() == "MSG t 2 0"


async def test_stored_messages_arrive_in_an_allowed_inbox_whatever_their_subject(start_server: StartServer) -> None:
    running = await start_server(
        config="""
        port: -1
        jetstream: enabled
        authorization { users: [
          {user: admin, password: a}
          {user: joe, password: j, permissions: {subscribe: {deny: "s.>"}}}
        ] }
        """
    )
    admin, joe = await login(running, "admin"), await login(running, "joe")
    stream = '{"name":"S","subjects":["s.>"]}'
    consumer = '{"stream_name":"S","config":{"durable_name":"C","ack_policy":"none"}}'
    admin.send("SUB _INBOX.a 1", f"PUB $JS.API.STREAM.CREATE.S _INBOX.a {len(stream)}", stream)
    admin.send("PUB s.1 _INBOX.a 1", "x", f"PUB $JS.API.CONSUMER.DURABLE.CREATE.S.C _INBOX.a {len(consumer)}", consumer)
    for _ in range(6):
        await admin.line()

    joe.send("SUB _INBOX.j 1", "PUB $JS.API.CONSUMER.MSG.NEXT.S.C _INBOX.j 0", "")

    assert (await joe.line()).startswith("MSG s.1 1 $JS.ACK.S.C.1.1.1.")


async def test_a_service_may_answer_each_request_once(start_server: StartServer) -> None:
    running = await start_server(config=PERMISSIONS)
    service, admin = await login(running, "service"), await login(running, "admin")
    service.send("SUB ask 1")
    await service.until_pong()
    admin.send("SUB reply.* 1")
    await admin.until_pong()
    admin.send("PUB ask reply.me 1", "?")
    assert await service.line() == "MSG ask 1 reply.me 1"
    assert await service.line() == "?"

    service.send("PUB reply.me 1", "!", "PUB reply.me 1", "!", "PUB elsewhere 0", "")

    assert await service.until_pong() == [
        "-ERR 'Permissions Violation for Publish to \"reply.me\"'",
        "-ERR 'Permissions Violation for Publish to \"elsewhere\"'",
    ]
    assert await admin.line() == "MSG reply.me 1 1"


ACCOUNTS = """
port: -1
accounts {
  A { users: [{user: a1, password: x}, {user: a2, password: x}], limits { max_conn: 2 } }
  B { users: [{user: b1, password: x}] }
}
"""


async def test_accounts_do_not_hear_each_other(start_server: StartServer) -> None:
    running = await start_server(config=ACCOUNTS)
    a1, a2 = await running.login(user="a1", **{"pass": "x"}), await running.login(user="a2", **{"pass": "x"})
    b1 = await running.login(user="b1", **{"pass": "x"})
    for client in (a2, b1):
        client.send("SUB news 1")
        await client.until_pong()

    a1.send("PUB news 2", "hi")

    assert await a2.line() == "MSG news 1 2"
    assert await b1.until_pong() == []


async def test_an_account_has_a_limit_of_connections(start_server: StartServer) -> None:
    running = await start_server(config=ACCOUNTS)
    await running.login(user="a1", **{"pass": "x"})
    await running.login(user="a1", **{"pass": "x"})

    assert await attempt(running, user="a2", **{"pass": "x"}) == ["-ERR 'maximum account active connections exceeded'"]


async def test_a_user_may_be_kept_to_kinds_of_connections(start_server: StartServer) -> None:
    running = await start_server(
        config="port: -1\nauthorization { users: [{user: a, password: x, allowed_connection_types: [WEBSOCKET]}] }\n"
    )

    assert await attempt(running, user="a", **{"pass": "x"}) == [VIOLATION]


async def test_users_may_change_while_the_server_runs(start_server: StartServer) -> None:
    running = await start_server(
        config="port: -1\nhost: 127.0.0.1\n"
        "authorization { users: [{user: stays, password: x}, {user: goes, password: x}] }\n"
    )
    stays, goes = await running.login(user="stays", **{"pass": "x"}), await running.login(user="goes", **{"pass": "x"})
    other = await start_server(
        config="port: -1\nhost: 127.0.0.1\n"
        "authorization { users: [{user: stays, password: x, permissions: {publish: a}}, {user: comes, password: x}] }\n"
    )

    running.server.reload(other.server.options)

    assert await goes.rest() == [VIOLATION]
    stays.send("PUB b 0", "")
    assert await stays.until_pong() == ["-ERR 'Permissions Violation for Publish to \"b\"'"]
    assert await attempt(running, user="comes", **{"pass": "x"}) == []
    assert "Reloaded server configuration" in running.log.lines[-1] or await running.log.wait_for("Reloaded")
