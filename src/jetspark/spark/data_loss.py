"""Messages that are gone before they were read: how it is said, and whether it ends the query."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from jetspark.errors import JetsparkError

if TYPE_CHECKING:
    from jetspark.spark.options import Options

log = logging.getLogger("jetspark.spark")


class DataLossError(JetsparkError):
    """Messages were removed from a stream before the query read them."""


def report_loss(options: Options, what: str) -> None:
    """Fail, or warn and go on, as option failOnDataLoss says."""
    if options["failOnDataLoss"]:
        raise DataLossError(
            f"{what}. The query cannot have read everything; set option failOnDataLoss to false to go on without them"
        )
    log.warning("%s; going on without them (failOnDataLoss is false)", what)


def recreated(options: Options, name: str, was: str, now: str) -> None:
    """A stream was deleted and made again under the same name."""
    report_loss(options, f"stream {name} was created {was} when the query read it and is now one created {now}")


def went_back(options: Options, name: str, was: int, now: int) -> None:
    """A stream of the same creation ends before what the query has read of it: it was restored, or lost its end."""
    report_loss(options, f"stream {name} ends at sequence {now}, but the query has read up to {was}")


def stream_gone(options: Options, name: str) -> None:
    """A stream that the query was reading is not there any more."""
    report_loss(options, f"stream {name} is gone")


def gone_before(options: Options, name: str, first: int, stream_first: int, last: int) -> None:
    """Sequences `first` and on were removed: the stream now begins later."""
    count = min(stream_first, last + 1) - first
    which = f"sequences {first} to {first + count - 1}"
    filtered = " (of all subjects)" if options["subjects"] else ""
    report_loss(options, f"{count} messages{filtered} of stream {name} are gone before they were read: {which}")


def gone_inside(options: Options, name: str, first: int, last: int, count: int) -> None:
    """Some of a range were removed between planning and reading."""
    report_loss(
        options,
        f"{count} messages of stream {name} are gone since the batch was planned, of sequences {first} to {last}",
    )
