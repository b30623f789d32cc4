"""The monitoring endpoints: which fields there are, and of which kind."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from tests.conformance.scenario import Run, Server, scenario

MONITORED = Server(monitoring=True)
SYNC_ALWAYS = "`sync_always` is shown by `/varz` and `/jsz`, because it is so by default"


def get(run: Run, path: str) -> tuple[int, str, str]:
    url = f"http://127.0.0.1:{run.server.monitor_port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.headers.get("Content-Type", ""), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers.get("Content-Type", ""), error.read().decode()


def shape(value: Any) -> Any:
    """The document with every value replaced by its kind."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float):
        return "number"
    return type(value).__name__


def record_shape(run: Run, path: str, *drop: str) -> Any:
    status, content_type, text = get(run, path)
    document = json.loads(text)
    for key in drop:
        document.pop(key, None)
    run.record("shape", path, status=status, content_type=content_type, shape=shape(document))
    return document


@scenario(MONITORED, known_difference=SYNC_ALWAYS, where=r"\.sync_always: ")
def varz(run: Run) -> None:
    run.client.flush()
    document = record_shape(run, "/varz", "http_req_stats")
    fixed: tuple[str, ...] = ("version", "proto", "max_payload", "max_control_line", "max_pending", "ping_interval")
    fixed += ("ping_max", "host", "auth_timeout", "tls_timeout", "write_deadline", "max_connections", "server_name")
    fixed += ("system_account",)
    run.record("values", **{key: document.get(key) for key in fixed})
    run.record("jetstream", strict=document["jetstream"]["config"].get("strict"))


@scenario(MONITORED)
def connz(run: Run) -> None:
    run.client.flush()
    run.subscribe("a.b")
    record_shape(run, "/connz")
    record_shape(run, "/connz?subs=1")
    record_shape(run, "/connz?subs=detail")
    document = record_shape(run, "/connz?limit=1&offset=0&sort=cid")
    item = document["connections"][0]
    fixed = ("kind", "type", "lang", "name", "ip")
    run.record("values", limit=document["limit"], **{key: item.get(key) for key in fixed})
    record_shape(run, "/connz?cid=999999")


@scenario(MONITORED)
def connz_of_closed_connections(run: Run) -> None:
    run.client.flush()
    other = run.connect()
    other.flush()
    other.send(b"FOO\r\n")
    while other.next_control().op != "EOF":
        pass
    record_shape(run, "/connz?state=closed&limit=1")
    status, _, text = get(run, "/connz?state=wrong")
    run.record("refused", status=status, text=text)


@scenario(Server(monitoring=True, own=True))
def connz_of_a_closed_connection_tells_what_it_had_subscribed_to(run: Run) -> None:
    run.client.flush()
    other = run.connect()
    other.send(b"SUB a.b 1\r\nSUB c q 2\r\n")
    other.flush()
    other.close()
    for query in ("", "&subs=1", "&subs=detail"):
        for _ in range(100):
            if json.loads(get(run, "/connz?state=closed")[2])["total"]:
                break
        item = record_shape(run, "/connz?state=closed" + query)["connections"][0]
        run.record("subscriptions", count=item["subscriptions"], subjects=sorted(item.get("subscriptions_list", [])))


@scenario(Server(monitoring=True, own=True))
def parts_of_lists(run: Run) -> None:
    run.subscribe("a.b")
    run.connect().flush()
    for query in ("limit=-1", "offset=-1", "limit=0", "user=nobody", "user=nobody&acc=$G"):
        document = record_shape(run, "/connz?" + query)
        run.record("connz", query, **{name: document[name] for name in ("num_connections", "total", "offset", "limit")})
    document = record_shape(run, "/subsz?subs=1&test=a.b&limit=-1", "subscriptions_list")
    run.record("subsz", limit=document["limit"])
    for query in ("accounts=1&limit=-1", "accounts=1&offset=1", "acc=$G", "acc=$G&offset=5", "acc=NOPE&accounts=1"):
        document = json.loads(get(run, "/jsz?" + query)[2])
        run.record("jsz", query, details=shape(document.get("account_details")))


@scenario(MONITORED)
def any_method_reads(run: Run) -> None:
    for method in ("POST", "HEAD", "PUT", "OPTIONS", "DELETE"):
        for path in ("/", "/varz", "/connz", "/healthz"):
            request = urllib.request.Request(f"http://127.0.0.1:{run.server.monitor_port}{path}", method=method)
            with urllib.request.urlopen(request, timeout=5) as answer:
                run.record("method", f"{method} {path}", status=answer.status, kind=answer.headers["Content-Type"])


@scenario(MONITORED)
def subsz(run: Run) -> None:
    run.subscribe("a.b", queue="q")
    record_shape(run, "/subsz")
    document = record_shape(run, "/subsz?subs=1&limit=1&test=a.b")
    item = document["subscriptions_list"][0]
    run.record("values", subject=item["subject"], queue=item.get("qgroup"), account=item["account"])


@scenario(MONITORED, known_difference=SYNC_ALWAYS, where=r"\.sync_always: ")
def jsz(run: Run) -> None:
    run.stream("S", quiet=True)
    run.fill("S.a", 3)
    run.consumer("S", "C", quiet=True)
    document = record_shape(run, "/jsz")
    run.record("values", **{key: document[key] for key in ("streams", "consumers", "messages", "bytes")})
    record_shape(run, "/jsz?accounts=true")
    record_shape(run, "/jsz?streams=true")
    record_shape(run, "/jsz?consumers=true&config=true")
    record_shape(run, "/jsz?acc=$G&streams=1")
    record_shape(run, "/jsz?acc=NOPE")


@scenario(MONITORED)
def healthz(run: Run) -> None:
    run.stream("S", quiet=True)
    run.consumer("S", "C", quiet=True)
    for _ in range(100):  # nats-server may still call a new stream unrecovered.
        if get(run, "/healthz")[0] == 200:
            break
    for query in (
        "",
        "?js-enabled-only=true",
        "?js-server-only=true",
        "?account=$G&stream=S",
        "?account=$G&stream=S&consumer=C",
        "?account=$G&stream=NOPE",
        "?account=NOPE",
        "?account=$G&stream=S&consumer=NOPE",
        "?stream=S",
        "?details=true",
        "?details=1&account=$G&stream=NOPE",
        "?details=1&account=NOPE",
        "?details=1&account=$G&stream=S&consumer=NOPE",
        "?details=1&stream=S",
    ):
        status, content_type, text = get(run, f"/healthz{query}")
        run.record("healthz", query, status=status, content_type=content_type, document=json.loads(text))


@scenario(MONITORED)
def other_endpoints_exist(run: Run) -> None:
    for path in ("/", "/routez", "/gatewayz", "/leafz", "/accountz", "/accstatz", "/nope"):
        status, content_type, _ = get(run, path)
        run.record("endpoint", path, status=status, content_type=content_type)


@scenario(MONITORED)
def json_with_padding(run: Run) -> None:
    status, content_type, text = get(run, "/healthz?callback=cb")
    run.record("padded", status=status, content_type=content_type, text=text)
    status, content_type, text = get(run, "/subsz?callback=cb")
    run.record("padded", status=status, content_type=content_type, start=text[:4], end=text[-2:])


@scenario(Server(jetstream=False, monitoring=True))
def jetstream_off(run: Run) -> None:
    run.client.flush()
    record_shape(run, "/jsz")
    document = record_shape(run, "/varz", "http_req_stats")
    run.record("jetstream", document=document.get("jetstream"))
    status, _, text = get(run, "/healthz?js-enabled-only=true")
    run.record("healthz", status=status, text=text)
