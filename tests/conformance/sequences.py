"""Random conversations from a seed: steps that mean the same on every server, and how one is performed.

Steps are drawn without looking at answers, so leaving some out keeps the rest meaningful: that is what makes a
failing sequence shrinkable. Nothing here waits for time: pulls do not wait, ack waits are long, and every ack
is a double ack, because only then does nats-server promise an order. Five things nats-server plainly gets wrong
are left out: widening the filter of an existing consumer (a pull may then miss a message), a start sequence in
the future (earlier messages count as pending), filters that overlap in part (a message counts twice), purges of
a part of what a consumer filters for or waits for (it counts, owes or misses messages wrongly), and deleted
sequences of an empty file stream (it names 0). A consumer of last messages gets them at once, because one that is
removed before would end a pull. Acks for all before have sequences of their own: see `keep_ack_all_apart`.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

from jetspark.protocol.subjects import collides, is_subset
from tests.conformance.scenario import Event, Run
from tests.conformance.wire import Frame, NoFrame, header_block

STREAMS = ("A", "B")
CONSUMERS = ("x", "y", "z")
SECOND = 1_000_000_000
LEAVING = ("max_msgs", "max_bytes", "max_msgs_per_subject", "discard_new_per_subject", "allow_rollup_hdrs")
READ_ONLY = ("stream_info", "consumer_info", "get", "direct", "names")


@dataclass(frozen=True)
class Step:
    kind: str
    stream: str
    values: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.stream} {' '.join(json.dumps(value) for value in self.values)}".rstrip()


def steps_of(seed: int, count: int) -> list[Step]:
    """The steps of a seed; the first make a stream and a consumer, so that something happens."""
    rng = random.Random(seed)
    has_ack_all = rng.random() < 0.3
    steps = [Step("create_stream", stream, (stream_config(rng),)) for stream in STREAMS]
    steps += [Step("create_consumer", stream, (CONSUMERS[0], consumer_config(rng, stream))) for stream in STREAMS]
    kinds = list(WEIGHTS)
    weights = list(WEIGHTS.values())
    while len(steps) < count:
        kind = rng.choices(kinds, weights)[0]
        stream = rng.choice(STREAMS)
        steps.append(Step(kind, stream, DRAW[kind](rng, stream)))
    return [step for step in steps if keep_ack_all_apart(step, has_ack_all)]


def keep_ack_all_apart(step: Step, has_ack_all: bool) -> bool:
    """Where acks are for all before, no message leaves otherwise: nats-server would take that for such an ack."""
    if step.kind == "create_consumer" and step.values[1]["ack_policy"] == "all" and not has_ack_all:
        step.values[1]["ack_policy"] = "explicit"
    if step.kind in ("create_stream", "update_stream") and has_ack_all:
        for name in LEAVING:
            step.values[0].pop(name, None)
    return not has_ack_all or step.kind not in ("delete_message", "purge")


def stream_config(rng: random.Random) -> dict[str, Any]:
    config: dict[str, Any] = {
        "retention": rng.choices(["limits", "interest", "workqueue"], [5, 2, 2])[0],
        "storage": rng.choice(["file", "memory"]),
    }
    for name, values in (
        ("max_msgs", (3, 8)),
        ("max_bytes", (200, 600)),
        ("max_msgs_per_subject", (1, 2, 3)),
        ("discard", ("new", "old")),
        ("allow_rollup_hdrs", (True,)),
        ("allow_direct", (True, True)),
        ("deny_delete", (True,)),
        ("first_seq", (10,)),
        ("max_msg_size", (40,)),
        ("allow_msg_ttl", (True,)),
        ("discard_new_per_subject", (True,)),
    ):
        if rng.random() < 0.22:
            config[name] = rng.choice(values)
    return config


def stream_update(rng: random.Random, stream: str) -> tuple[Any, ...]:
    config = stream_config(rng)
    del config["storage"], config["retention"]
    return (config,)


def subject(rng: random.Random, stream: str) -> str:
    return f"{stream}.{rng.choice('abc')}.{rng.choice('12')}"


def pattern(rng: random.Random, stream: str) -> str:
    return rng.choice([f"{stream}.>", f"{stream}.a.*", f"{stream}.*.1", f"{stream}.b.2", f"{stream}.c.>", "none"])


def consumer_config(rng: random.Random, stream: str) -> dict[str, Any]:
    config: dict[str, Any] = {"ack_policy": rng.choices(["explicit", "all", "none"], [6, 2, 2])[0]}
    policy = rng.choices(["all", "last", "new", "by_start_sequence", "last_per_subject"], [8, 1, 1, 2, 1])[0]
    config["deliver_policy"] = policy
    if policy == "by_start_sequence":
        config["opt_start_seq"] = rng.randint(1, 15)
    if rng.random() < 0.45 or policy == "last_per_subject":
        config["filter_subject"] = pattern(rng, stream)
    elif rng.random() < 0.2:
        config["filter_subjects"] = rng.choice([[f"{stream}.a.*", f"{stream}.b.2"], [f"{stream}.c.>", f"{stream}.a.1"]])
    for name, values in (("max_deliver", (1, 2, 3)), ("headers_only", (True,)), ("mem_storage", (True,))):
        if rng.random() < 0.15:
            config[name] = rng.choice(values)
    return config


def publish(rng: random.Random, stream: str) -> tuple[Any, ...]:
    headers: list[tuple[str, str]] = []
    for name, values, chance in (
        ("Nats-Msg-Id", ("i1", "i2", "i3", "i4"), 0.25),
        ("Nats-Expected-Last-Sequence", ("0", "1", "3", "5", "8"), 0.06),
        ("Nats-Expected-Last-Subject-Sequence", ("0", "1", "2", "4"), 0.06),
        ("Nats-Expected-Last-Msg-Id", ("i1", "i2"), 0.04),
        ("Nats-Rollup", ("sub", "all"), 0.05),
        ("Nats-TTL", ("1h", "never", "x"), 0.04),
        ("Other", ("value", ""), 0.1),
    ):
        if rng.random() < chance:
            headers.append((name, rng.choice(values)))
    return subject(rng, stream), "p" * rng.choice([0, 1, 5, 20, 60]), headers


def purge(rng: random.Random, stream: str) -> tuple[Any, ...]:
    body: dict[str, Any] = {}
    if rng.random() < 0.5:
        body["filter"] = pattern(rng, stream)
    choice = rng.random()
    if choice < 0.35:
        body["keep"] = rng.randint(1, 4)
    elif choice < 0.7:
        body["seq"] = rng.randint(1, 20)
    return (body,)


def get(rng: random.Random, stream: str) -> tuple[Any, ...]:
    body: dict[str, Any] = rng.choice(
        [
            {"seq": rng.randint(1, 25)},
            {"last_by_subj": pattern(rng, stream)},
            {"next_by_subj": pattern(rng, stream), "seq": rng.randint(1, 20)},
        ]
    )
    return (body,)


def pull(rng: random.Random, stream: str) -> tuple[Any, ...]:
    body: dict[str, Any] = {"batch": rng.randint(1, 6), "no_wait": True}
    if rng.random() < 0.15:
        body["max_bytes"] = rng.choice([60, 150, 400])
    return rng.choice(CONSUMERS), body


def ack(rng: random.Random, stream: str) -> tuple[Any, ...]:
    body = rng.choices(["+ACK", "", "-NAK", "+WPI", "+TERM", "+TERM why", "?"], [8, 2, 4, 1, 2, 1, 1])[0]
    return rng.choice(CONSUMERS), rng.randint(0, 50), body


def reset(rng: random.Random, stream: str) -> tuple[Any, ...]:
    return rng.choice(CONSUMERS), rng.choice([None, {"seq": rng.randint(1, 12)}])


WEIGHTS = {
    "publish": 40,
    "pull": 18,
    "ack": 20,
    "stream_info": 8,
    "consumer_info": 10,
    "get": 4,
    "direct": 3,
    "delete_message": 4,
    "purge": 3,
    "create_consumer": 6,
    "delete_consumer": 2,
    "update_stream": 3,
    "create_stream": 1,
    "delete_stream": 0.6,
    "names": 1,
    "reset": 1,
}
DRAW: dict[str, Any] = {
    "publish": publish,
    "pull": pull,
    "ack": ack,
    "stream_info": lambda rng, stream: (),
    "consumer_info": lambda rng, stream: (rng.choice(CONSUMERS),),
    "get": get,
    "direct": get,
    "delete_message": lambda rng, stream: (rng.randint(1, 20),),
    "purge": purge,
    "create_consumer": lambda rng, stream: (rng.choice(CONSUMERS), consumer_config(rng, stream)),
    "delete_consumer": lambda rng, stream: (rng.choice(CONSUMERS),),
    "update_stream": stream_update,
    "create_stream": lambda rng, stream: (stream_config(rng),),
    "delete_stream": lambda rng, stream: (),
    "names": lambda rng, stream: (),
    "reset": reset,
}


@dataclass
class Side:
    """One server's half of a sequence: what it delivered so far, and which name each stream has now."""

    run: Run
    series: int = 0
    generation: dict[str, int] = field(default_factory=dict)
    delivered: dict[tuple[str, str], list[Frame]] = field(default_factory=dict)

    def perform(self, step: Step) -> list[Event]:
        """Do one step; the events it gave."""
        start = len(self.run.transcript)
        try:
            getattr(self, step.kind)(self.name(step.stream), step.stream, *step.values)
        except NoFrame as missing:
            self.run.record("missing", str(missing))
        return self.run.transcript[start:]

    def name(self, stream: str) -> str:
        # A deleted stream's name is not used again: nats-server may still be removing its files.
        return f"{stream}{self.generation.get(stream, 0)}-{self.series}"

    def create_stream(self, name: str, stream: str, config: dict[str, Any]) -> None:
        self.run.stream(name, subjects=[f"{stream}.>"], **config)

    def update_stream(self, name: str, stream: str, config: dict[str, Any]) -> None:
        current = self.run.api(f"STREAM.INFO.{name}", quiet=True).get("config", {})
        kept = {key: current[key] for key in ("retention", "storage", "deny_delete", "allow_msg_ttl") if key in current}
        self.run.update_stream(name, **({"subjects": [f"{stream}.>"]} | kept | config))

    def delete_stream(self, name: str, stream: str) -> None:
        self.run.api(f"STREAM.DELETE.{name}")
        self.generation[stream] = self.generation.get(stream, 0) + 1

    def publish(self, name: str, stream: str, subject_name: str, payload: str, headers: list[tuple[str, str]]) -> None:
        if ["Nats-Rollup", "sub"] in [list(pair) for pair in headers] and self.cuts_a_filter(
            name, subject_name.encode()
        ):
            return
        block = header_block(headers) if headers else b""
        frame = self.run.client.request(subject_name, payload.encode(), block=block)
        self.run.record("publish", subject_name, status=frame.status, payload=frame.payload.decode())

    def pull(self, name: str, stream: str, consumer: str, body: dict[str, Any]) -> None:
        inbox = self.run.pull(name, consumer, body)
        frames: list[Frame] = []
        while len(frames) < body["batch"] and not (frames and frames[-1].status):
            frames.append(inbox.next())
        self.delivered.setdefault((name, consumer), []).extend(frame for frame in frames if not frame.status)
        inbox.close()

    def ack(self, name: str, stream: str, consumer: str, index: int, body: str) -> None:
        frames = self.delivered.get((name, consumer))
        if not frames:
            return
        frame = self.run.client.request(frames[index % len(frames)].reply, body.encode())
        self.run.record("confirmation", body, status=frame.status, payload=frame.payload.decode())

    def stream_info(self, name: str, stream: str) -> None:
        empty = self.last_seq(name) == 0
        self.run.stream_info(name, {"subjects_filter": ">", "deleted_details": not empty})

    def last_seq(self, name: str) -> int:
        state = self.run.api(f"STREAM.INFO.{name}", quiet=True).get("state", {})
        return int(state.get("last_seq", 0))

    def consumer_info(self, name: str, stream: str, consumer: str) -> None:
        self.run.consumer_info(name, consumer)

    def get(self, name: str, stream: str, body: dict[str, Any]) -> None:
        self.run.api(f"STREAM.MSG.GET.{name}", body)

    def direct(self, name: str, stream: str, body: dict[str, Any]) -> None:
        frame = self.run.client.request(f"$JS.API.DIRECT.GET.{name}", json.dumps(body).encode())
        self.run.record("direct", frame=self.run.message(frame) | {"subject": ""})

    def delete_message(self, name: str, stream: str, seq: int) -> None:
        self.run.api(f"STREAM.MSG.DELETE.{name}", {"seq": seq})

    def purge(self, name: str, stream: str, body: dict[str, Any]) -> None:
        if "filter" in body and self.cuts_a_filter(name, body["filter"].encode()):
            return
        self.run.api(f"STREAM.PURGE.{name}", body)

    def cuts_a_filter(self, name: str, purged: bytes) -> bool:
        """Is a part, and not the whole, of what some consumer filters for or waits for to be purged?"""
        for consumer in self.run.api(f"CONSUMER.LIST.{name}", quiet=True).get("consumers", []):
            config = consumer["config"]
            texts = [*config.get("filter_subjects", []), config.get("filter_subject", "")]
            patterns = [text.encode() for text in texts if text]
            if not patterns or not all(is_subset(pattern, purged) for pattern in patterns):
                if consumer["num_ack_pending"] > 0:
                    return True
                touched = [pattern for pattern in patterns if collides(pattern, purged)]
                if any(pattern == purged or not is_subset(purged, pattern) for pattern in touched):
                    return True
        return False

    def create_consumer(self, name: str, stream: str, consumer: str, config: dict[str, Any]) -> None:
        existing = self.run.api(f"CONSUMER.INFO.{name}.{consumer}", quiet=True).get("config")
        if existing is not None:
            kept = {key: existing[key] for key in ("filter_subject", "filter_subjects") if key in existing}
            config = {key: value for key, value in config.items() if not key.startswith("filter")} | kept
        if "opt_start_seq" in config:
            config = config | {"opt_start_seq": min(config["opt_start_seq"], self.last_seq(name) + 1)}
        self.run.consumer(name, consumer, **config)
        if existing is None and config["deliver_policy"] == "last_per_subject":
            self.pull(name, stream, consumer, {"batch": 100, "no_wait": True})

    def delete_consumer(self, name: str, stream: str, consumer: str) -> None:
        self.run.api(f"CONSUMER.DELETE.{name}.{consumer}")
        self.delivered.pop((name, consumer), None)

    def reset(self, name: str, stream: str, consumer: str, body: Any) -> None:
        found = self.run.api(f"CONSUMER.INFO.{name}.{consumer}", quiet=True)
        if found.get("config", {}).get("deliver_policy") == "last_per_subject":
            return  # It goes on counting only last messages, and delivers all of them.
        if body is not None:
            body = {"seq": min(body["seq"], self.last_seq(name) + 1)}
        if "error" not in found:  # A reset of a missing consumer is never answered.
            self.run.api(f"CONSUMER.RESET.{name}.{consumer}", body)

    def names(self, name: str, stream: str) -> None:
        self.run.api("STREAM.NAMES")
        self.run.api(f"CONSUMER.NAMES.{name}")
