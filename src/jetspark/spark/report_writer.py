"""Reports of progress, written into a key-value bucket in the background.

Decided here: which key a report has, and that a report is never worth a query: it is written by a thread of its own,
the newest wins, and one that cannot be written is tried again until there is a newer one. Not known here: what a
report says, and Spark.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jetspark.client.errors import BucketNotFoundError
from jetspark.errors import JetsparkError

if TYPE_CHECKING:
    from jetspark.client.sync import Connection, KeyValue

BUCKET: Final = "jetspark_pipelines"
# A pipeline that has been over for a day is of no interest any more.
TTL_S: Final = 24 * 3600
CLOSE_TIMEOUT_S: Final = 5.0
RETRY_S: Final = 1.0
FAILURES_TO_TELL: Final = 5
_KEY: Final = re.compile(r"[^-/_=.a-zA-Z0-9]+")

log = logging.getLogger("jetspark.spark")


def key_of(name: str) -> str:
    """A key for a name: what a key cannot hold becomes an underscore."""
    return _KEY.sub("_", name).strip(".") or "_"


class Reports:
    """Writes reports to one server, in the background. Call `close` to have the last ones written."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._waiting: dict[str, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._bucket: KeyValue | None = None
        self._failure_count = 0

    def put(self, name: str, report: dict[str, Any]) -> None:
        """Write this report soon, in the place of one that still waits."""
        with self._changed:
            if self._is_closing:
                return
            self._waiting[name] = {"name": name, **report}
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="jetspark-reports", daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, within a few seconds, and let go of the connection."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closing)
                waiting, self._waiting = self._waiting, {}
                is_closing = self._is_closing
            left = {name: report for name, report in waiting.items() if not self._write(name, report)}
            if is_closing:
                self._drop()
                return
            if left:
                self._try_again(left)

    def _try_again(self, left: dict[str, dict[str, Any]]) -> None:
        """Put back what could not be written, unless something newer came, and give the server a moment."""
        with self._changed:
            self._waiting = {**left, **self._waiting}
            self._changed.wait_for(lambda: self._is_closing, RETRY_S)

    def _write(self, name: str, report: dict[str, Any]) -> bool:
        try:
            if self._bucket is None:
                self._connection = self._connect()
                self._bucket = _bucket(self._connection)
            self._bucket.put(key_of(name), json.dumps(report))
            self._failure_count = 0
            return True
        except (JetsparkError, OSError) as error:
            self._failure_count += 1
            # Said once: a server that is away for a moment is no news, and one that stays away is told of one time.
            level = logging.WARNING if self._failure_count == FAILURES_TO_TELL else logging.DEBUG
            log.log(level, "cannot report the progress of %s: %s", name, error)
            self._drop()
            return False

    def _drop(self) -> None:
        connection, self._connection, self._bucket = self._connection, None, None
        if connection is not None:
            try:
                connection.close()
            except (JetsparkError, OSError) as error:
                log.debug("closing the connection of reports: %s", error)


def _bucket(connection: Connection) -> KeyValue:
    streams = connection.jetstream()
    try:
        return streams.key_value(BUCKET)
    except BucketNotFoundError:
        return streams.create_key_value(BUCKET, ttl=TTL_S, storage="memory")
