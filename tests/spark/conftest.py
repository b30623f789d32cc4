"""Real Spark and real servers: one session and one server of each kind for the whole run.

A test that asks for `server` runs twice, on our server and on nats-server; `JETSPARK_TEST_SERVER=jetspark` (or
`nats-server`) leaves the other out. Everything here is marked `spark`, because it takes a Java and some seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jetspark.client.sync import Connection, JetStream, Stream, connect
from jetspark.spark.spark_session import session
from jetspark.testing.processes import ServerProcess, server_command, server_process

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OURS = "jetspark"
THEIRS = "nats-server"
KINDS = [pytest.param(OURS), pytest.param(THEIRS, marks=pytest.mark.oracle)]
# For tests that start Spark for each server: ours, and with `make soak` the other too.
EACH_WITH_ITS_SPARK = [pytest.param(OURS), pytest.param(THEIRS, marks=[pytest.mark.oracle, pytest.mark.soak])]
ONLY = os.environ.get("JETSPARK_TEST_SERVER", "")
if ONLY:
    assert ONLY in (OURS, THEIRS), f"JETSPARK_TEST_SERVER is {OURS} or {THEIRS}, not {ONLY!r}"
    KINDS = EACH_WITH_ITS_SPARK = [pytest.param(ONLY)]

# Small: what these tests read and shuffle is a few thousand rows.
CONF: dict[str, Any] = {
    "spark.ui.enabled": False,
    "spark.sql.shuffle.partitions": 2,
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": False,
    "spark.sql.streaming.stopTimeout": "30s",
    # A Python worker on a busy machine may take a while to start.
    "spark.python.authenticate.socketTimeout": "90s",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        # What asks for neither needs no Spark.
        if here in Path(item.path).parents and "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            # Not counting the start of the session, which a busy machine takes its time for.
            item.add_marker(pytest.mark.timeout(450, func_only=True))
            # pyspark and py4j leave sockets and temporary folders to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of the run."""
    folders: dict[str, Any] = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        # Kept for the test that looks for secrets in it.
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": f"file:{tmp_path_factory.mktemp('events')}",
        "spark.eventLog.compress": False,
    }
    made = session("jetspark tests", master="local[2]", **folders, **CONF)
    made.sparkContext.setLogLevel("ERROR")
    yield made
    made.stop()


@pytest.fixture(scope="session", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A running server, ours or nats-server, shared by the tests; streams have names of their own."""
    with running(request.param) as process:
        yield process


@pytest.fixture(scope="session")
def our_server() -> Iterator[ServerProcess]:
    """Our server alone, for what has nothing to do with which server it is."""
    with running(OURS) as process:
        yield process


@contextlib.contextmanager
def running(kind: str, *arguments: str, config_text: str | None = None) -> Iterator[ServerProcess]:
    """A server of a kind, for the length of a block."""
    command = server_command(kind)
    if command is None:
        pytest.skip("no nats-server binary: install the dev dependencies")
    with server_process(command, arguments=arguments, config_text=config_text, monitoring=True) as process:
        yield process


def url_of(process: ServerProcess) -> str:
    """Where a server listens."""
    return f"nats://{process.host}:{process.port}"


@pytest.fixture
def connect_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The one port on which a local Spark Connect listens: a test of another process waits for it."""
    with (tmp_path_factory.getbasetemp().parent / "spark-connect.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


@pytest.fixture
def url(server: ServerProcess) -> str:
    """Where the server listens."""
    return url_of(server)


@pytest.fixture
def client(url: str) -> Iterator[Connection]:
    """A connection to the server of the test."""
    with connect(url) as made:
        yield made


@pytest.fixture
def js(client: Connection) -> JetStream:
    """JetStream of the server of the test."""
    return client.jetstream()


@pytest.fixture
def stream(js: JetStream) -> Iterator[Stream]:
    """An empty stream with the subjects `<its name>.>`, gone after the test."""
    name = f"S{uuid.uuid4().hex[:12]}"
    made = js.create_stream(name, subjects=[f"{name}.>"], allow_direct=True)
    yield made
    js.delete_stream(name)


@pytest.fixture
def target(js: JetStream) -> Iterator[Stream]:
    """A stream with the shortest duplicate window there is."""
    name = f"T{uuid.uuid4().hex[:12]}"
    yield js.create_stream(name, subjects=[f"{name}.>"], duplicate_window=0.1, allow_msg_ttl=True)
    js.delete_stream(name)


def fill(stream: Stream, count: int, *, subject: str = "a", text: str = "message {}") -> None:
    """Store so many messages, numbered from 1."""
    js = stream.jetstream
    futures = [
        js.publish_async(f"{stream.name}.{subject}", text.format(number).encode()) for number in range(1, count + 1)
    ]
    for future in futures:
        future.wait()
