"""The process in which a pipeline runs: Spark's own `spark-pipelines`, on a port of its own.

Started by `launch` as `python -m jetspark.spark.pipelines.runner LOCK PARENT run --spec …`. Spark's command boots a
Spark Connect server in the driver and always looks for it on port 15002, so that two pipelines cannot run on one
machine. Here the server takes a free port and is asked which. A `database` in the spec must exist before a run: it is
made here. Everything else (reading the definitions, running the flows, the exit status) is Spark's.

A run ends with the JVM, because Spark's client would look for its server for many minutes and say nothing; and with the
process that started it, because nobody watches it then. `PARENT` is a descriptor that can be read to its end when that
process is gone. `LOCK` is the one of the project's lock, which stays taken until driver and JVM are gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from jetspark.spark.pipelines.project import load_project

# How the line begins that says why everything else went wrong.
JVM_ENDED = "the JVM ended"
# From the moment a connection to the JVM breaks until its process has ended.
JVM_END_TIMEOUT_S = 5.0
STDERR = 2


def how_ended(status: int) -> str:
    """In words: the status of a process that ended when it should not have, and what to do."""
    how = f"killed by signal {-status}" if status < 0 else f"exit status {status}"
    why = "the end of the log may say why"
    if status == -signal.SIGKILL:
        why = "somebody ended it, or the machine ran out of memory, which `dmesg` shows"
    return f"({how}): {why}. The next run goes on after the last batch that was committed"


def end_with_parent(parent: int) -> None:
    """End this process when the one that started it is gone; the JVM ends with this one."""

    def wait() -> None:
        os.read(parent, 1)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


class JvmWatch:
    """Ends this process when the JVM ends before the run is over."""

    def __init__(self, lock: int) -> None:
        self._lock = lock
        self._is_over = False
        self._thread: threading.Thread | None = None

    def install(self) -> None:
        """Watch the JVM from the moment pyspark has started it, with the lock. A Spark elsewhere has no JVM here."""
        from pyspark.core import context

        launch_gateway: Any = getattr(context, "launch_gateway")  # noqa: B009 - a function of theirs, imported there

        def launch_watched(conf: Any = None) -> Any:
            gateway = launch_gateway(conf, {"pass_fds": (self._lock,)})
            if gateway.proc is not None:
                self._thread = threading.Thread(target=self._watch, args=(gateway.proc,), daemon=True)
                self._thread.start()
            return gateway

        setattr(context, "launch_gateway", launch_watched)  # noqa: B010 - a function of theirs

    def _watch(self, jvm: subprocess.Popen[bytes]) -> None:
        status = jvm.wait()
        if not self._is_over:
            # The main thread may be in the middle of anything: a wait, a call that is tried again, a print.
            os.write(STDERR, f"{JVM_ENDED} {how_ended(status)}\n".encode())
            os._exit(1)

    def over(self) -> None:
        """The run has ended well: the JVM may end too."""
        self._is_over = True

    def broken(self) -> None:
        """The connection to the JVM is broken: let the watch say so, if the JVM is what ended."""
        if self._thread is not None:
            self._thread.join(JVM_END_TIMEOUT_S)


def _server_port() -> int:
    from pyspark.sql.session import SparkSession

    session: Any = SparkSession._instantiatedSession
    assert session is not None, "the Connect server was not started in this process"
    service = getattr(session._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
    return int(getattr(service, "MODULE$").localPort())


def main(lock: int, parent: int, arguments: list[str]) -> None:
    """Run Spark's pipeline command with these arguments."""
    from py4j.protocol import Py4JNetworkError

    for descriptor in (lock, parent):
        # What a definition starts has nothing to do with them.
        os.set_inheritable(descriptor, False)
    end_with_parent(parent)
    watch = JvmWatch(lock)
    watch.install()
    try:
        _run(arguments)
    except (Py4JNetworkError, ConnectionError):
        watch.broken()
        raise
    watch.over()


def _run(arguments: list[str]) -> None:
    from pyspark.pipelines import cli
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

    from jetspark.spark.pipelines.left_out_listener import listening

    if "SPARK_REMOTE" not in os.environ:
        setattr(DefaultChannelBuilder, "default_port", staticmethod(_server_port))  # noqa: B010 - a method of theirs
    project = load_project(Path(arguments[arguments.index("--spec") + 1]))
    session = SparkSession.builder.config("spark.sql.connect.serverStacktrace.enabled", "false").getOrCreate()
    if project.database and project.catalog in (None, "spark_catalog"):
        session.sql(f"CREATE DATABASE IF NOT EXISTS `{project.database}`").collect()
    theirs: Any = cli
    handle_events = theirs.handle_pipeline_events

    def handle_and_listen(events: Any) -> None:
        with listening(session):
            handle_events(events)

    theirs.handle_pipeline_events = handle_and_listen
    sys.argv = ["spark-pipelines", *arguments]
    cli.main()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
