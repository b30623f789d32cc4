"""Stream configurations to put to both servers: (name of the row, body, streams that exist already)."""

from __future__ import annotations

from typing import Any

Row = tuple[str, Any, list[dict[str, Any]]]

SECOND = 1_000_000_000
MILLISECOND = 1_000_000
ORIGIN = {"name": "ORIGIN", "subjects": ["origin.>"], "allow_direct": True, "max_msg_size": 1000}


def _named(**config: Any) -> dict[str, Any]:
    return {"name": "S", **config}


def _plain(rows: list[tuple[str, Any]]) -> list[Row]:
    return [(name, body, []) for name, body in rows]


DEFAULTS = _plain(
    [
        ("only a name", _named()),
        ("subjects", _named(subjects=["a", "b.*", "c.>"])),
        ("memory", _named(storage="memory")),
        ("interest", _named(retention="interest")),
        ("work queue", _named(retention="workqueue")),
        ("discard new", _named(discard="new")),
        ("discard in capitals", _named(discard="NEW")),
        ("s2", _named(compression="s2")),
        ("zero limits", _named(max_msgs=0, max_bytes=0, max_consumers=0, max_msgs_per_subject=0, max_msg_size=0)),
        ("negative limits", _named(max_msgs=-5, max_bytes=-6, max_consumers=-7, max_msgs_per_subject=-8)),
        ("negative message size", _named(max_msg_size=-9)),
        ("limits", _named(max_msgs=1, max_bytes=2, max_consumers=3, max_msgs_per_subject=4, max_msg_size=5)),
        ("no replicas", _named(num_replicas=0)),
        ("max age", _named(max_age=3600 * SECOND)),
        ("short max age shortens the duplicate window", _named(max_age=SECOND)),
        ("duplicate window", _named(duplicate_window=5 * SECOND)),
        ("first sequence", _named(first_seq=100)),
        ("no ack", _named(no_ack=True)),
        ("all booleans", _named(allow_direct=True, deny_delete=True, deny_purge=True)),
        ("rollup", _named(allow_rollup_hdrs=True)),
        ("ttl", _named(allow_msg_ttl=True)),
        ("marker switches ttl and rollup on", _named(subject_delete_marker_ttl=SECOND)),
        ("marker cancels deny purge", _named(subject_delete_marker_ttl=SECOND, deny_purge=True)),
        ("schedules switch rollup on", _named(allow_msg_schedules=True, deny_purge=True)),
        ("counter", _named(allow_msg_counter=True)),
        ("atomic", _named(allow_atomic=True)),
        ("batched", _named(allow_batched=True)),
        ("async", _named(persist_mode="async")),
        ("persist mode default", _named(persist_mode="default")),
        ("persist mode empty", _named(persist_mode="")),
        ("description", _named(description="what it is for")),
        ("metadata", _named(metadata={"owner": "me", "b": "", "a": "1"})),
        ("metadata of the server is replaced", _named(metadata={"_nats.ver": "1", "_nats.level": "9", "x": "y"})),
        ("required level of the server is replaced", _named(metadata={"_nats.req.level": "7"})),
        ("consumer limits", _named(consumer_limits={"inactive_threshold": SECOND, "max_ack_pending": 10})),
        ("empty placement", _named(placement={})),
        ("placement", _named(placement={"cluster": "c", "tags": ["t"]})),
        ("transform", _named(subjects=["a.*"], subject_transform={"src": "a.*", "dest": "b.$1"})),
        ("transform without destination", _named(subject_transform={"src": "S", "dest": ""})),
        ("republish", _named(subjects=["a.>"], republish={"src": "a.>", "dest": "r.>", "headers_only": True})),
        ("republish everything", _named(subjects=["a.>"], republish={"dest": "r.>"})),
        (
            "republish by transform",
            _named(
                subjects=["a.>"], subject_transform={"src": "a.>", "dest": "t.>"}, republish={"src": ">", "dest": ">"}
            ),
        ),
        ("republish without destination", _named(republish={"src": "a.>", "dest": ""})),
        ("events may be captured", _named(subjects=["$JS.EVENT.>"])),
        ("account events may be captured", _named(subjects=["$SYS.ACCOUNT.>"])),
        ("everything without acks", _named(subjects=[">"], no_ack=True)),
        ("api without acks", _named(subjects=["$JS.API.>"], no_ack=True)),
        (
            "key value store",
            _named(subjects=["$KV.b.>"], max_msgs_per_subject=1, discard="new", allow_rollup_hdrs=True),
        ),
        ("discard new per subject", _named(discard="new", discard_new_per_subject=True, max_msgs_per_subject=1)),
        ("nulls", '{"name":"S","subjects":null,"max_msgs":null,"mirror":null,"sources":null,"consumer_limits":null}'),
        ("capitals in keys", '{"NAME":"S","Max_Msgs":5}'),
        ("two documents", '{"name":"S"} {"max_msgs":7}'),
        ("white space", ' \n{"name" : "S" }\t '),
        ("escaped text", '{"name":"S","description":"\\u00e9 \\"x\\" <&>"}'),
        ("large first sequence", '{"name":"S","first_seq":4611686018427387904}'),
        ("minus zero", '{"name":"S","max_msgs":-0}'),
        ("wildcards inside words are letters", _named(subjects=["a*", "b>c"])),
    ]
)

INVALID = _plain(
    [
        ("no name", {}),
        ("other name", {"name": "T"}),
        ("sealed", _named(sealed=True)),
        ("mirror direct alone", _named(mirror_direct=True)),
        ("too many replicas", _named(num_replicas=6)),
        ("replicas", _named(num_replicas=3)),
        ("negative replicas", _named(num_replicas=-1)),
        ("long description", _named(description="x" * 4097)),
        ("description of many bytes", _named(description="é" * 2049)),
        ("large metadata", _named(metadata={"k": "v" * 131072})),
        ("negative age", _named(max_age=-1)),
        ("tiny age", _named(max_age=99 * MILLISECOND)),
        ("negative window", _named(duplicate_window=-1)),
        ("tiny window", _named(duplicate_window=1)),
        ("window beyond age", _named(max_age=SECOND, duplicate_window=2 * SECOND)),
        ("rollup without purge", _named(deny_purge=True, allow_rollup_hdrs=True)),
        ("counter and discard new", _named(allow_msg_counter=True, discard="new")),
        ("counter and ttl", _named(allow_msg_counter=True, allow_msg_ttl=True)),
        ("counter and schedules", _named(allow_msg_counter=True, allow_msg_schedules=True)),
        ("counter and work queue", _named(allow_msg_counter=True, retention="workqueue")),
        ("per subject without discard new", _named(discard_new_per_subject=True)),
        ("per subject without limit", _named(discard_new_per_subject=True, discard="new")),
        ("tiny marker", _named(subject_delete_marker_ttl=SECOND - 1)),
        ("negative marker", _named(subject_delete_marker_ttl=-1)),
        ("schedules and discard new", _named(allow_msg_schedules=True, discard="new")),
        ("async memory", _named(persist_mode="async", storage="memory")),
        ("async atomic", _named(persist_mode="async", allow_atomic=True)),
        ("async replicated", _named(persist_mode="async", num_replicas=3)),
        ("same subject twice", _named(subjects=["a", "a"])),
        ("overlapping subjects", _named(subjects=["a.>", "a.*.b"])),
        ("empty subject", _named(subjects=[""])),
        ("empty token", _named(subjects=["a..b"])),
        ("space", _named(subjects=["a b"])),
        ("rest in the middle", _named(subjects=["a.>.b"])),
        ("everything", _named(subjects=[">"])),
        ("all one token", _named(subjects=["*"])),
        ("api", _named(subjects=["$JS.API.>"])),
        ("all of js", _named(subjects=["$JS.>"])),
        ("a wildcard that reaches the api", _named(subjects=["*.API.>"])),
        ("jsc", _named(subjects=["$JSC.x"])),
        ("raft", _named(subjects=["$NRG.x"])),
        ("system", _named(subjects=["$SYS.REQ.>"])),
        ("transform source", _named(subject_transform={"src": "a..b", "dest": "b"})),
        ("transform destination", _named(subject_transform={"src": "a.*", "dest": "b.$2"})),
        ("transform function", _named(subject_transform={"src": "a.*", "dest": "b.{{nope(1)}}"})),
        ("republish cycle", _named(subjects=["a.>"], republish={"src": "a.>", "dest": "a.b.>"})),
        ("republish transform", _named(subjects=["a.*"], republish={"src": "a.*", "dest": "r.>"})),
        ("preferred server", _named(placement={"preferred": "x"})),
        ("too large for the disk", _named(max_bytes=10**12)),
        ("too large for the memory", _named(max_bytes=10**12, storage="memory")),
    ]
)

PEDANTIC = _plain(
    [
        ("pedantic and fine", _named(pedantic=True)),
        ("pedantic max_msgs", _named(pedantic=True, max_msgs=-2)),
        ("pedantic max_msgs_per_subject", _named(pedantic=True, max_msgs_per_subject=-2)),
        ("pedantic max_bytes", _named(pedantic=True, max_bytes=-2)),
        ("pedantic max_msg_size", _named(pedantic=True, max_msg_size=-2)),
        ("pedantic max_consumers", _named(pedantic=True, max_consumers=-2)),
        ("pedantic window", _named(pedantic=True, max_age=SECOND)),
        ("pedantic marker without ttl", _named(pedantic=True, subject_delete_marker_ttl=SECOND)),
        (
            "pedantic marker without rollup",
            _named(pedantic=True, subject_delete_marker_ttl=SECOND, allow_msg_ttl=True),
        ),
        ("pedantic schedules", _named(pedantic=True, allow_msg_schedules=True)),
        ("pedantic republish", _named(pedantic=True, subjects=["a.>"], republish={"dest": "r.>"})),
        (
            "pedantic implicit republish",
            _named(
                pedantic=True,
                subjects=["a.>"],
                subject_transform={"src": "a.>", "dest": "t.>"},
                republish={"src": ">", "dest": ">"},
            ),
        ),
    ]
)

ORIGINS: list[Row] = [
    ("mirror of nothing", _named(mirror={"name": "NONE"}), []),
    ("mirror", _named(mirror={"name": "ORIGIN"}), [ORIGIN]),
    ("mirror with start", _named(mirror={"name": "ORIGIN", "opt_start_seq": 3}), [ORIGIN]),
    ("mirror with window", _named(mirror={"name": "ORIGIN"}, duplicate_window=SECOND), [ORIGIN]),
    ("mirror with max age", _named(mirror={"name": "ORIGIN"}, max_age=SECOND), [ORIGIN]),
    ("mirror time zone", _named(mirror={"name": "ORIGIN", "opt_start_time": "2026-01-01T00:00:00.50+02:00"}), []),
    ("mirror and first sequence", _named(mirror={"name": "ORIGIN"}, first_seq=5), [ORIGIN]),
    ("mirror and subjects", _named(mirror={"name": "ORIGIN"}, subjects=["a"]), [ORIGIN]),
    ("mirror and sources", _named(mirror={"name": "ORIGIN"}, sources=[{"name": "X"}]), [ORIGIN]),
    ("mirror and counter", _named(mirror={"name": "ORIGIN"}, allow_msg_counter=True), []),
    ("mirror and atomic", _named(mirror={"name": "ORIGIN"}, allow_atomic=True), []),
    ("mirror and batched", _named(mirror={"name": "ORIGIN"}, allow_batched=True), []),
    ("mirror and schedules", _named(mirror={"name": "ORIGIN"}, allow_msg_schedules=True), []),
    ("mirror and markers", _named(mirror={"name": "ORIGIN"}, subject_delete_marker_ttl=SECOND), []),
    ("mirror name", _named(mirror={"name": "a.b"}), []),
    ("mirror without name", _named(mirror={}), []),
    ("mirror of itself", _named(mirror={"name": "S"}), []),
    ("mirror smaller", _named(mirror={"name": "ORIGIN"}, max_msg_size=10), [ORIGIN]),
    ("mirror larger", _named(mirror={"name": "ORIGIN"}, max_msg_size=2000), [ORIGIN]),
    ("mirror filter", _named(mirror={"name": "ORIGIN", "filter_subject": "origin.a"}), [ORIGIN]),
    ("mirror bad filter", _named(mirror={"name": "ORIGIN", "filter_subject": "a b"}), [ORIGIN]),
    (
        "mirror filter and transforms",
        _named(mirror={"name": "O", "filter_subject": "a", "subject_transforms": [{"src": "a", "dest": "b"}]}),
        [],
    ),
    ("mirror transforms", _named(mirror={"name": "O", "subject_transforms": [{"src": "a.*", "dest": "b.$1"}]}), []),
    ("mirror transform source", _named(mirror={"name": "O", "subject_transforms": [{"src": "a b", "dest": "b"}]}), []),
    ("mirror transform", _named(mirror={"name": "O", "subject_transforms": [{"src": "a.*", "dest": "b.$9"}]}), []),
    (
        "mirror overlap",
        _named(
            mirror={"name": "O", "subject_transforms": [{"src": "a.*", "dest": "b.$1"}, {"src": "*.b", "dest": "c.$1"}]}
        ),
        [],
    ),
    ("mirror external", _named(mirror={"name": "O", "external": {"api": "$JS.hub.API", "deliver": "d"}}), []),
    ("mirror external api", _named(mirror={"name": "O", "external": {"api": "$JS.API", "deliver": ""}}), []),
    ("mirror external wildcard", _named(mirror={"name": "O", "external": {"api": "a.*", "deliver": ""}}), []),
    ("mirror delivery wildcard", _named(mirror={"name": "O", "external": {"api": "", "deliver": "d.*"}}), []),
    ("mirror consumer name", _named(mirror={"name": "O", "consumer": {"name": "a.b", "deliver_subject": "d"}}), []),
    ("mirror consumer subject", _named(mirror={"name": "O", "consumer": {"name": "c", "deliver_subject": "d.*"}}), []),
    (
        "mirror consumer and start",
        _named(mirror={"name": "O", "opt_start_seq": 1, "consumer": {"name": "c", "deliver_subject": "d"}}),
        [],
    ),
    ("mirror consumer", _named(mirror={"name": "O", "consumer": {"name": "c", "deliver_subject": "d"}}), []),
    ("pedantic mirror", _named(mirror={"name": "ORIGIN"}, pedantic=True), [ORIGIN]),
    ("pedantic mirror with direct", _named(mirror={"name": "ORIGIN"}, mirror_direct=True, pedantic=True), [ORIGIN]),
    ("source", _named(sources=[{"name": "ORIGIN"}]), [ORIGIN]),
    ("source and subjects", _named(sources=[{"name": "ORIGIN"}], subjects=["a"]), [ORIGIN]),
    ("source null", _named(sources=[None]), []),
    ("source name", _named(sources=[{"name": "a b"}]), []),
    ("source twice", _named(sources=[{"name": "O"}, {"name": "O"}]), []),
    ("source twice filtered", _named(sources=[{"name": "O", "filter_subject": "a"}, {"name": "O"}]), []),
    ("source schedules", _named(sources=[{"name": "O"}], allow_msg_schedules=True), []),
    ("source smaller", _named(sources=[{"name": "ORIGIN"}], max_msg_size=10), [ORIGIN]),
    ("source bad filter", _named(sources=[{"name": "O", "filter_subject": "a..b"}]), []),
    (
        "source filter and transforms",
        _named(sources=[{"name": "O", "filter_subject": "a", "subject_transforms": [{"src": "a", "dest": "b"}]}]),
        [],
    ),
    (
        "source transform source",
        _named(sources=[{"name": "O", "subject_transforms": [{"src": "a b", "dest": "b"}]}]),
        [],
    ),
    ("source transform", _named(sources=[{"name": "O", "subject_transforms": [{"src": "a", "dest": "b.*"}]}]), []),
    (
        "source overlap",
        _named(sources=[{"name": "O", "subject_transforms": [{"src": "a.>", "dest": ""}, {"src": "a.b", "dest": ""}]}]),
        [],
    ),
    (
        "source consumer twice",
        _named(
            sources=[
                {"name": "O", "consumer": {"name": "c", "deliver_subject": "d"}},
                {
                    "name": "O",
                    "consumer": {"name": "c", "deliver_subject": "e"},
                    "subject_transforms": [{"src": "x", "dest": ""}],
                },
            ]
        ),
        [],
    ),
    ("source consumer", _named(sources=[{"name": "O", "consumer": {"name": "", "deliver_subject": "d"}}]), []),
    ("source of itself", _named(sources=[{"name": "S"}]), []),
    ("source cycle", _named(sources=[{"name": "T"}]), [{"name": "T", "sources": [{"name": "S"}]}]),
    (
        "source cycle with a filter that does not feed",
        _named(sources=[{"name": "T"}]),
        [{"name": "T", "subjects": ["t"], "sources": [{"name": "S", "filter_subject": "zzz"}]}],
    ),
    ("mirror cycle", _named(mirror={"name": "T"}), [{"name": "T", "mirror": {"name": "S"}}]),
    (
        "delivery prefix over the origin",
        _named(sources=[{"name": "ORIGIN"}, {"name": "X", "external": {"api": "x", "deliver": "origin"}}]),
        [{"name": "ORIGIN", "subjects": ["*.>"], "no_ack": True}],
    ),
    ("overlap with another stream", _named(subjects=["origin.a"]), [ORIGIN]),
    ("no overlap with another stream", _named(subjects=["other.a"]), [ORIGIN]),
    ("same again", _named(subjects=["a"], metadata={"k": "v"}), [_named(subjects=["a"], metadata={"k": "v"})]),
    ("same with defaults written out", _named(subjects=["a"], max_msgs=-1), [_named(subjects=["a"])]),
    ("different", _named(subjects=["a"], max_msgs=5), [_named(subjects=["a"])]),
    ("different metadata", _named(subjects=["a"], metadata={"k": "w"}), [_named(subjects=["a"], metadata={"k": "v"})]),
]

CREATES: list[Row] = [*DEFAULTS, *INVALID, *PEDANTIC, *ORIGINS]
