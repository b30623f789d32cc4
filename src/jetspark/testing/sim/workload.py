"""What clients do: one random action after the other, drawn by the rates of the run."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from jetspark.testing.sim import configs
from jetspark.testing.sim.client import SimClient
from jetspark.testing.sim.model import Attempt, StreamModel
from jetspark.testing.sim.wire import (
    AckOp,
    ApiOp,
    PublishOp,
    PullOp,
    api_bytes,
    header_block,
    publish_bytes,
)
from jetspark.testing.sim.world import World

MILLISECOND_NS = 1_000_000

ACK_BODIES = (b"+ACK", b"", b"+ACK", b"+ACK", b"-NAK", b'-NAK {"delay": 70000123}', b"+WPI", b"+TERM", b"+TERM why")


class Workload:
    """The clients' side of one run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng: Random = world.rng
        self._serial = 0
        self._configs: dict[str, dict[str, Any]] = {}
        self._recent_ids: list[bytes] = []
        self._actions: dict[str, Callable[[], None]] = {
            "publish": self.publish,
            "pull": self.pull,
            "ack": self.ack,
            "deliver input": self.deliver_input,
            "read": self.read,
            "finish commit": world.finish_commit,
            "advance": self.advance,
            "make stream": self.make_stream,
            "make consumer": self.make_consumer,
            "update stream": self.update_stream,
            "update consumer": self.update_consumer,
            "delete stream": self.delete_stream,
            "delete consumer": self.delete_consumer,
            "purge": self.purge,
            "delete message": self.delete_message,
            "get message": self.get_message,
            "stream info": self.stream_info,
            "control consumer": self.control_consumer,
            "listen": self.listen,
            "connect": self.connect,
            "disconnect": self.disconnect,
            "stall": self.stall,
            "fill disk": world.fill_disk,
            "empty disk": world.empty_disk,
            "set clock back": world.set_clock_back,
        }

    def step(self) -> None:
        """One thing happens."""
        world, rng, swarm = self.world, self.rng, self.world.swarm
        world.step_count += 1
        chance = rng.random()
        if chance < swarm.crash_rate:
            world.crash()
        elif chance < swarm.crash_rate + swarm.restart_rate:
            world.restart()
        else:
            if not world.clients:
                world.connect()
            self._actions[rng.choices(swarm.actions, swarm.weights)[0]]()

    # -- whom and what -------------------------------------------------------------------------------------------

    def some_client(self) -> SimClient:
        """Any client."""
        return self.rng.choice(self.world.clients)

    def some_stream(self) -> StreamModel | None:
        """Any stream that exists."""
        models = [known.model for known in self.world.witness.streams.values()]
        return self.rng.choice(models) if models else None

    def next_serial(self) -> int:
        """A number never used before in this run."""
        self._serial += 1
        return self._serial

    # -- the wire ------------------------------------------------------------------------------------------------

    def deliver_input(self) -> None:
        """Something a client sent arrives."""
        waiting = [client for client in self.world.clients if client.outgoing]
        if waiting:
            client = self.rng.choice(waiting)
            self.world.deliver_input(client, self.rng.choice((1, 3, 10, 40)), self.world.swarm.cut_rate)

    def read(self) -> None:
        """A client reads some of what it got."""
        waiting = [client for client in self.world.clients if client.mailbox and not client.is_stalled]
        if waiting:
            client = self.rng.choice(waiting)
            count = self.rng.choice((1, 5, 50))
            # Twins get the same things in another order: they read all of it.
            client.read(len(client.mailbox) if self.world.swarm.commits_at_once else count)

    def connect(self) -> None:
        """One client more, within bounds."""
        if len(self.world.clients) < self.world.swarm.client_max:
            self.world.connect()

    def disconnect(self) -> None:
        """One client less."""
        self.world.disconnect(self.some_client())

    def stall(self) -> None:
        """A client stops reading or goes on."""
        self.world.stall(self.some_client())

    def advance(self) -> None:
        """Time passes."""
        duration_ns = self.rng.randrange(1, self.world.swarm.advance_max_ms * MILLISECOND_NS)
        self.world.advance(duration_ns, on_time=self.rng.random() < 0.8)

    # -- messages ------------------------------------------------------------------------------------------------

    def publish(self) -> None:
        """Some messages to one stream."""
        stream = self.some_stream()
        if stream is None:
            self.make_stream()
            return
        client = self.some_client()
        for _ in range(self.rng.choice((1, 1, 3, 12))):
            attempt = self.attempt(stream)
            reply = client.new_reply() if self.rng.random() < 0.9 else b""
            data = publish_bytes(attempt.subject, reply, attempt.header, attempt.payload)
            client.send(PublishOp(data, reply, stream=stream.name, attempt=attempt))

    def attempt(self, stream: StreamModel) -> Attempt:
        """One message, plain more often than not."""
        rng = self.rng
        subject = f"{stream.name}.{rng.choice(configs.WORDS)}".encode()
        payload = b"%d " % self.next_serial() + b"x" * rng.choice((0, 5, 30, self.world.swarm.payload_max))
        if rng.random() < 0.6:
            return Attempt(subject, b"", payload)
        lines: list[tuple[bytes, bytes]] = []
        asks: dict[str, Any] = {}
        if rng.random() < 0.6:
            message_id = self.message_id()
            lines.append((b"Nats-Msg-Id", message_id))
            asks["message_id"] = message_id
        self._add_expectations(stream, subject, lines, asks)
        if rng.random() < 0.1:
            asks["rollup"] = rng.choice((b"sub", b"all"))
            lines.append((b"Nats-Rollup", asks["rollup"]))
        if rng.random() < 0.15:
            asks["lifetime_s"] = rng.choice((1, 3, -1))
            lines.append((b"Nats-TTL", b"never" if asks["lifetime_s"] < 0 else b"%d" % asks["lifetime_s"]))
        if not lines or rng.random() < 0.3:
            lines.append((b"Other", b"word"))
        return Attempt(subject, header_block(lines), payload, **asks)

    def message_id(self) -> bytes:
        """A new id, or one used before."""
        if self._recent_ids and self.rng.random() < 0.4:
            return self.rng.choice(self._recent_ids)
        message_id = b"id%d" % self.next_serial()
        self._recent_ids = [*self._recent_ids[-20:], message_id]
        return message_id

    def _add_expectations(
        self, stream: StreamModel, subject: bytes, lines: list[tuple[bytes, bytes]], asks: dict[str, Any]
    ) -> None:
        rng = self.rng
        kind = rng.random()
        if kind < 0.08:
            asks["expected_last_seq"] = max(0, stream.last_seq - rng.choice((0, 0, 1)))
            lines.append((b"Nats-Expected-Last-Sequence", b"%d" % asks["expected_last_seq"]))
        elif kind < 0.16:
            on_subject = stream.on_subject(subject)
            asks["expected_last_subject_seq"] = on_subject[-1] if on_subject else 0
            number = b"%d" % asks["expected_last_subject_seq"]
            lines.append((b"Nats-Expected-Last-Subject-Sequence", number))
        elif kind < 0.2 and stream.last_id:
            asks["expected_last_id"] = stream.last_id
            lines.append((b"Nats-Expected-Last-Msg-Id", stream.last_id))
        elif kind < 0.24:
            asks["expected_stream"] = rng.choice((stream.name, stream.name, "other"))
            lines.append((b"Nats-Expected-Stream", asks["expected_stream"].encode()))

    def pull(self) -> None:
        """Ask a consumer for messages."""
        stream = self.some_stream()
        pulled = [c for c in stream.consumers.values() if not c.config.deliver_subject] if stream is not None else []
        if stream is None or not pulled:
            self.make_consumer()
            return
        consumer = self.rng.choice(pulled)
        client = self.some_client()
        request = self.pull_request(str(consumer.config.priority_policy))
        if self.rng.random() < 0.95:
            request = client.pull_document(consumer, request)
        reply = client.new_reply()
        verb = f"CONSUMER.MSG.NEXT.{stream.name}.{consumer.name}"
        client.send(PullOp(api_bytes(verb, reply, request), reply, stream=stream.name, consumer=consumer.name))

    def pull_request(self, policy: str) -> dict[str, Any]:
        """Any kind of pull request."""
        rng = self.rng
        request: dict[str, Any] = {"batch": rng.choice((1, 2, 10, 50))}
        if rng.random() < 0.3:
            request["no_wait"] = True
        if rng.random() < 0.6:
            request["expires"] = rng.choice((100, 2000)) * MILLISECOND_NS
            if rng.random() < 0.2:
                request["idle_heartbeat"] = 50 * MILLISECOND_NS
        if rng.random() < 0.15:
            request["max_bytes"] = rng.choice((100, 400, 5000))
        if policy == "overflow" and rng.random() < 0.5:
            request[rng.choice(("min_pending", "min_ack_pending"))] = rng.randrange(1, 10)
        elif policy == "prioritized":
            request["priority"] = rng.randrange(0, 4)
        return request

    def ack(self) -> None:
        """Say something about some delivered messages: once, twice, late or never."""
        rng = self.rng
        holding = [client for client in self.world.clients if client.held]
        if not holding:
            self.read()
            return
        client = rng.choice(holding)
        for _ in range(min(len(client.held), rng.choice((1, 3, 10)))):
            position = rng.randrange(len(client.held))
            token, delivery = client.held[position]
            if rng.random() < 0.9:
                client.held.pop(position)
            body = rng.choice(ACK_BODIES)
            reply = client.new_reply() if rng.random() < 0.4 else b""
            if rng.random() < 0.05:
                body, reply = b"+NXT 2", client.new_reply()
            data = publish_bytes(token, reply, b"", body)
            client.send(
                AckOp(data, reply, stream=delivery.stream, consumer=delivery.consumer, seq=delivery.seq, body=body)
            )

    # -- the API -------------------------------------------------------------------------------------------------

    def call(self, verb: str, stream: str, consumer: str = "", document: dict[str, Any] | None = None) -> None:
        """A request to the API."""
        client = self.some_client()
        reply = client.new_reply()
        client.send(
            ApiOp(
                api_bytes(verb, reply, document), reply, verb=verb, stream=stream, consumer=consumer, document=document
            )
        )

    def make_stream(self) -> None:
        """A stream more, within bounds; names are used again."""
        name = f"s{self.rng.randrange(self.world.swarm.stream_max)}"
        if name in self.world.witness.streams:
            return
        config = configs.stream_config(
            self.rng, name, f"life {self.next_serial()}", file_share=self.world.swarm.file_share
        )
        if not self.world.swarm.has_byte_limits:
            config.pop("max_bytes", None)
        self._configs[config["description"]] = config
        self.call(f"STREAM.CREATE.{name}", name, document=config)

    def update_stream(self) -> None:
        """Change a stream's limits."""
        stream = self.some_stream()
        config = self._configs.get(stream.config.description) if stream is not None else None
        if config is not None:
            changed = configs.stream_update(self.rng, config)
            self._configs[config["description"]] = changed
            self.call(f"STREAM.UPDATE.{config['name']}", config["name"], document=changed)

    def delete_stream(self) -> None:
        """A stream less."""
        stream = self.some_stream()
        if stream is not None:
            self.call(f"STREAM.DELETE.{stream.name}", stream.name)

    def make_consumer(self) -> None:
        """A consumer more, within bounds; names are used again."""
        stream = self.some_stream()
        if stream is None:
            return
        name = f"c{self.rng.randrange(self.world.swarm.consumer_max)}"
        if name in stream.consumers:
            return
        config = configs.consumer_config(
            self.rng, stream.name, name, f"life {self.next_serial()}", stream.last_seq, str(stream.config.retention)
        )
        self._configs[config["description"]] = config
        document = {"stream_name": stream.name, "config": config, "action": "create"}
        self.call(f"CONSUMER.CREATE.{stream.name}.{name}", stream.name, name, document)

    def update_consumer(self) -> None:
        """Change what a consumer looks at or how it waits."""
        stream = self.some_stream()
        if stream is None or not stream.consumers:
            return
        consumer = self.rng.choice(list(stream.consumers.values()))
        config = dict(self._configs.get(consumer.config.description, {}))
        if not config:
            return
        config.pop("filter_subject", None)
        config.pop("filter_subjects", None)
        configs.add_filter(self.rng, stream.name, config)
        if self.rng.random() < 0.3 and config["ack_policy"] != "none":
            config["max_ack_pending"] = self.rng.choice((5, 50))
        document = {"stream_name": stream.name, "config": config, "action": "update"}
        self.call(f"CONSUMER.CREATE.{stream.name}.{consumer.name}", stream.name, consumer.name, document)

    def delete_consumer(self) -> None:
        """A consumer less."""
        stream = self.some_stream()
        if stream is not None and stream.consumers:
            name = self.rng.choice(list(stream.consumers))
            self.call(f"CONSUMER.DELETE.{stream.name}.{name}", stream.name, name)

    def control_consumer(self) -> None:
        """Pause, resume, set back or unpin a consumer; or look at it."""
        stream = self.some_stream()
        if stream is None or not stream.consumers:
            return
        consumer = self.rng.choice(list(stream.consumers.values()))
        verb = self.rng.choice(("INFO", "PAUSE", "RESET", "UNPIN"))
        document: dict[str, Any] | None = None
        if verb == "PAUSE" and self.rng.random() < 0.7:
            until_ns = self.world.now_ns + self.rng.choice((100, 3000)) * MILLISECOND_NS + 19_051
            seconds, rest_ns = divmod(until_ns, 1_000_000_000)
            document = {"pause_until": rfc3339(seconds, rest_ns)}
        elif verb == "RESET" and self.rng.random() < 0.5:
            document = {"seq": self.rng.randrange(1, stream.last_seq + 5)}
        elif verb == "UNPIN":
            if not consumer.config.priority_groups:
                return
            document = {"group": "g"}
        self.call(f"CONSUMER.{verb}.{stream.name}.{consumer.name}", stream.name, consumer.name, document)

    def purge(self) -> None:
        """Purge all, some, or all but some."""
        stream = self.some_stream()
        if stream is None:
            return
        document: dict[str, Any] = {}
        kind = self.rng.random()
        if kind < 0.4:
            document["filter"] = f"{stream.name}.{self.rng.choice((*configs.WORDS, 'd.*', '>'))}"
        if kind < 0.2 or kind > 0.8:
            document["seq"] = self.rng.randrange(1, stream.last_seq + 2)
        elif kind > 0.6:
            document["keep"] = self.rng.randrange(1, 5)
        self.call(f"STREAM.PURGE.{stream.name}", stream.name, document=document)

    def delete_message(self) -> None:
        """Delete one message, with or without erasing it."""
        stream = self.some_stream()
        if stream is not None and stream.seqs:
            seq = self.rng.choice(stream.seqs)
            document = {"seq": seq, "no_erase": self.rng.random() < 0.5}
            self.call(f"STREAM.MSG.DELETE.{stream.name}", stream.name, document=document)

    def get_message(self) -> None:
        """Look at one message: by sequence, the last or the next of a subject, as a document or directly."""
        stream = self.some_stream()
        if stream is None or not stream.last_seq:
            return
        seq = self.rng.choice(stream.seqs) if stream.seqs else stream.last_seq
        subject = f"{stream.name}.{self.rng.choice((*configs.WORDS, 'd.*'))}"
        documents: list[dict[str, Any]] = [
            {"seq": seq},
            {"last_by_subj": subject},
            {"seq": seq, "next_by_subj": subject},
        ]
        verb = self.rng.choice(("STREAM.MSG.GET", "DIRECT.GET"))
        self.call(f"{verb}.{stream.name}", stream.name, document=self.rng.choice(documents))

    def stream_info(self) -> None:
        """Look at a stream."""
        stream = self.some_stream()
        if stream is not None:
            self.call(f"STREAM.INFO.{stream.name}", stream.name)

    def listen(self) -> None:
        """Start or stop listening on a push consumer's subject."""
        client = self.some_client()
        if client.listens and self.rng.random() < 0.3:
            client.stop_listening(self.rng.choice(list(client.listens)))
            return
        subjects = [
            (consumer.config.deliver_subject, consumer.config.deliver_group)
            for known in self.world.witness.streams.values()
            for consumer in known.model.consumers.values()
            if consumer.config.deliver_subject
        ]
        if subjects:
            subject, group = self.rng.choice(subjects)
            client.listen(subject.encode(), group.encode())


def rfc3339(seconds: int, rest_ns: int) -> str:
    """A moment as the API reads it."""
    from datetime import UTC, datetime

    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest_ns:09d}Z"
