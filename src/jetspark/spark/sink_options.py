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
    Option("stream", kinds.TEXT, "", "The stream to write to. Can be left out if all rows have one subject.", _ONLY),
    Option(
        "subject",
        kinds.TEXT,
        "",
        "The subject of rows without a value in column subject. May be a template such as orders.{country}.",
        _ONLY,
    ),
    Option(
        "msgId",
        kinds.choice(AUTO, COLUMN, CONTENT, POSITION, NONE),
        AUTO,
        "Message ids are the column msg_id, or come from the content or position of a row. none means at least once.",
        _ONLY,
    ),
    Option(
        "writeId",
        kinds.TEXT,
        "",
        "A name for a batch write. Writing with the same name again stores only what is missing.",
        _ONLY,
    ),
    Option(
        "writeVersion",
        kinds.whole_number(0),
        None,
        "With writeId: the number of the write, which must grow. In foreachBatch, the number of the batch.",
        _ONLY,
    ),
    Option(
        "deadLetterSubject",
        kinds.TEXT,
        "",
        "Where refused rows go, with the reason. Without it a refused row fails the task.",
        _ONLY,
    ),
    Option(
        "maxInFlight",
        kinds.whole_number(1),
        4000,
        "The most rows of a task that wait for their acknowledgement.",
        _ONLY,
    ),
    Option("ackTimeoutMs", kinds.MILLISECONDS, 30.0, "The longest wait for an acknowledgement.", _ONLY),
    Option(
        "ledger",
        kinds.TEXT,
        "jetspark_sink",
        "The key-value bucket that records what was written. Created if it does not exist.",
        _ONLY,
    ),
    Option(
        "takeoverTimeoutMs",
        kinds.MILLISECONDS,
        600.0,
        "How long a task waits for an earlier attempt at the same rows that is still connected.",
        _ONLY,
    ),
    Option(
        "failOnDataLoss",
        kinds.FLAG,
        True,
        "Fail, or only warn, if messages were removed, so that a batch that runs again cannot know what was stored.",
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
