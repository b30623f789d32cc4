"""The sink's own options, and what they must be together."""

from __future__ import annotations

from collections.abc import Mapping

from jetspark.client.errors import BadOptionError
from jetspark.client.names import check_name
from jetspark.protocol.subjects import is_literal
from jetspark.spark import option_values as kinds
from jetspark.spark.options import CONNECTION_OPTIONS, WRITE, Option, Options, read_options

AUTO = "auto"
COLUMN = "column"
CONTENT = "content"
POSITION = "position"
NONE = "none"

_ONLY = (WRITE,)

SINK_OPTIONS: tuple[Option, ...] = (
    *CONNECTION_OPTIONS,
    Option("stream", kinds.TEXT, "", "The stream to write to; found by the subject when that is one subject.", _ONLY),
    Option(
        "subject",
        kinds.TEXT,
        "",
        "The subject of every row, or a template such as orders.{country}; for rows whose column subject is null.",
        _ONLY,
    ),
    Option(
        "msgId",
        kinds.choice(AUTO, COLUMN, CONTENT, POSITION, NONE),
        AUTO,
        "Where message ids come from: the column msg_id, what is in the row, or its place; none is at least once.",
        _ONLY,
    ),
    Option(
        "writeId", kinds.TEXT, "", "A name for a batch write: the same name again writes only what is missing.", _ONLY
    ),
    Option(
        "writeVersion",
        kinds.whole_number(0),
        None,
        "With writeId: which of the writes under that name it is, a number that grows (in foreachBatch, the batch).",
        _ONLY,
    ),
    Option(
        "deadLetterSubject",
        kinds.TEXT,
        "",
        "Where rows go that are refused for their data, with the reason; without it such a row fails the task.",
        _ONLY,
    ),
    Option("maxInFlight", kinds.whole_number(1), 4000, "Rows of a task that wait for their acknowledgement.", _ONLY),
    Option("ackTimeoutMs", kinds.MILLISECONDS, 30.0, "How long one acknowledgement may take.", _ONLY),
    Option("ledger", kinds.TEXT, "jetspark_sink", "The key-value bucket with who writes what; made if absent.", _ONLY),
    Option(
        "takeoverTimeoutMs",
        kinds.MILLISECONDS,
        600.0,
        "How long a task waits for another attempt at the same rows that is still connected.",
        _ONLY,
    ),
    Option(
        "failOnDataLoss",
        kinds.FLAG,
        True,
        "Fail (or only warn) when a replay cannot know what was stored, because messages were removed since.",
        _ONLY,
    ),
)


def sink_options(raw: Mapping[str, str]) -> Options:
    """The user's options, read and checked; BadOptionError names what is wrong."""
    options = read_options(raw, SINK_OPTIONS, WRITE)
    if options["stream"]:
        check_name("stream", options["stream"])
    check_name("bucket", options["ledger"])
    dead = options["deadLetterSubject"]
    if dead and not is_literal(dead.encode()):
        raise BadOptionError(f"option deadLetterSubject takes one subject without wildcards, not {dead!r}")
    if not options["ackTimeoutMs"]:
        raise BadOptionError("option ackTimeoutMs takes more than 0: an acknowledgement takes a while")
    if options["writeId"] and options["msgId"] == NONE:
        raise BadOptionError("option writeId needs message ids: take out msgId=none, or writeId")
    if options["writeVersion"] is not None and not options["writeId"]:
        raise BadOptionError("option writeVersion needs option writeId: the name whose versions are counted")
    return options
