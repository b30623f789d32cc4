"""Consumer requests to put to both servers: (name of the row, subject, body, consumers created before)."""

from __future__ import annotations

from typing import Any

SECOND = 1_000_000_000
MILLISECOND = 1_000_000

Request = tuple[str, Any]
Row = tuple[str, str, Any, list[Request]]

STREAMS: list[dict[str, Any]] = [
    {"name": "S", "subjects": ["s.>"]},
    {"name": "WQ", "subjects": ["w.>"], "retention": "workqueue"},
    {"name": "INT", "subjects": ["i.>"], "retention": "interest", "max_consumers": 2},
    {
        "name": "LIM",
        "subjects": ["l.>"],
        "consumer_limits": {"max_ack_pending": 7, "inactive_threshold": 90 * SECOND},
    },
]


def _body(config: dict[str, Any], stream: str = "S", **more: Any) -> dict[str, Any]:
    return {"stream_name": stream, "config": config, **more}


def _create(**config: Any) -> Request:
    return "CREATE.S.c", _body(config)


def _on(stream: str, **config: Any) -> Request:
    return f"CREATE.{stream}.c", _body(config, stream)


def _rows(rows: list[tuple[str, Request]]) -> list[Row]:
    return [(name, subject, body, []) for name, (subject, body) in rows]


EXPLICIT = {"ack_policy": "explicit"}
PINNED = {"priority_policy": "pinned_client", "priority_groups": ["A"]}

DEFAULTS = _rows(
    [
        ("nothing", _create()),
        ("explicit", _create(ack_policy="explicit")),
        ("all acks", _create(ack_policy="all")),
        ("durable", _create(durable_name="c", ack_policy="explicit")),
        ("push", _create(deliver_subject="d")),
        ("push explicit", _create(deliver_subject="d", ack_policy="explicit")),
        ("push group", _create(deliver_subject="d", deliver_group="g")),
        ("push heartbeat and flow", _create(deliver_subject="d", flow_control=True, idle_heartbeat=SECOND)),
        ("push rate", _create(deliver_subject="d", rate_limit_bps=1000)),
        ("flow control acks", _create(deliver_subject="d", ack_policy="flow_control")),
        ("new", _create(deliver_policy="new")),
        ("last", _create(deliver_policy="last")),
        ("undefined policy", _create(deliver_policy="undefined")),
        ("last per subject", _create(deliver_policy="last_per_subject", filter_subject="s.>")),
        ("start sequence", _create(deliver_policy="by_start_sequence", opt_start_seq=5)),
        ("start time", _create(deliver_policy="by_start_time", opt_start_time="2026-01-01T00:00:00.120+03:00")),
        ("original", _create(replay_policy="original")),
        ("backoff", _create(ack_policy="explicit", backoff=[SECOND, 2 * SECOND], max_deliver=2)),
        ("backoff without max deliver", _create(ack_policy="explicit", backoff=[SECOND])),
        ("max deliver", _create(ack_policy="explicit", max_deliver=3)),
        ("max deliver negative", _create(max_deliver=-3)),
        ("negatives", _create(max_waiting=-1, max_batch=-1, max_bytes=-1, max_expires=-1, inactive_threshold=-1)),
        ("negative pending", _create(ack_policy="explicit", max_ack_pending=-5)),
        ("negative heartbeat", _create(deliver_subject="d", idle_heartbeat=-5)),
        ("negative pin time", _create(priority_timeout=-5)),
        ("filters", _create(filter_subjects=["s.a", "s.b"])),
        ("filter", _create(filter_subject="s.a")),
        ("filter outside the stream", _create(filter_subject="elsewhere")),
        ("sampling", _create(sample_freq="30%", ack_policy="explicit")),
        ("sampling plain", _create(sample_freq="+30", ack_policy="explicit")),
        ("requests", _create(max_batch=10, max_expires=SECOND, max_bytes=100, max_waiting=5)),
        ("headers only", _create(headers_only=True, description="d", mem_storage=True)),
        ("inactive", _create(inactive_threshold=10 * SECOND)),
        ("one replica", _create(num_replicas=1)),
        ("metadata", _create(metadata={"b": "1", "a": "2", "_nats.ver": "x"})),
        ("pause", _create(pause_until="2040-01-01T00:00:00+02:00")),
        ("pinned", _create(**EXPLICIT, **PINNED)),
        ("overflow", _create(priority_policy="overflow", priority_groups=["A", "B"])),
        ("prioritized", _create(priority_policy="prioritized", priority_groups=["A-/=_0"])),
        ("pin time", _create(**PINNED, priority_timeout=SECOND)),
        ("stream limits", _on("LIM", ack_policy="explicit")),
        ("stream limits without acks", _on("LIM")),
        ("below stream limits", _on("LIM", ack_policy="explicit", max_ack_pending=3, inactive_threshold=SECOND)),
        ("work queue", _on("WQ", ack_policy="explicit")),
        ("interest", _on("INT", ack_policy="explicit", num_replicas=1)),
        ("zero time", _create(pause_until="0001-01-01T00:00:00Z")),
        (
            "null fields",
            ("CREATE.S.c", '{"stream_name":"S","config":{"backoff":null,"ack_wait":null},"pedantic":null}'),
        ),
    ]
)

INVALID = _rows(
    [
        ("wildcard deliver", _create(deliver_subject="d.*")),
        ("invalid deliver", _create(deliver_subject="d..x")),
        ("deliver with space", _create(deliver_subject="a b")),
        ("deliver into the stream", _create(deliver_subject="s.x")),
        ("push waiting", _create(deliver_subject="d", max_waiting=5)),
        ("push pending without acks", _create(deliver_subject="d", max_ack_pending=5)),
        ("small heartbeat", _create(deliver_subject="d", idle_heartbeat=99 * MILLISECOND)),
        ("flow without heartbeat", _create(deliver_subject="d", flow_control=True)),
        ("pull rate", _create(rate_limit_bps=1)),
        ("pull heartbeat", _create(idle_heartbeat=SECOND)),
        ("pull flow", _create(flow_control=True)),
        ("pull expires", _create(max_expires=1)),
        ("work queue none", _on("WQ")),
        ("work queue all", _on("WQ", ack_policy="all")),
        ("work queue push none", _on("WQ", deliver_subject="d")),
        ("work queue new", _on("WQ", ack_policy="explicit", deliver_policy="new")),
        ("invalid filter", _create(filter_subject="a..b")),
        ("both filters", _create(filter_subject="s.a", filter_subjects=["s.b"])),
        ("overlapping filters", _create(filter_subjects=["s.*", "s.a"])),
        ("crossing filters are fine", _create(filter_subjects=["s.*.a", "s.b.*"])),
        ("same filters", _create(filter_subjects=["s.a", "s.a"])),
        ("empty filter", _create(filter_subjects=["s.a", ""])),
        ("invalid filters", _create(filter_subjects=["s.a", "b c"])),
        ("all with sequence", _create(opt_start_seq=1)),
        ("all with time", _create(opt_start_time="2026-01-01T00:00:00Z")),
        ("last with sequence", _create(deliver_policy="last", opt_start_seq=1)),
        ("new with time", _create(deliver_policy="new", opt_start_time="2026-01-01T00:00:00Z")),
        ("last per subject without filter", _create(deliver_policy="last_per_subject")),
        ("last per subject with sequence", _create(deliver_policy="last_per_subject", opt_start_seq=1)),
        ("sequence missing", _create(deliver_policy="by_start_sequence")),
        (
            "sequence with time",
            _create(deliver_policy="by_start_sequence", opt_start_seq=1, opt_start_time="2026-01-01T00:00:00Z"),
        ),
        ("time missing", _create(deliver_policy="by_start_time")),
        (
            "time with sequence",
            _create(deliver_policy="by_start_time", opt_start_seq=1, opt_start_time="2026-01-01T00:00:00Z"),
        ),
        ("backoff longer", _create(ack_policy="explicit", backoff=[1, 2, 3], max_deliver=2)),
        ("negative backoff", _create(ack_policy="explicit", backoff=[1, -2])),
        ("negative ack wait", _create(ack_policy="explicit", ack_wait=-1)),
        ("sampling text", _create(sample_freq="x")),
        ("sampling percent only", _create(sample_freq="%")),
        ("sampling negative", _create(sample_freq="-5")),
        ("sampling huge", _create(sample_freq="99999999999999999999")),
        ("long description", _create(description="x" * 4097)),
        ("large metadata", _create(metadata={"k": "x" * 131072})),
        ("replicas", _create(num_replicas=3)),
        ("negative replicas", _create(num_replicas=-1)),
        ("direct pull", _create(direct=True)),
        ("direct durable", _create(direct=True, durable_name="c", deliver_subject="d")),
        ("pending beyond stream", _on("LIM", ack_policy="explicit", max_ack_pending=8)),
        ("threshold beyond stream", _on("LIM", ack_policy="explicit", inactive_threshold=91 * SECOND)),
        ("flow control acks on pull", _create(ack_policy="flow_control")),
        ("flow control acks with wait", _create(deliver_subject="d", ack_policy="flow_control", ack_wait=SECOND)),
        ("flow control acks with deliveries", _create(deliver_subject="d", ack_policy="flow_control", max_deliver=2)),
        ("flow control acks unlimited", _create(deliver_subject="d", ack_policy="flow_control", max_ack_pending=-1)),
        ("policy without groups", _create(priority_policy="overflow")),
        ("groups without policy", _create(priority_groups=["A"])),
        ("pin time without policy", _create(priority_timeout=SECOND)),
        ("empty group", _create(priority_policy="overflow", priority_groups=[""])),
        ("bad group", _create(priority_policy="overflow", priority_groups=["a b"])),
        ("long group", _create(priority_policy="overflow", priority_groups=["x" * 17])),
        ("push priority", _create(**PINNED, deliver_subject="d")),
        ("long name", (f"CREATE.S.{'n' * 256}", _body({}))),
        ("long durable name", (f"CREATE.S.{'n' * 256}", _body({"durable_name": "n" * 256}))),
    ]
)

NAMES = _rows(
    [
        ("stream name differs", ("CREATE.S.c", _body({}, "T"))),
        ("stream name missing", ("CREATE.S.c", {"config": {}})),
        ("no such stream", ("CREATE.NONE.c", _body({}, "NONE"))),
        ("no such stream with bad config", ("CREATE.NONE.c", _body({"max_expires": 1}, "NONE"))),
        ("slash in name", ("CREATE.S.a/b", _body({}))),
        ("slash in config name", ("CREATE.S", _body({"name": "a/b"}))),
        ("dot in config name", ("CREATE.S", _body({"name": "a.b"}))),
        ("legacy named", ("CREATE.S", _body({"name": "given"}))),
        ("legacy durable", ("CREATE.S", _body({"durable_name": "x"}))),
        ("durable form without durable", ("DURABLE.CREATE.S.c", _body({}))),
        ("durable form other", ("DURABLE.CREATE.S.c", _body({"durable_name": "x"}))),
        ("durable form", ("DURABLE.CREATE.S.c", _body({"durable_name": "c"}))),
        ("durable form with other name", ("DURABLE.CREATE.S.c", _body({"durable_name": "c", "name": "x"}))),
        ("durable differs", ("CREATE.S.c", _body({"durable_name": "x"}))),
        ("name is overwritten", ("CREATE.S.c", _body({"name": "other"}))),
        ("filter in subject", ("CREATE.S.c.s.a", _body({"filter_subject": "s.a"}))),
        ("filter in subject differs", ("CREATE.S.c.s.a", _body({"filter_subject": "s.b"}))),
        ("filter in subject only", ("CREATE.S.c.s.a", _body({}))),
        ("filters and subject", ("CREATE.S.c.s.a", _body({"filter_subjects": ["s.a"]}))),
        ("wildcard filter in subject", ("CREATE.S.c.s.>", _body({"filter_subject": "s.>"}))),
        ("replicas before stream", ("CREATE.NONE.c", _body({"num_replicas": 3}, "NONE"))),
        ("empty body", ("CREATE.S.c", b"")),
        ("action create", ("CREATE.S.c", _body({}, action="create"))),
        ("action update", ("CREATE.S.c", _body({}, action="update"))),
        ("action empty", ("CREATE.S.c", _body({}, action=""))),
        ("action unknown", ("CREATE.S.c", _body({}, action="nope"))),
        ("action null", ("CREATE.S.c", _body({}, action=None))),
    ]
)

PEDANTIC: list[Row] = [
    (f"pedantic {name}", f"CREATE.{stream}.c", _body(config, stream, pedantic=True), [])
    for name, stream, config in (
        ("fine", "S", {"ack_policy": "explicit"}),
        ("max deliver", "S", {"max_deliver": -2}),
        ("max waiting", "S", {"max_waiting": -2}),
        ("max ack pending", "S", {"max_ack_pending": -2}),
        ("max batch", "S", {"max_batch": -1}),
        ("max expires", "S", {"max_expires": -1}),
        ("max bytes", "S", {"max_bytes": -1}),
        ("heartbeat", "S", {"idle_heartbeat": -1}),
        ("inactive", "S", {"inactive_threshold": -1}),
        ("pin time", "S", {"priority_timeout": -1}),
        ("backoff", "S", {"ack_policy": "explicit", "backoff": [SECOND]}),
        ("stream pending", "LIM", {"ack_policy": "explicit"}),
        ("stream threshold", "LIM", {"ack_policy": "explicit", "max_ack_pending": 1}),
        ("flow control acks", "S", {"ack_policy": "flow_control", "deliver_subject": "d"}),
        ("flow control heartbeat", "S", {"ack_policy": "flow_control", "deliver_subject": "d", "flow_control": True}),
    )
]


def _update(name: str, before: dict[str, Any], after: dict[str, Any], **more: Any) -> Row:
    return name, "CREATE.S.c", _body(after, **more), [("CREATE.S.c", _body(before))]


PUSH = {"deliver_subject": "d", "ack_policy": "explicit"}

UPDATES: list[Row] = [
    _update("same", EXPLICIT, EXPLICIT),
    _update("same, create only", EXPLICIT, {**EXPLICIT, "max_ack_pending": 1000}, action="create"),
    _update("different, create only", EXPLICIT, {**EXPLICIT, "description": "x"}, action="create"),
    _update("update only", EXPLICIT, {**EXPLICIT, "description": "x"}, action="update"),
    _update("deliver policy", EXPLICIT, {**EXPLICIT, "deliver_policy": "new"}),
    _update("ack policy", EXPLICIT, {"ack_policy": "none"}),
    _update("replay policy", EXPLICIT, {**EXPLICIT, "replay_policy": "original"}),
    _update("max waiting", EXPLICIT, {**EXPLICIT, "max_waiting": 5}),
    _update("storage", EXPLICIT, {**EXPLICIT, "mem_storage": True}),
    _update(
        "start sequence",
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 1},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 2},
    ),
    _update(
        "start time",
        {"deliver_policy": "by_start_time", "opt_start_time": "2026-01-01T00:00:00Z"},
        {"deliver_policy": "by_start_time", "opt_start_time": "2026-01-01T00:00:01Z"},
    ),
    _update(
        "same start time in another zone",
        {"deliver_policy": "by_start_time", "opt_start_time": "2026-01-01T00:00:00Z"},
        {"deliver_policy": "by_start_time", "opt_start_time": "2026-01-01T01:00:00+01:00"},
    ),
    _update("heartbeat", PUSH, {**PUSH, "idle_heartbeat": SECOND}),
    _update(
        "flow control", {**PUSH, "idle_heartbeat": SECOND}, {**PUSH, "idle_heartbeat": SECOND, "flow_control": True}
    ),
    _update("pull to push", EXPLICIT, PUSH),
    _update("push to pull", PUSH, EXPLICIT),
    _update("deliver subject", PUSH, {**PUSH, "deliver_subject": "e"}),
    _update("deliver group", PUSH, {**PUSH, "deliver_group": "g"}),
    _update("sourcing", PUSH, {**PUSH, "sourcing": True}),
    _update("ack wait", EXPLICIT, {**EXPLICIT, "ack_wait": SECOND}),
    _update("backoff", EXPLICIT, {**EXPLICIT, "backoff": [SECOND], "max_deliver": 4}),
    _update("filters", EXPLICIT, {**EXPLICIT, "filter_subjects": ["s.a", "s.b"]}),
    _update("pending", EXPLICIT, {**EXPLICIT, "max_ack_pending": 5}),
    _update("priority", EXPLICIT, {**EXPLICIT, **PINNED}),
    _update("pause is kept", {**EXPLICIT, "pause_until": "2040-01-01T00:00:00Z"}, EXPLICIT),
    _update("pause is not set", EXPLICIT, {**EXPLICIT, "pause_until": "2040-01-01T00:00:00Z"}),
    _update("metadata", {**EXPLICIT, "metadata": {"a": "b"}}, {**EXPLICIT, "metadata": {"c": "d"}}),
    _update("durable after ephemeral", EXPLICIT, {**EXPLICIT, "durable_name": "c"}),
    _update("limits of requests", EXPLICIT, {**EXPLICIT, "max_batch": 3, "max_bytes": 4, "max_expires": SECOND}),
]

W1 = ("CREATE.WQ.w1", _body({"ack_policy": "explicit"}, "WQ"))
W2 = ("CREATE.WQ.w2", _body({"ack_policy": "explicit", "filter_subject": "w.a.*"}, "WQ"))
W3 = ("CREATE.WQ.w3", _body({"ack_policy": "explicit", "filter_subject": "w.b"}, "WQ"))
I1 = ("CREATE.INT.i1", _body({"ack_policy": "explicit"}, "INT"))
I2 = ("CREATE.INT.i2", _body({"ack_policy": "explicit"}, "INT"))


def _after(name: str, request: Request, before: list[Request]) -> Row:
    return name, request[0], request[1], before


COMPANY: list[Row] = [
    _after("second unfiltered on a work queue", _on("WQ", ack_policy="explicit"), [W1]),
    _after("filtered beside unfiltered", _on("WQ", ack_policy="explicit", filter_subject="w.a"), [W1]),
    _after("unfiltered beside filtered", _on("WQ", ack_policy="explicit"), [W2]),
    _after("overlapping filter", _on("WQ", ack_policy="explicit", filter_subject="w.*.b"), [W2]),
    _after("disjoint filter", _on("WQ", ack_policy="explicit", filter_subject="w.b"), [W2]),
    _after("update into overlap", ("CREATE.WQ.w3", W2[1]), [W2, W3]),
    _after("update to unfiltered", ("CREATE.WQ.w3", W1[1]), [W2, W3]),
    _after("one too many", _on("INT", ack_policy="explicit"), [I1, I2]),
    _after("an update is not one too many", I2, [I1, I2]),
    _after("direct is not counted", _on("INT", direct=True, deliver_subject="d"), [I1, I2]),
]

ALL: list[Row] = [*DEFAULTS, *INVALID, *NAMES, *PEDANTIC, *UPDATES, *COMPANY]
