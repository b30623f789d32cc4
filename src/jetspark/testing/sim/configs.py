"""Random configurations of streams and consumers, within what the API accepts most of the time."""

from __future__ import annotations

from random import Random
from typing import Any

MILLISECOND_NS = 1_000_000
SECOND_NS = 1_000_000_000
# Added to waits, so that no two timers are due at the same moment and the order of what follows is known.
ODD_NS = (3_001, 7_013, 11_027, 17_041)

WORDS = ("a", "b", "c", "d.e", "d.f")


def stream_config(rng: Random, name: str, description: str, *, file_share: float) -> dict[str, Any]:
    """A stream that captures `<name>.>`."""
    config: dict[str, Any] = {
        "name": name,
        "description": description,
        "subjects": [f"{name}.>"],
        "storage": "file" if rng.random() < file_share else "memory",
        "retention": rng.choice(("limits", "limits", "interest", "workqueue")),
        "discard": rng.choice(("old", "old", "new")),
        "allow_direct": rng.random() < 0.3,
    }
    if rng.random() < 0.3:
        config["max_msgs"] = rng.choice((1, 5, 30))
    if rng.random() < 0.2:
        config["max_bytes"] = rng.choice((300, 2_000, 20_000, 100_000))
    if rng.random() < 0.3:
        config["max_msgs_per_subject"] = rng.choice((1, 2, 10))
        config["discard_new_per_subject"] = config["discard"] == "new" and rng.random() < 0.5
    if rng.random() < 0.2:
        config["max_age"] = ODD_NS[0] + rng.choice((200 * MILLISECOND_NS, 2 * SECOND_NS, 60 * SECOND_NS))
    if rng.random() < 0.1:
        config["max_msg_size"] = rng.choice((50, 120))
    window_ns = rng.choice((0, 100 * MILLISECOND_NS, 2 * SECOND_NS, 120 * SECOND_NS))
    if window_ns:
        config["duplicate_window"] = min(window_ns, config.get("max_age", window_ns))
    config["allow_rollup_hdrs"] = rng.random() < 0.3
    config["allow_msg_ttl"] = rng.random() < 0.3
    config["no_ack"] = rng.random() < 0.05
    config["deny_delete"] = rng.random() < 0.05
    config["deny_purge"] = not config["allow_rollup_hdrs"] and rng.random() < 0.05
    config["compression"] = rng.choice(("none", "none", "s2"))
    if rng.random() < 0.1:
        config["first_seq"] = rng.choice((2, 1000))
    return config


def stream_update(rng: Random, config: dict[str, Any]) -> dict[str, Any]:
    """The same stream with some limits changed."""
    changed = dict(config)
    changed["max_msgs"] = rng.choice((-1, 3, 20))
    if rng.random() < 0.5:
        changed["max_msgs_per_subject"] = rng.choice((1, 3))
    if rng.random() < 0.3:
        changed["max_age"] = rng.choice((0, ODD_NS[0] + 500 * MILLISECOND_NS, ODD_NS[0] + 30 * SECOND_NS))
    window_ns = changed.get("duplicate_window", 0)
    if changed.get("max_age") and (not window_ns or window_ns > changed["max_age"]):
        changed["duplicate_window"] = changed["max_age"]
    return changed


def consumer_config(
    rng: Random, stream: str, name: str, description: str, last_seq: int, retention: str
) -> dict[str, Any]:
    """A consumer, durable or not, pull or push."""
    config: dict[str, Any] = {
        "name": name,
        "description": description,
        "ack_policy": rng.choice(("none", "all", "explicit", "explicit")),
    }
    if retention == "workqueue":
        config["ack_policy"] = "explicit"
    else:
        config["deliver_policy"] = rng.choice(
            ("all", "all", "all", "last", "new", "by_start_sequence", "last_per_subject")
        )
        if config["deliver_policy"] == "by_start_sequence":
            config["opt_start_seq"] = rng.randrange(1, last_seq + 4)
    if rng.random() < 0.7:
        config["durable_name"] = name
    else:
        config["inactive_threshold"] = ODD_NS[3] + rng.choice((500 * MILLISECOND_NS, 60 * SECOND_NS))
    add_filter(rng, stream, config)
    if config["ack_policy"] != "none":
        add_acks(rng, config)
    if rng.random() < 0.3:
        config["deliver_subject"] = f"push.{name}"
        add_push(rng, config)
    elif rng.random() < 0.3:
        add_priority(rng, config)
    if rng.random() < 0.05:
        config["replay_policy"] = "original"
    config["headers_only"] = rng.random() < 0.1
    config["mem_storage"] = rng.random() < 0.15
    return config


def add_filter(rng: Random, stream: str, config: dict[str, Any]) -> None:
    """Which subjects it wants."""
    if config.get("deliver_policy") == "last_per_subject":
        config["filter_subject"] = f"{stream}.>"
        return
    choice = rng.random()
    if choice < 0.3:
        config["filter_subject"] = f"{stream}.{rng.choice(WORDS)}"
    elif choice < 0.4:
        config["filter_subject"] = f"{stream}.d.*"
    elif choice < 0.5:
        config["filter_subjects"] = [f"{stream}.a", f"{stream}.d.>"]


def add_acks(rng: Random, config: dict[str, Any]) -> None:
    """When messages come again, and how many may be outstanding."""
    config["ack_wait"] = ODD_NS[1] + rng.choice((50 * MILLISECOND_NS, SECOND_NS, 30 * SECOND_NS))
    if rng.random() < 0.5:
        config["max_ack_pending"] = rng.choice((1, 3, 20))
    if rng.random() < 0.3:
        config["max_deliver"] = rng.choice((1, 2, 4))
    if rng.random() < 0.2:
        steps = (20 * MILLISECOND_NS, 100 * MILLISECOND_NS, SECOND_NS)[: rng.randrange(1, 4)]
        backoff = [step + ODD_NS[2] for step in steps]
        config["backoff"] = backoff
        config["ack_wait"] = backoff[0]
        if config.get("max_deliver", 0) and config["max_deliver"] < len(backoff):
            config["max_deliver"] = len(backoff)


def add_push(rng: Random, config: dict[str, Any]) -> None:
    """How it is pushed."""
    if rng.random() < 0.3:
        config["deliver_group"] = "group"
    if rng.random() < 0.1:
        config["rate_limit_bps"] = 80_000
    if rng.random() < 0.3:
        config["idle_heartbeat"] = 500 * MILLISECOND_NS
        config["flow_control"] = "deliver_group" not in config and rng.random() < 0.5


def add_priority(rng: Random, config: dict[str, Any]) -> None:
    """Which of several clients comes first."""
    config["priority_groups"] = ["g"]
    config["priority_policy"] = rng.choice(("overflow", "pinned_client", "prioritized"))
    if config["priority_policy"] == "pinned_client":
        config["priority_timeout"] = rng.choice((200 * MILLISECOND_NS, 5 * SECOND_NS))
