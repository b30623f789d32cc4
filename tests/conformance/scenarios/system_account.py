"""What the system account may ask of the server, and what it hears: the ground `nats server …` stands on."""

from __future__ import annotations

import json
from typing import Any

from tests.conformance.scenario import Run, Server, scenario
from tests.conformance.scenarios.monitoring import shape
from tests.conformance.wire import WireClient

SYSTEM = Server(
    cleanup=False,
    config="""
accounts {
  SYS { users: [ {user: sys, password: pw} ] }
  APP { jetstream: enabled, users: [ {user: app, password: pw} ] }
}
system_account: SYS
""",
)
SYNC_ALWAYS = "`sync_always` is shown by `/varz` and `/jsz`, because it is so by default"


def users(run: Run) -> tuple[WireClient, WireClient]:
    """The operator and a user."""
    return run.connect({"user": "sys", "pass": "pw"}), run.connect({"user": "app", "pass": "pw", "name": "worker"})


def ask(run: Run, client: WireClient, subject: str, body: Any = b"", *drop: str) -> Any:
    """A request, and the kinds of the fields of its answer."""
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    frame = client.request(subject.replace("<id>", server_id(client)), payload)
    document = json.loads(frame.payload) if frame.payload else None
    for key in drop:
        assert document is not None
        document["data"].pop(key, None)
    run.record("answer", subject, status=frame.status, shape=shape(document))
    return document


def server_id(client: WireClient) -> str:
    return str(json.loads(client.history[0].line.removeprefix(b"INFO "))["server_id"])


@scenario(SYSTEM)
def servers_introduce_themselves(run: Run) -> None:
    operator, _ = users(run)
    ask(run, operator, "$SYS.REQ.SERVER.PING.IDZ")
    document = ask(run, operator, "$SYS.REQ.SERVER.PING.ROUTEZ")
    server = document["server"]
    run.record("server", **{key: server[key] for key in ("name", "ver", "feature_flags", "jetstream", "flags")})
    ask(run, operator, "$SYS.REQ.SERVER.<id>.GATEWAYZ")
    ask(run, operator, "$SYS.REQ.SERVER.<id>.LEAFZ")
    ask(run, operator, "$SYS.REQ.SERVER.PING.RAFTZ")


@scenario(SYSTEM, known_difference=SYNC_ALWAYS, where=r"sync_always")
def the_documents_of_monitoring(run: Run) -> None:
    operator, user = users(run)
    user.flush()
    ask(run, operator, "$SYS.REQ.SERVER.PING.VARZ", b"", "http_req_stats", "pinned_account_fails", "config_digest")
    ask(run, operator, "$SYS.REQ.SERVER.PING.SUBSZ")
    ask(run, operator, "$SYS.REQ.SERVER.PING.JSZ")
    ask(run, operator, "$SYS.REQ.SERVER.PING.HEALTHZ")
    ask(run, operator, "$SYS.REQ.SERVER.PING.ACCOUNTZ")
    ask(run, operator, "$SYS.REQ.SERVER.<id>.JSZ", {"accounts": True})


@scenario(SYSTEM)
def connections(run: Run) -> None:
    operator, user = users(run)
    user.flush()
    for subject in ("$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.SERVER.<id>.CONNZ", "$SYS.REQ.ACCOUNT.APP.CONNZ"):
        document = ask(run, operator, subject, {"auth": True})
        found = document["data"]["connections"]
        run.record("names", subject, names=[connection.get("name", "") for connection in found])
    for body in (
        {"sort": "stop"},
        {"state": 1, "user": "nobody", "auth": True},
        {"acc": "APP", "limit": 1, "offset": 1},
    ):
        document = ask(run, operator, "$SYS.REQ.SERVER.PING.CONNZ", body)
        run.record("error", error=document.get("error"))
    document = operator.request("$SYS.REQ.ACCOUNT.NONE.CONNZ").json()
    run.record("unknown", data={key: document["data"][key] for key in ("server_id", "num_connections", "connections")})


@scenario(SYSTEM)
def totals_of_a_server(run: Run) -> None:
    operator, _ = users(run)
    for subject in ("$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.STATSZ", "$SYS.REQ.SERVER.<id>.STATSZ"):
        frame = operator.request(subject.replace("<id>", server_id(operator)))
        document = frame.json()
        document["statsz"]["jetstream"]["config"].pop("sync_always", None)
        run.record("statsz", subject, keys=list(document), shape=shape(document["statsz"]))


@scenario(SYSTEM)
def accounts(run: Run) -> None:
    operator, user = users(run)
    user.flush()
    ask(run, operator, "$SYS.REQ.ACCOUNT.APP.JSZ")
    ask(run, operator, "$SYS.REQ.ACCOUNT.APP.INFO", b"", "imports")
    document = ask(run, operator, "$SYS.REQ.ACCOUNT.APP.STATZ")
    run.record("names", names=[item["acc"] for item in document["data"]["account_statz"]])
    document = ask(run, operator, "$SYS.REQ.ACCOUNT.PING.STATZ")
    run.record("names", names=sorted(item["acc"] for item in document["data"]["account_statz"]))
    document = ask(run, operator, "$SYS.REQ.ACCOUNT.PING.STATZ", {"accounts": ["APP"]})
    run.record("names", names=[item["acc"] for item in document["data"]["account_statz"]])
    ask(run, operator, "$SYS.REQ.ACCOUNT.APP.CONNS")
    for subject in ("$SYS.REQ.ACCOUNT.NONE.INFO", "$SYS.REQ.ACCOUNT.NONE.JSZ"):
        run.record("unknown", subject, error=operator.request(subject).json()["error"])


@scenario(SYSTEM)
def requests_that_make_no_sense(run: Run) -> None:
    operator, _ = users(run)
    for body in (b"{", b"[]", b"{bad", b'{"limit": "x"}', b'{"unknown": 1}'):
        document = ask(run, operator, "$SYS.REQ.SERVER.PING.CONNZ", body)
        run.record("error", body.decode(), code=document.get("error", {}).get("code"))
    for subject in ("$SYS.REQ.SERVER.PING.NOPE", "$SYS.REQ.SERVER.NOTME.VARZ", "$SYS.REQ.NOPE"):
        run.record("nobody", subject, status=operator.request(subject).status)


@scenario(SYSTEM)
def requests_meant_for_other_servers(run: Run) -> None:
    operator, _ = users(run)
    for body in (
        {"server_name": "other"},
        {"server_name": "conf"},
        {"server_name": "conf", "exact_match": True},
        {"tags": ["none"]},
        {"domain": "hub"},
        {"cluster": "east"},
    ):
        inbox = run.subscribe("answers", client=operator)
        operator.publish("$SYS.REQ.SERVER.PING.HEALTHZ", json.dumps(body).encode(), reply="answers")
        operator.flush()
        operator.drain_arrived(0.1)
        run.record("answers", json.dumps(body), count=len(operator.messages.get(inbox.sid, [])))
        inbox.close()


@scenario(SYSTEM)
def what_any_account_may_ask(run: Run) -> None:
    _, user = users(run)
    for subject in (
        "$SYS.REQ.SERVER.PING.CONNZ",
        "$SYS.REQ.ACCOUNT.PING.CONNZ",
        "$SYS.REQ.ACCOUNT.PING.STATZ",
        "$SYS.REQ.SERVER.PING",
        "$SYS.REQ.SERVER.PING.VARZ",
        "$SYS.REQ.ACCOUNT.APP.CONNZ",
        "$SYS.REQ.ACCOUNT.PING.JSZ",
    ):
        ask(run, user, subject)


@scenario(SYSTEM)
def comings_and_goings(run: Run) -> None:
    operator, _ = users(run)
    operator.flush()
    events = run.subscribe("$SYS.ACCOUNT.*.*", client=operator)
    operator.flush()
    visitor = run.connect({"user": "app", "pass": "pw", "name": "visitor"})
    visitor.flush()
    record_event(run, operator.next_message(events.sid).payload)
    visitor.close()
    record_event(run, operator.next_message(events.sid).payload)
    wrong = run.connect({"user": "app", "pass": "wrong"})
    while wrong.next_control().op != "EOF":
        pass
    record_event(run, operator.next_message(events.sid).payload)


def record_event(run: Run, payload: bytes) -> None:
    document = json.loads(payload)
    client = {key: document["client"].get(key) for key in ("acc", "user", "name", "name_tag", "kind", "client_type")}
    run.record("event", document["type"], shape=shape(document), client=client, reason=document.get("reason"))


@scenario(SYSTEM)
def a_connection_is_closed_on_request(run: Run) -> None:
    operator, user = users(run)
    session = json.loads(user.history[0].line.removeprefix(b"INFO "))["client_id"]
    ask(run, operator, "$SYS.REQ.SERVER.<id>.KICK", {"cid": session})
    while user.next_control().op != "EOF":
        pass
    run.record("closed", closed=user.closed)
    document = ask(run, operator, "$SYS.REQ.SERVER.<id>.KICK", {"cid": 99999})
    run.record("error", error=document.get("error"))
