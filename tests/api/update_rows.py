"""Stream updates to put to both servers: (name of the row, stream that exists, its new configuration)."""

from __future__ import annotations

from typing import Any

from tests.api.stream_rows import SECOND

Row = tuple[str, dict[str, Any], Any]


def _named(**config: Any) -> dict[str, Any]:
    return {"name": "S", **config}


def _both(base: dict[str, Any], **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return _named(**base), _named(**{**base, **changes})


UPDATES: list[Row] = [
    ("nothing", *_both({})),
    ("everything forgotten goes back to defaults", _named(max_msgs=5, description="x"), _named()),
    ("subjects", *_both({"subjects": ["a"]}, subjects=["a", "b"])),
    ("limits", *_both({}, max_msgs=5, max_bytes=1000, max_age=SECOND, max_msgs_per_subject=1, max_consumers=3)),
    ("discard", *_both({}, discard="new")),
    ("compression", *_both({}, compression="s2")),
    ("first sequence", *_both({}, first_seq=7)),
    ("direct", *_both({}, allow_direct=True)),
    ("metadata", *_both({"metadata": {"a": "b"}}, metadata={"c": "d"})),
    ("republish", *_both({"subjects": ["a"]}, republish={"src": "a", "dest": "b"})),
    ("transform", *_both({"subjects": ["a"]}, subject_transform={"src": "a", "dest": "b"})),
    ("limits to interest", *_both({}, retention="interest")),
    ("interest to limits", *_both({"retention": "interest"}, retention="limits")),
    ("to work queue", *_both({}, retention="workqueue")),
    ("from work queue", *_both({"retention": "workqueue"}, retention="limits")),
    ("storage", *_both({}, storage="memory")),
    ("storage forgotten", _named(storage="memory"), _named()),
    ("seal", *_both({"max_age": SECOND, "allow_rollup_hdrs": True}, sealed=True)),
    ("deny delete", *_both({}, deny_delete=True)),
    ("allow delete again", *_both({"deny_delete": True}, deny_delete=False)),
    ("allow purge again", *_both({"deny_purge": True}, deny_purge=False)),
    ("mirror added", *_both({"subjects": ["a"]}, subjects=[], mirror={"name": "O"})),
    ("mirror changed", *_both({"mirror": {"name": "O"}}, mirror={"name": "P"})),
    ("mirror kept", *_both({"mirror": {"name": "O"}}, max_msgs=5)),
    ("mirror removed", _named(mirror={"name": "O"}), _named()),
    ("sources", *_both({}, sources=[{"name": "O"}])),
    ("ttl on", *_both({}, allow_msg_ttl=True)),
    ("ttl off", *_both({"allow_msg_ttl": True}, allow_msg_ttl=False)),
    ("counter on", *_both({}, allow_msg_counter=True)),
    ("counter off", *_both({"allow_msg_counter": True}, allow_msg_counter=False)),
    ("schedules on", *_both({}, allow_msg_schedules=True)),
    ("schedules off", *_both({"allow_msg_schedules": True}, allow_msg_schedules=False)),
    ("persist mode", *_both({}, persist_mode="async")),
    ("atomic on", *_both({}, allow_atomic=True)),
    ("batched on", *_both({}, allow_batched=True)),
    ("replicas", *_both({}, num_replicas=3)),
    ("too many replicas", *_both({}, num_replicas=7)),
    ("bad subject", *_both({}, subjects=["a..b"])),
    ("other name", _named(), {"name": "T"}),
    ("no name", _named(), {}),
    ("pedantic", *_both({}, max_msgs=-5, pedantic=True)),
    ("unknown field", *_both({}, nope=1)),
    ("mirror direct alone", *_both({}, mirror_direct=True)),
    ("delete marker", *_both({}, subject_delete_marker_ttl=SECOND)),
    ("more than the disk", *_both({"max_bytes": 1000}, max_bytes=10**12)),
    ("within the disk", *_both({"max_bytes": 150_000_000}, max_bytes=180_000_000)),
    ("consumer limits", *_both({}, consumer_limits={"max_ack_pending": 5})),
    ("preferred", *_both({}, placement={"preferred": "x"})),
    ("window", *_both({}, duplicate_window=SECOND)),
    ("window beyond age", *_both({}, duplicate_window=2 * SECOND, max_age=SECOND)),
    ("overlap", *_both({}, subjects=["other.x"])),
]
