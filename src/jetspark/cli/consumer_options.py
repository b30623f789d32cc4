"""The options of `consumer add`, `edit` and `copy`, and the wire document they make.

Decided here: `nats`' names for each setting of a consumer, and what `--deliver`, `--backoff`, `--pause` and the
priority groups mean on the wire. What a consumer may be set to is the server's decision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

import click

from jetspark.api.timestamps import format_time
from jetspark.cli.durations import DURATION, SECOND_NS, SIZE, parse_duration_ns
from jetspark.cli.errors import UsageError
from jetspark.cli.stream_options import read_metadata, split_words

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

ACK_POLICIES: Final = ("none", "all", "explicit", "flow_control")
# Options that set one wire field as it is: name on the line, field, type, help.
_PLAIN: Final[tuple[tuple[str, str, Any, str], ...]] = (
    ("--ack", "ack_policy", click.Choice(ACK_POLICIES), "Acknowledgment policy"),
    ("--bps", "rate_limit_bps", int, "Restrict delivery to so many bits per second"),
    ("--deliver-group", "deliver_group", str, "Deliver push messages only to subscriptions of this queue group"),
    ("--description", "description", str, "A few words about the consumer"),
    ("--max-deliver", "max_deliver", int, "How often a message is delivered at most"),
    ("--max-pending", "max_ack_pending", int, "Outstanding acks before delivery pauses"),
    ("--max-waiting", "max_waiting", int, "Maximum number of outstanding pulls"),
    ("--max-pull-batch", "max_batch", int, "Largest batch a pull may ask for"),
    ("--max-pull-expire", "max_expires", DURATION, "Longest time a pull may wait"),
    ("--max-pull-bytes", "max_bytes", SIZE, "Most bytes a pull may ask for"),
    ("--replay", "replay_policy", click.Choice(["instant", "original"]), "As fast as possible, or as they came"),
    ("--target", "deliver_subject", str, "Push messages to this subject"),
    ("--wait", "ack_wait", DURATION, "How long an ack may take before the message is delivered again"),
    ("--inactive-threshold", "inactive_threshold", DURATION, "How long it may be idle before it is removed"),
    ("--replicas", "num_replicas", int, "Replicas of the state; the stream's when not given"),
)
_COMPOSED: Final = (
    click.option("--deliver", metavar="POLICY", help="Where to start: all, new, last, subject, a sequence, or 1h ago"),
    click.option("--filter", "filters", multiple=True, metavar="SUBJECTS", help="Only these subjects; commas, repeats"),
    click.option("--sample", metavar="PERCENT", help="Percentage of acks to sample for monitoring, 0 to 100"),
    click.option("--heartbeat", metavar="DURATION", help="Heartbeats of an idle push consumer; -1 for none"),
    click.option("--flow-control/--no-flow-control", default=None, help="Flow control of a push consumer"),
    click.option("--headers-only/--no-headers-only", default=None, help="Deliver headers without bodies"),
    click.option("--memory/--no-memory", default=None, help="Keep the consumer's state in memory"),
    click.option("--backoff", type=click.Choice(["none", "linear"]), help="How redeliveries are spaced"),
    click.option("--backoff-steps", type=click.IntRange(1), default=10, show_default=True, help="Steps of the backoff"),
    click.option("--backoff-min", type=DURATION, default="1m", show_default=True, help="The shortest backoff"),
    click.option("--backoff-max", type=DURATION, default="20m", show_default=True, help="The longest backoff"),
    click.option("--pause", metavar="PAUSE", help="Start paused: for a duration, or until a time"),
    click.option("--pinned-groups", multiple=True, metavar="GROUPS", help="One pinned client per priority group"),
    click.option("--pinned-ttl", type=DURATION, help="How long a pinned client may be silent"),
    click.option("--overflow-groups", multiple=True, metavar="GROUPS", help="Overflow priority groups"),
    click.option("--prioritized-groups", multiple=True, metavar="GROUPS", help="Prioritized priority groups"),
    click.option("--metadata", multiple=True, metavar="KEY:VALUE", help="Metadata (repeat for several)"),
)


def consumer_options(decorated: Decorated) -> Decorated:
    """Every setting of a consumer as an option; those not given arrive as None or empty."""
    options = [click.option(name, field, type=kind, help=text) for name, field, kind, text in _PLAIN]
    for option in reversed([*options, *_COMPOSED]):
        decorated = option(decorated)
    return decorated


def start_document(deliver: str, at_ns: int) -> dict[str, Any]:
    """What `--deliver` means: a policy by name, a sequence, or so long ago."""
    named = {"all": "all", "new": "new", "last": "last", "subject": "last_per_subject", "1": "all"}
    if deliver.lower() in (*named, "last_per_subject"):
        return {"deliver_policy": named.get(deliver.lower(), deliver.lower())}
    if deliver.isdigit() and int(deliver) > 0:
        return {"deliver_policy": "by_start_sequence", "opt_start_seq": int(deliver)}
    try:
        ago_ns = abs(parse_duration_ns(deliver)) if re.search(r"\d[a-zA-Zµ]", deliver) else 0
    except ValueError:
        ago_ns = 0
    if not ago_ns:
        raise UsageError(
            f"--deliver {deliver!r} is no place to start",
            hint="Use all, last, new, subject, a sequence such as 10, or a duration such as 2m.",
        )
    return {"deliver_policy": "by_start_time", "opt_start_time": format_time(at_ns - ago_ns)}


def sample_text(sample: str) -> str:
    """`--sample 80`, with or without a percent sign."""
    number = sample.removesuffix("%")
    if not number.lstrip("-").isdigit() or int(number) > 100:
        raise UsageError(f"--sample {sample!r} is not a percentage from 0 to 100")
    return number if int(number) > 0 else ""


def linear_backoff(steps: int, shortest_ns: int, longest_ns: int) -> list[int]:
    """Evenly spaced waits, from the shortest to the longest."""
    if shortest_ns <= 0 or longest_ns < shortest_ns:
        raise UsageError("--backoff-min must be above zero and at most --backoff-max")
    if steps == 1:
        return [shortest_ns]
    step = (longest_ns - shortest_ns) / (steps - 1)
    return [round((shortest_ns + step * number) / 1_000_000) * 1_000_000 for number in range(steps)]


def pause_moment(text: str, at_ns: int) -> str:
    """`1h` from now, or a time, as the wire writes it."""
    try:
        return format_time(at_ns + parse_duration_ns(text))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is neither a duration such as 1h nor a time such as 2030-01-31 12:00:00") from None
    return format_time(round(moment.astimezone().timestamp()) * SECOND_NS)


def consumer_document(given: Mapping[str, Any], at_ns: int) -> dict[str, Any]:
    """The wire's fields for the options that were given."""
    names = [field for _, field, _, _ in _PLAIN] + ["flow_control", "headers_only"]
    document = {name: given[name] for name in names if given.get(name) is not None}
    if document.get("ack_wait", 1) <= 0:
        # `--wait=-1s` is how `nats` says: the server's default.
        del document["ack_wait"]
    if given.get("memory") is not None:
        document["mem_storage"] = given["memory"]
    if given.get("deliver"):
        document.update(start_document(given["deliver"], at_ns))
    if given.get("filters"):
        document.update(filter_document(split_words(given["filters"])))
    if given.get("sample") is not None:
        document["sample_freq"] = sample_text(given["sample"])
    if given.get("pause"):
        document["pause_until"] = pause_moment(given["pause"], at_ns)
    if given.get("metadata"):
        document["metadata"] = read_metadata(given["metadata"])
    _add_rhythm(document, given)
    _add_priority(document, given)
    return document


def filter_document(subjects: list[str]) -> dict[str, Any]:
    """One filter and several are different fields on the wire; `--filter ''` is none."""
    if len(subjects) > 1:
        return {"filter_subjects": subjects, "filter_subject": ""}
    return {"filter_subject": subjects[0] if subjects else "", "filter_subjects": []}


def _add_rhythm(document: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Heartbeats and backoff."""
    if given.get("heartbeat"):
        try:
            document["idle_heartbeat"] = max(0, parse_duration_ns(given["heartbeat"]))
        except ValueError as error:
            raise UsageError(f"--heartbeat: {error}") from None
    if given.get("backoff") == "linear":
        steps = linear_backoff(given["backoff_steps"], given["backoff_min"], given["backoff_max"])
        document["backoff"] = steps
    elif given.get("backoff") == "none":
        document["backoff"] = []


def _add_priority(document: dict[str, Any], given: Mapping[str, Any]) -> None:
    policies = {"pinned_groups": "pinned_client", "overflow_groups": "overflow", "prioritized_groups": "prioritized"}
    chosen = [name for name in policies if given.get(name)]
    if len(chosen) > 1:
        raise UsageError("give one of --pinned-groups, --overflow-groups and --prioritized-groups")
    for name in chosen:
        document["priority_policy"] = policies[name]
        document["priority_groups"] = split_words(given[name])
    if given.get("pinned_ttl") is not None:
        if chosen != ["pinned_groups"]:
            raise UsageError("--pinned-ttl goes with --pinned-groups")
        document["priority_timeout"] = given["pinned_ttl"]
