"""Who may connect, and what they may do."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.conformance.scenario import Run, Server, scenario

TOKEN = Server(cleanup=False, config="authorization { token: s3cret }\n")
ONE_USER = Server(cleanup=False, arguments=("--user", "ann", "--pass", "pw"))
# The hash is of "pw" at the lowest cost.
USERS = Server(
    cleanup=False,
    config="""
authorization {
  timeout: 1
  users = [
    {user: ann, password: pw}
    {user: hashed, password: "$2a$04$sDwsyxmqJPBDa8.HA8iKKeOJiyHSq9uOAVZRcIHyEFMBFFFHWEsZq"}
    {user: reader, password: pw, permissions: {publish: {deny: ">"}, subscribe: ["news.*", "_INBOX.>"]}}
    {user: writer, password: pw, permissions: {publish: ["orders.>", "$JS.API.>"], subscribe: ["_INBOX.>"]}}
    {user: denied, password: pw, permissions: {publish: {allow: "a.>", deny: "a.secret"},
      subscribe: {allow: "a.>", deny: "a.secret"}}}
    {user: service, password: pw, permissions: {subscribe: "svc", publish: {deny: ">"}, allow_responses: true}}
    {user: queued, password: pw, permissions: {subscribe: ["q.> workers"]}}
  ]
}
""",
)
NO_AUTH_USER = Server(
    cleanup=False,
    config="""
no_auth_user: guest
authorization { users = [ {user: guest, password: pw, permissions: {publish: "free.>", subscribe: ">"}}
  {user: ann, password: pw} ] }
""",
)
ACCOUNTS = Server(
    cleanup=False,
    config="""
accounts {
  A { jetstream: enabled, users: [ {user: a, password: pw} ] }
  B { users: [ {user: b, password: pw} ] }
  L { jetstream: {max_streams: 1, max_consumers: 1, max_mem: 1MB, max_file: 1MB, max_bytes_required: true}
      users: [ {user: l, password: pw} ] }
}
""",
)


def attempt(run: Run, options: dict[str, object], then: bytes = b"") -> None:
    """Connect with these options and record what comes back."""
    client = run.connect(bare=True)
    connect = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True} | options
    client.send(b"CONNECT " + json.dumps(connect).encode() + b"\r\n" + then + b"PING\r\n")
    frames = [client.next_control()]
    while frames[-1].op not in ("PONG", "EOF"):
        frames.append(client.next_control())
    run.record("attempt", str(options), lines=[frame.line.decode() or frame.op for frame in frames])


@scenario(TOKEN)
def token_login(run: Run) -> None:
    run.record("info", auth_required=run.connect(bare=True).info.get("auth_required"))
    attempt(run, {"auth_token": "s3cret"})
    attempt(run, {"auth_token": "wrong"})
    attempt(run, {})
    attempt(run, {"user": "s3cret"})


@scenario(ONE_USER)
def user_and_password_from_flags(run: Run) -> None:
    attempt(run, {"user": "ann", "pass": "pw"})
    attempt(run, {"user": "ann", "pass": "no"})
    attempt(run, {"user": "bob", "pass": "pw"})
    attempt(run, {})


@scenario(USERS)
def users_from_the_config_file(run: Run) -> None:
    attempt(run, {"user": "ann", "pass": "pw"})
    attempt(run, {"user": "nobody", "pass": "pw"})
    attempt(run, {"user": "hashed", "pass": "pw"})
    attempt(run, {"user": "hashed", "pass": "wrong"})


@scenario(USERS)
def nothing_before_connect(run: Run) -> None:
    for line in (b"PING\r\n", b"SUB a 1\r\n", b"PUB a 0\r\n\r\n"):
        run.exchange(run.connect(bare=True), line, until=("EOF",))


@scenario(USERS)
def silence_times_out(run: Run) -> None:
    client = run.connect(bare=True)
    run.record_control(client, 2)


@scenario(USERS)
def publish_permissions(run: Run) -> None:
    writer = run.connect({"user": "writer", "pass": "pw"})
    run.exchange(writer, b"PUB orders.new 1\r\nx\r\n")
    run.exchange(writer, b"PUB other 1\r\nx\r\n")
    run.exchange(writer, b"PUB $JS.API.INFO 0\r\n\r\n")
    run.exchange(writer, b"PUB $SYS.x 0\r\n\r\n")


@scenario(USERS, known_difference="`SUB foo.>` under the permission `foo.*` is refused", where=r"SUB news\.> 3")
def subscribe_permissions(run: Run) -> None:
    reader = run.connect({"user": "reader", "pass": "pw"})
    run.exchange(reader, b"SUB news.a 1\r\nSUB news.* 2\r\n")
    run.exchange(reader, b"SUB news.> 3\r\n")
    run.exchange(reader, b"SUB > 4\r\n")
    run.exchange(reader, b"SUB other q 5\r\n")
    run.exchange(reader, b"PUB anything 0\r\n\r\n")


@scenario(USERS)
def deny_wins_and_filters_deliveries(run: Run) -> None:
    denied = run.connect({"user": "denied", "pass": "pw"})
    run.exchange(denied, b"SUB a.secret 1\r\n")
    run.exchange(denied, b"SUB a.* 2\r\n")
    run.exchange(denied, b"PUB a.secret 0\r\n\r\n")
    everyone = run.connect({"user": "ann", "pass": "pw"})
    run.exchange(everyone, b"PUB a.secret 1\r\nx\r\nPUB a.open 1\r\ny\r\n")
    frame = denied.next_message("2")
    run.record("delivered", line=frame.line.decode(), payload=frame.payload.decode())


@scenario(USERS)
def responses_may_be_allowed(run: Run) -> None:
    service = run.connect({"user": "service", "pass": "pw"})
    run.exchange(service, b"SUB svc 1\r\n")
    run.exchange(service, b"PUB reply.to 1\r\nx\r\n")
    asker = run.connect({"user": "ann", "pass": "pw"})
    run.exchange(asker, b"SUB reply.to 1\r\nPUB svc reply.to 1\r\n?\r\n")
    service.next_message("1")
    run.exchange(service, b"PUB reply.to 1\r\n1\r\n")
    run.exchange(service, b"PUB reply.to 1\r\n2\r\n")
    frame = asker.next_message("1")
    run.record("answer", line=frame.line.decode(), payload=frame.payload.decode())


@scenario(USERS)
def queue_permissions(run: Run) -> None:
    queued = run.connect({"user": "queued", "pass": "pw"})
    run.exchange(queued, b"SUB q.a workers 1\r\n")
    run.exchange(queued, b"SUB q.a others 2\r\n")
    run.exchange(queued, b"SUB q.a 3\r\n")


@scenario(NO_AUTH_USER)
def a_default_user(run: Run) -> None:
    client = run.connect(bare=True)
    run.record("info", auth_required=client.info.get("auth_required"))
    attempt(run, {}, b"PUB free.a 0\r\n\r\nPUB locked 0\r\n\r\n")
    attempt(run, {"user": "ann", "pass": "pw"}, b"PUB locked 0\r\n\r\n")
    attempt(run, {"user": "ann", "pass": "bad"})


@scenario(ACCOUNTS)
def accounts_are_separate(run: Run) -> None:
    first, second = run.connect({"user": "a", "pass": "pw"}), run.connect({"user": "b", "pass": "pw"})
    run.exchange(first, b"SUB x 1\r\n")
    run.exchange(second, b"PUB x 1\r\n1\r\nSUB x 1\r\n")
    run.exchange(second, b"PUB x 1\r\n2\r\n")
    run.exchange(first, b"")


@scenario(replace(ACCOUNTS, own=True))
def jetstream_needs_an_account_that_has_it(run: Run) -> None:
    first, second = run.connect({"user": "a", "pass": "pw"}), run.connect({"user": "b", "pass": "pw"})
    for client in (first, second):
        for call in ("INFO", "STREAM.NAMES", "STREAM.CREATE.S", "STREAM.INFO.S", "CONSUMER.NAMES.S"):
            body = b'{"name":"S","subjects":["s"]}' if "CREATE" in call else b""
            frame = client.request(f"$JS.API.{call}", body)
            run.record("answer", call, frame=run.message(frame) | {"subject": ""})


@scenario(replace(ACCOUNTS, own=True))
def account_limits(run: Run) -> None:
    limited = run.connect({"user": "l", "pass": "pw"})

    def ask(call: str, body: str = "") -> None:
        frame = limited.request(f"$JS.API.{call}", body.encode())
        run.record("answer", call, frame=run.message(frame) | {"subject": ""})

    ask("INFO")
    ask("STREAM.CREATE.S", '{"name":"S","subjects":["s"]}')
    ask("STREAM.CREATE.S", '{"name":"S","subjects":["s"],"max_bytes":2000000}')
    ask("STREAM.CREATE.S", '{"name":"S","subjects":["s"],"max_bytes":1000}')
    ask("STREAM.CREATE.T", '{"name":"T","subjects":["t"],"max_bytes":1000}')
    ask("CONSUMER.CREATE.S.A", '{"stream_name":"S","config":{"durable_name":"A"}}')
    ask("CONSUMER.CREATE.S.B", '{"stream_name":"S","config":{"durable_name":"B"}}')
    ask("INFO")
