"""The source's own options, in Kafka's spelling where Kafka has the option, and what they must be together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from jetspark.client.errors import BadOptionError, BadSubjectError
from jetspark.client.names import check_name
from jetspark.protocol.subjects import is_subset, is_valid_subject
from jetspark.spark import option_values as kinds
from jetspark.spark.option_values import Kind
from jetspark.spark.options import CONNECTION_OPTIONS, READ, Option, Options, read_options

EARLIEST = "earliest"
LATEST = "latest"
AUTO = "auto"
CONSUMER = "consumer"
DIRECT = "direct"

# Kafka's numbers for the two words, understood in JSON.
_KAFKA_WORDS = {-2: EARLIEST, -1: LATEST}
_ONLY = (READ,)


def _offsets(text: str) -> str | dict[str, int | str]:
    word = text.strip()
    if word.lower() in (EARLIEST, LATEST):
        return word.lower()
    document = json.loads(word)
    if not isinstance(document, dict) or not document:
        raise ValueError("not an object")
    found: dict[str, int | str] = {}
    for stream, position in document.items():
        if isinstance(position, str) and position.lower() in (EARLIEST, LATEST):
            found[stream] = position.lower()
        elif isinstance(position, int) and not isinstance(position, bool) and position >= -2:
            found[stream] = _KAFKA_WORDS.get(position, position)
        else:
            raise ValueError("not a sequence")
    return found


OFFSETS = Kind('earliest, latest, or JSON with a sequence for each stream, such as {"ORDERS": 1200}', _offsets)

SOURCE_OPTIONS: tuple[Option, ...] = (
    *CONNECTION_OPTIONS,
    Option("stream", kinds.NAMES, None, "The stream to read, or several. Required.", _ONLY, also=("streams",)),
    Option("subjects", kinds.NAMES, (), "Read only these subjects; wildcards allowed.", _ONLY, also=("subject",)),
    Option("startingOffsets", OFFSETS, None, "Where a new query begins: the first sequence read.", _ONLY),
    Option("endingOffsets", OFFSETS, None, "Where a batch ends: the last sequence read.", _ONLY),
    Option("startingTimestamp", kinds.TIME, None, "Begin with the first message stored at or after this time.", _ONLY),
    Option("endingTimestamp", kinds.TIME, None, "End before the first message stored at or after this time.", _ONLY),
    Option(
        "startingOffsetsByTimestampStrategy",
        kinds.choice("error", LATEST),
        "error",
        "What to do if no message is that new: fail, or begin with the next message.",
        _ONLY,
    ),
    Option("maxOffsetsPerTrigger", kinds.whole_number(1), None, "The most sequences in a micro-batch.", _ONLY),
    Option("minOffsetsPerTrigger", kinds.whole_number(1), None, "A batch waits for this many new sequences.", _ONLY),
    Option("maxTriggerDelay", kinds.DURATION, 900.0, "The longest wait for minOffsetsPerTrigger.", _ONLY),
    Option("maxBytesPerTrigger", kinds.SIZE, None, "The size of a micro-batch, approximately.", _ONLY),
    Option("minPartitions", kinds.whole_number(1), 1, "The fewest tasks that share a batch.", _ONLY),
    Option("maxRecordsPerPartition", kinds.whole_number(1), 250_000, "The most sequences in a task.", _ONLY),
    Option("failOnDataLoss", kinds.FLAG, True, "Fail, or only warn, if unread messages were removed.", _ONLY),
    Option("includeHeaders", kinds.FLAG, False, "Add the column headers.", _ONLY),
    Option("includeTimestampNs", kinds.FLAG, False, "Add the column timestamp_ns.", _ONLY),
    Option(
        "readMode",
        kinds.choice(AUTO, CONSUMER, DIRECT),
        AUTO,
        "Read with a short-lived consumer, with direct gets, or choose by the size of the range.",
        _ONLY,
    ),
    Option("batchSize", kinds.whole_number(1), 16_384, "Rows of an Arrow batch handed to Spark.", _ONLY,
           also=("natsConsumer.batchSize",)),
    Option("pollTimeoutMs", kinds.MILLISECONDS, 120.0, "A task fails after this long without a message.", _ONLY,
           also=("natsConsumer.pollTimeoutMs",)),
    Option("pollIntervalMs", kinds.MILLISECONDS, 0.2, "How often an idle query looks for new messages.", _ONLY),
    Option("filterPushdown", kinds.FLAG, False, "Filters run on the server; read about it above first.", _ONLY),
    Option("durable", kinds.TEXT, "", "A durable consumer that shows the progress of the query.", _ONLY,
           also=("ackDurable",)),
    Option("workQueue", kinds.FLAG, False, "Read a work-queue stream and ack after the commit. Needs durable.", _ONLY),
)  # fmt: skip


def source_options(raw: Mapping[str, str]) -> Options:
    """Read and check the options of a read, batch or streaming."""
    options = read_options(raw, SOURCE_OPTIONS, READ)
    if not options["stream"]:
        raise BadOptionError('option stream is missing: name the stream to read, as in .option("stream", "ORDERS")')
    for name in options["stream"]:
        _check_name("stream", name)
    for subject in options["subjects"]:
        if not is_valid_subject(subject.encode()):
            raise BadSubjectError(f"option subjects: {subject!r} is not a subject or pattern")
    for edge in ("starting", "ending"):
        _check_edge(options, edge)
    _check_order(options)
    _check_limits(options)
    if options["durable"]:
        _check_name("durable", options["durable"])
    elif options["workQueue"]:
        raise BadOptionError("option workQueue needs option durable: the consumer that acks what Spark has committed")
    if options["workQueue"] and options["readMode"] == CONSUMER:
        raise BadOptionError("option workQueue reads by direct gets: take out option readMode, or set it to direct")
    return options.with_values(subjects=widest(options["subjects"])) if options["subjects"] else options


def widest(subjects: tuple[str, ...]) -> tuple[str, ...]:
    """The same without those that another one covers, which a server refuses in one consumer."""
    return tuple(
        one
        for one in subjects
        if not any(other != one and is_subset(one.encode(), other.encode()) for other in subjects)
    )


def _check_name(option: str, name: str) -> None:
    try:
        check_name(option, name)
    except BadOptionError as error:
        hint = "; wildcards belong in option subjects" if option == "stream" and ("*" in name or ">" in name) else ""
        raise BadOptionError(f"option {option}: {error}{hint}") from None


def _check_edge(options: Options, edge: str) -> None:
    offsets, timestamp = f"{edge}Offsets", f"{edge}Timestamp"
    if options[offsets] is not None and options[timestamp] is not None:
        raise BadOptionError(f"give option {offsets} or option {timestamp}, not both")
    named = options[offsets]
    if isinstance(named, dict):
        strangers = sorted(set(named) - set(options["stream"]))
        missing = sorted(set(options["stream"]) - set(named))
        if strangers:
            raise BadOptionError(f"option {offsets} names {', '.join(strangers)}, which option stream does not")
        if missing:
            raise BadOptionError(f"option {offsets} has no position for {', '.join(missing)}")


def _check_order(options: Options) -> None:
    """An end before the beginning is a mistake; an end right at it is an empty range, which a job may come to."""
    first_ns, end_ns = options["startingTimestamp"], options["endingTimestamp"]
    if first_ns is not None and end_ns is not None and first_ns > end_ns:
        raise BadOptionError("option endingTimestamp is before option startingTimestamp: nothing is in between")
    first, last = options["startingOffsets"], options["endingOffsets"]
    if not isinstance(first, dict) or not isinstance(last, dict):
        return
    for name in sorted(first):
        if isinstance(first[name], int) and isinstance(last[name], int) and last[name] < first[name] - 1:
            raise BadOptionError(
                f"option endingOffsets: {last[name]} of stream {name} comes before {first[name]}, where"
                " option startingOffsets begins"
            )


def _check_limits(options: Options) -> None:
    least, most = options["minOffsetsPerTrigger"], options["maxOffsetsPerTrigger"]
    if least is not None and most is not None and least > most:
        raise BadOptionError("option minOffsetsPerTrigger must not be above option maxOffsetsPerTrigger")


def check_batch(options: Options) -> None:
    """What only a streaming query may say."""
    for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay", "durable"):
        if options.is_given(name):
            raise BadOptionError(f"option {name} is for streaming queries: take it out, or use readStream")
    if _says(options["startingOffsets"], LATEST):
        raise BadOptionError("option startingOffsets cannot be latest in a batch: there would be nothing to read")
    if _says(options["endingOffsets"], EARLIEST):
        raise BadOptionError("option endingOffsets cannot be earliest: there would be nothing to read")


def check_streaming(options: Options) -> None:
    """What only a batch may say."""
    for name in ("endingOffsets", "endingTimestamp", "filterPushdown"):
        if options.is_given(name):
            raise BadOptionError(f"option {name} is for batches: take it out, or use read instead of readStream")


def _says(offsets: Any, word: str) -> bool:
    return offsets == word or (isinstance(offsets, dict) and word in offsets.values())
