"""The options of `stream add`, `edit` and `copy`, and the wire document they make.

Decided here: `nats`' names for each setting of a stream, and how a value on the line becomes the wire's. What a stream
may be set to is the server's decision; it is asked, not guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import click

from jetspark.cli.durations import DURATION, SIZE
from jetspark.cli.errors import UsageError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

RETENTIONS: Final = {"limits": "limits", "interest": "interest", "work": "workqueue", "workqueue": "workqueue"}

# Options that set one wire field as it is: name on the line, field, type, help.
_PLAIN: Final[tuple[tuple[str, str, Any, str], ...]] = (
    ("--description", "description", str, "A few words about the stream"),
    ("--storage", "storage", click.Choice(["file", "memory"]), "Where messages are kept"),
    ("--compression", "compression", click.Choice(["none", "s2"]), "Compression of file storage"),
    ("--replicas", "num_replicas", int, "When clustered, how many replicas of the data to keep"),
    ("--retention", "retention", click.Choice(list(RETENTIONS)), "When messages are removed"),
    ("--discard", "discard", click.Choice(["old", "new"]), "What gives way when a limit is reached"),
    ("--max-age", "max_age", DURATION, "Maximum age of messages to keep"),
    ("--max-bytes", "max_bytes", SIZE, "Maximum bytes to keep"),
    ("--max-consumers", "max_consumers", int, "Maximum number of consumers to allow"),
    ("--max-msg-size", "max_msg_size", SIZE, "Maximum size any one message may be"),
    ("--max-msgs", "max_msgs", int, "Maximum number of messages to keep"),
    ("--max-msgs-per-subject", "max_msgs_per_subject", int, "Maximum number of messages to keep per subject"),
    ("--dupe-window", "duplicate_window", DURATION, "How long message ids are remembered to find duplicates"),
    ("--subject-del-markers-ttl", "subject_delete_marker_ttl", DURATION, "How long delete markers stay"),
    ("--persist-mode", "persist_mode", click.Choice(["default", "async"]), "When writes are made durable"),
)
_SWITCHES: Final = (
    ("--discard-per-subject", "discard_new_per_subject", "Apply the 'new' discard policy to every subject"),
    ("--allow-batch", "allow_atomic", "Allow atomic batch publishing"),
    ("--allow-fast", "allow_batched", "Allow fast batch publishing"),
    ("--allow-counter", "allow_msg_counter", "Make the stream a distributed counter"),
    ("--allow-rollup", "allow_rollup_hdrs", "Allow roll-ups by publishing with special headers"),
    ("--deny-delete", "deny_delete", "Deny deleting messages through the API"),
    ("--deny-purge", "deny_purge", "Deny purges through the API"),
    ("--allow-direct", "allow_direct", "Allow direct gets"),
    ("--allow-mirror-direct", "mirror_direct", "Allow direct gets from mirrors"),
    ("--allow-msg-ttl", "allow_msg_ttl", "Allow a time to live per message"),
    ("--allow-schedules", "allow_msg_schedules", "Allow message schedules"),
)
_COMPOSED: Final = (
    click.option("--subjects", multiple=True, metavar="SUBJECTS", help="Subjects the stream stores; commas or repeats"),
    click.option("--tag", "tags", multiple=True, help="Place the stream on servers with this tag (repeat for several)"),
    click.option("--cluster", help="Place the stream on a specific cluster"),
    click.option("--ack/--no-ack", default=None, help="Acknowledge publishes"),
    click.option("--mirror", metavar="STREAM", help="Completely mirror another stream"),
    click.option("--source", "sources", multiple=True, metavar="STREAM", help="Merge another stream's messages in"),
    click.option("--transform-source", metavar="SUBJECT", help="Subjects to transform"),
    click.option("--transform-destination", metavar="SUBJECT", help="What they are transformed to"),
    click.option("--republish-source", metavar="SUBJECT", help="Subjects to republish once stored"),
    click.option("--republish-destination", metavar="SUBJECT", help="Where to republish them"),
    click.option("--republish-headers", is_flag=True, help="Republish headers only"),
    click.option("--limit-consumer-inactive", type=DURATION, help="Longest inactive threshold consumers may have"),
    click.option("--limit-consumer-max-pending", type=int, help="Most outstanding acks consumers may have"),
    click.option("--metadata", multiple=True, metavar="KEY:VALUE", help="Metadata of the stream (repeat for several)"),
)


def stream_options(decorated: Decorated) -> Decorated:
    """Every setting of a stream as an option; those not given arrive as None or empty."""
    options = [click.option(name, field, type=kind, help=text) for name, field, kind, text in _PLAIN]
    options += [
        click.option(f"{name}/--no-{name[2:]}", field, default=None, help=text) for name, field, text in _SWITCHES
    ]
    for option in reversed([*options, *_COMPOSED]):
        decorated = option(decorated)
    return decorated


def split_words(values: Iterable[str]) -> list[str]:
    """`--subjects a,b --subjects c` as three words."""
    return [word.strip() for value in values for word in value.split(",") if word.strip()]


def read_metadata(values: Iterable[str]) -> dict[str, str]:
    """`key:value` or `key=value`, repeated."""
    pairs = {}
    for value in values:
        key, separator, rest = value.partition("=") if "=" in value.split(":")[0] else value.partition(":")
        if not separator or not key:
            raise UsageError(f"metadata {value!r} is not KEY:VALUE")
        pairs[key.strip()] = rest.strip()
    return pairs


def stream_document(given: Mapping[str, Any]) -> dict[str, Any]:
    """The wire's fields for the options that were given."""
    names = [field for _, field, _, _ in _PLAIN] + [field for _, field, _ in _SWITCHES]
    document = {name: given[name] for name in names if given.get(name) is not None}
    if "retention" in document:
        document["retention"] = RETENTIONS[document["retention"]]
    if document.get("discard_new_per_subject"):
        document["discard"] = "new"
    for name in ("max_age", "duplicate_window"):
        if name in document:
            document[name] = max(0, document[name])
    if given.get("ack") is not None:
        document["no_ack"] = not given["ack"]
    _add_composed(document, given)
    return document


def _add_composed(document: dict[str, Any], given: Mapping[str, Any]) -> None:
    """Settings that are lists or objects on the wire."""
    if given.get("subjects"):
        document["subjects"] = split_words(given["subjects"])
    if given.get("tags") or given.get("cluster"):
        document["placement"] = {"cluster": given.get("cluster") or "", "tags": split_words(given["tags"])}
    if given.get("mirror"):
        document["mirror"] = {"name": given["mirror"]}
    if given.get("sources"):
        document["sources"] = [{"name": name} for name in split_words(given["sources"])]
    if given.get("metadata"):
        document["metadata"] = read_metadata(given["metadata"])
    if transform := _pair(given, "transform"):
        document["subject_transform"] = transform
    if republish := _pair(given, "republish"):
        document["republish"] = {**republish, "headers_only": bool(given.get("republish_headers"))}
    limits = {
        "inactive_threshold": given.get("limit_consumer_inactive"),
        "max_ack_pending": given.get("limit_consumer_max_pending"),
    }
    if any(value is not None for value in limits.values()):
        document["consumer_limits"] = {key: value for key, value in limits.items() if value is not None}


def _pair(given: Mapping[str, Any], name: str) -> dict[str, str]:
    """A source and a destination that need each other."""
    source, destination = given.get(f"{name}_source"), given.get(f"{name}_destination")
    if bool(source) != bool(destination):
        raise UsageError(f"--{name}-source and --{name}-destination need each other")
    return {"src": str(source), "dest": str(destination)} if source else {}
