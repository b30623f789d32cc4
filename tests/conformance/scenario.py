"""What a scenario is: a function that talks to one server and leaves a transcript.

A scenario never looks at which server it talks to and asserts nothing itself; the comparison of two
transcripts is the assertion. Everything a server sent that the scenario awaited is recorded, masked.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jetspark.testing.processes import ServerProcess
from tests.conformance.masking import Masker
from tests.conformance.wire import DEFAULT_TIMEOUT_S, Frame, Headers, NoFrame, WireClient, header_block

CONNECT_OPTIONS: dict[str, object] = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
CONNECT_OPTIONS |= {"protocol": 1, "lang": "wire", "version": "1", "name": "conformance"}
Event = dict[str, Any]
# nats-server removes the folder of its last stream while a new one is being made in it: then it says this.
STORE_RACE = b"error creating store for stream"
STORE_ATTEMPTS = 20


@dataclass(frozen=True)
class Server:
    """What a scenario needs of its server. Scenarios with equal needs in one module share a process."""

    config: str | None = None
    arguments: tuple[str, ...] = ()
    jetstream: bool = True
    monitoring: bool = False
    cleanup: bool = True  # Delete all streams afterwards, without credentials.
    own: bool = False  # A process of its own: for scenarios that stop it, signal it or count.


@dataclass(frozen=True)
class Scenario:
    name: str
    module: str
    function: Callable[[Run], None]
    server: Server
    known_difference: str = ""
    where: str = ""


SCENARIOS: list[Scenario] = []


def scenario(
    server: Server | None = None, *, known_difference: str = "", where: str = ""
) -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Register a function as a scenario; its module names the group it belongs to.

    A known difference is named, and `where` is a pattern for the only lines it may show in.
    """

    def register(function: Callable[[Run], None]) -> Callable[[Run], None]:
        module = function.__module__.rpartition(".")[2]
        needs = server or Server()
        SCENARIOS.append(Scenario(function.__name__, module, function, needs, known_difference, where))
        return function

    return register


@dataclass
class Inbox:
    """A subscription of a scenario, whose messages are recorded as they are taken."""

    run: Run
    client: WireClient
    sid: str
    subject: str

    def take(self, count: int = 1, timeout_s: float = DEFAULT_TIMEOUT_S) -> list[Frame]:
        return [self.next(timeout_s) for _ in range(count)]

    def next(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> Frame:
        frame = self.client.next_message(self.sid, timeout_s)
        self.run.record_message(frame)
        return frame

    def take_until_status(self, limit: int = 10_000) -> list[Frame]:
        """Messages up to and including the first that carries a status."""
        frames = []
        for _ in range(limit):
            frames.append(self.next())
            if frames[-1].status:
                break
        return frames

    def nothing(self, duration_s: float = 0.15) -> None:
        """Record what arrives within the duration: usually that nothing does."""
        self.client.drain_arrived(duration_s)
        queue = self.client.messages[self.sid]
        self.run.record("silence", self.subject, frames=[self.run.message(queue.popleft()) for _ in range(len(queue))])

    def close(self) -> None:
        self.client.unsubscribe(self.sid)
        self.client.flush()


@dataclass
class Run:
    """One scenario on one server."""

    server: ServerProcess
    transcript: list[Event] = field(default_factory=list)
    masker: Masker = field(default_factory=Masker)
    clients: list[WireClient] = field(default_factory=list)
    _client: WireClient | None = None

    @property
    def client(self) -> WireClient:
        if self._client is None:
            self._client = self.connect()
        return self._client

    def connect(
        self, options: dict[str, Any] | None = None, *, bare: bool = False, answer_pings: bool = True
    ) -> WireClient:
        """A new connection; `bare` sends no CONNECT."""
        merged = None if bare else CONNECT_OPTIONS | (options or {})
        prefix = f"_INBOX.c{len(self.clients)}"
        client = WireClient(self.server.host, self.server.port, merged, inbox_prefix=prefix, answer_pings=answer_pings)
        self.clients.append(client)
        return client

    def reconnect(self) -> None:
        """Forget the default connection: the next use opens a new one (after a restart)."""
        self._client = None

    def close(self) -> None:
        for client in self.clients:
            client.close()

    # Recording.

    def record(self, event: str, what: str = "", **values: Any) -> None:
        entry: Event = {"event": event, "what": self.masker.text(what)}
        self.transcript.append(entry | self.masker.document(values))

    def message(self, frame: Frame) -> Event:
        """A message as the transcript holds it."""
        mask = self.masker.text
        event: Event = {"subject": mask(frame.subject), "reply": mask(frame.reply)}
        if frame.header_block:
            event["first_line"] = frame.header_block.split(b"\r\n", 1)[0].decode()
            event["headers"] = [[key, mask(value)] for key, value in frame.headers]
        event["payload"] = self.payload(frame.payload)
        return event

    def payload(self, payload: bytes) -> Any:
        """API documents are parsed; everything else, PubAcks included, is compared as text."""
        if payload.startswith(b'{"type":"io.nats.'):
            return self.masker.document(json.loads(payload))
        if len(payload) > 300:
            return f"{len(payload)} bytes {self.masker.text(payload[:40].decode('latin-1'))}"
        return self.masker.text(payload.decode("utf-8", "replace"))

    def record_answer(self, event: str, what: str, frame: Frame) -> None:
        """An answer to a request: its inbox is of no interest."""
        entry: Event = {"event": event, "what": self.masker.text(what)}
        self.transcript.append(entry | self.message(frame) | {"subject": ""})

    def record_message(self, frame: Frame) -> None:
        self.transcript.append({"event": "message", "what": ""} | self.message(frame))

    def record_control(self, client: WireClient, count: int = 1, timeout_s: float = DEFAULT_TIMEOUT_S) -> list[Frame]:
        """Record the next control frames exactly as written (INFO as a masked document)."""
        frames = [client.next_control(timeout_s) for _ in range(count)]
        for frame in frames:
            if frame.op == "INFO":
                document = json.loads(frame.line[5:])
                self.record("control", "INFO", document=document, ends_with_space=frame.line.endswith(b" "))
            else:
                self.record("control", frame.line.decode("latin-1") or frame.op)
        return frames

    def exchange(self, client: WireClient, data: bytes, *, until: tuple[str, ...] = ("PONG", "EOF")) -> None:
        """Send bytes, then a PING; record everything the server wrote up to the PONG or the end, byte for byte."""
        start = len(client.history)
        client.control.clear()
        client.send(data + b"PING\r\n" if "PONG" in until else data)
        while client.next_control().op not in until:
            pass
        last = next(n for n, frame in enumerate(client.history) if n >= start and frame.op in until)
        lines = [self._raw(frame) for frame in client.history[start : last + 1]]
        self.record("exchange", data[:120].decode("latin-1"), lines=lines)

    def _raw(self, frame: Frame) -> Any:
        if frame.op == "INFO":
            return {"INFO": json.loads(frame.line[5:]), "line_ends_with_space": frame.line.endswith(b" ")}
        return (
            (frame.line + b"|" + frame.header_block + b"|" + frame.payload).decode("latin-1")
            if frame.sid
            else (frame.line.decode("latin-1") or frame.op)
        )

    # JetStream in short words.

    def api(self, subject: str, body: Any = None, *, headers: Headers | None = None, quiet: bool = False) -> Any:
        """Ask `$JS.API.<subject>`; record and return the answer's document."""
        block = header_block(headers) if headers else b""
        frame = self.client.request(f"$JS.API.{subject}", _body(body), block=block)
        for _ in range(STORE_ATTEMPTS):
            if STORE_RACE not in frame.payload:
                break
            frame = self.client.request(f"$JS.API.{subject}", _body(body), block=block)
        if not quiet:
            self.record_answer("api", subject, frame)
        if frame.payload.startswith(b"{"):
            return frame.json()
        return None

    def api_silence(self, subject: str, body: Any = None, duration_s: float = 0.2) -> None:
        """Ask and record that no answer comes."""
        inbox = self.subscribe(self.client.new_inbox())
        self.client.publish(f"$JS.API.{subject}", _body(body), reply=inbox.subject)
        inbox.nothing(duration_s)

    def stream(self, name: str, *, quiet: bool = False, **config: Any) -> Any:
        """Create a stream, by default on `<name>.>`."""
        if "subjects" not in config and "mirror" not in config and "sources" not in config:
            config["subjects"] = [f"{name}.>"]
        return self.api(f"STREAM.CREATE.{name}", {"name": name, **config}, quiet=quiet)

    def update_stream(self, name: str, **config: Any) -> Any:
        if "subjects" not in config and "mirror" not in config and "sources" not in config:
            config["subjects"] = [f"{name}.>"]
        return self.api(f"STREAM.UPDATE.{name}", {"name": name, **config})

    def stream_info(self, name: str, body: Any = None) -> Any:
        return self.api(f"STREAM.INFO.{name}", body)

    def consumer(self, stream: str, name: str, *, action: str | None = None, quiet: bool = False, **config: Any) -> Any:
        """Create (or update) a durable consumer; give `durable_name=None` for a named ephemeral one."""
        config.setdefault("durable_name", name)
        config.setdefault("ack_policy", "explicit")
        body: dict[str, Any] = {"stream_name": stream, "config": {k: v for k, v in config.items() if v is not None}}
        if action is not None:
            body["action"] = action
        return self.api(f"CONSUMER.CREATE.{stream}.{name}", body, quiet=quiet)

    def ephemeral(self, stream: str, **config: Any) -> str:
        """Create an unnamed consumer the old way; its random name becomes a placeholder."""
        body = {"stream_name": stream, "config": config}
        answer = self.client.request(f"$JS.API.CONSUMER.CREATE.{stream}", _body(body)).json()
        name = str(answer.get("name", ""))
        self.masker.learn(name, "consumer")
        self.record("api", f"CONSUMER.CREATE.{stream}", document=answer)
        return name

    def consumer_info(self, stream: str, name: str) -> Any:
        return self.api(f"CONSUMER.INFO.{stream}.{name}")

    def publish(self, subject: str, payload: str = "", headers: Headers | None = None, status: str = "") -> Any:
        """Publish and record the acknowledgement."""
        block = header_block(headers or [], status) if headers or status else b""
        frame = self.client.request(subject, payload.encode(), block=block)
        self.record_answer("publish", subject, frame)
        return frame.json() if frame.payload.startswith(b"{") else None

    def fill(self, subject: str, count: int, payload: str = "m{}") -> None:
        """Publish `count` messages, each acknowledged before the next, without recording."""
        for number in range(1, count + 1):
            self.client.request(subject, payload.format(number).encode())

    def subscribe(self, subject: str, queue: str = "", client: WireClient | None = None) -> Inbox:
        """Subscribe and wait until the server knows."""
        chosen = client or self.client
        inbox = Inbox(self, chosen, chosen.subscribe(subject, queue), subject)
        chosen.flush()
        return inbox

    def pull(self, stream: str, consumer: str, body: Any = None, *, inbox: Inbox | None = None) -> Inbox:
        """Send a pull request; the inbox receives messages and statuses."""
        target = inbox or self.subscribe(self.client.new_inbox())
        self.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}", _body(body), reply=target.subject)
        return target

    def fetch(self, stream: str, consumer: str, count: int) -> list[Frame]:
        """Pull and take exactly `count` messages."""
        return self.pull(stream, consumer, {"batch": count, "expires": 5_000_000_000}).take(count)

    def ack(self, frame: Frame, body: str = "+ACK", *, double: bool = True) -> None:
        """Answer a delivered message; `double` waits for the server's confirmation and records it."""
        if not double:
            self.client.publish(frame.reply, body.encode())
            return
        confirmation = self.client.request(frame.reply, body.encode())
        self.record_answer("confirmation", body, confirmation)

    def until(self, subject: str, done: Callable[[Any], bool], body: Any = None, timeout_s: float = 6.0) -> Any:
        """Ask the API until the answer satisfies the condition; record that answer."""
        deadline_s = time.monotonic() + timeout_s
        while True:
            frame = self.client.request(f"$JS.API.{subject}", _body(body))
            document = frame.json()
            if done(document) or time.monotonic() > deadline_s:
                break
            self.client.drain_arrived(0.01)
        self.record_answer("until", subject, frame)
        return document


def _body(body: Any) -> bytes:
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    return json.dumps(body).encode()


def play(scenario_to_play: Scenario, server: ServerProcess) -> list[Event]:
    """Run a scenario; a missing answer ends the transcript instead of raising. Its streams are deleted."""
    run = Run(server)
    try:
        scenario_to_play.function(run)
    except NoFrame as missing:
        run.record("missing", str(missing))
    except (ConnectionError, json.JSONDecodeError) as broken:
        run.record("broken", f"{type(broken).__name__}: {broken}")
    finally:
        run.close()
        needs = scenario_to_play.server
        if server.running and needs.jetstream and needs.cleanup and not needs.own:
            delete_streams(server)
    return run.transcript


def delete_streams(server: ServerProcess) -> None:
    """Leave nothing for the next scenario."""
    client = WireClient(server.host, server.port, CONNECT_OPTIONS, inbox_prefix="_INBOX.cleanup")
    try:
        names = client.request("$JS.API.STREAM.NAMES").json().get("streams") or []
        for name in names:
            client.request(f"$JS.API.STREAM.DELETE.{name}")
        removed = wait_until_removed(server, client, names)
    except (NoFrame, ConnectionError, json.JSONDecodeError):
        removed = False
    finally:
        client.close()
    if not removed:
        server.stop()  # Whoever comes next gets a fresh process.


def wait_until_removed(server: ServerProcess, client: WireClient, names: list[str], timeout_s: float = 1.0) -> bool:
    """nats-server removes a deleted stream's files behind the answer; a new stream of that name would find them."""
    folders = [server.store_dir / "jetstream" / "$G" / "streams" / name for name in names]
    deadline_s = time.monotonic() + timeout_s
    while any(folder.exists() for folder in folders) and time.monotonic() < deadline_s:
        client.drain_arrived(0.002)
    return not any(folder.exists() for folder in folders)
