"""What a benchmark is to do, as data that can be handed to another process.

Decided here: the kinds of benchmark, how messages are shared out among clients, and the subject of each message.
Not known here: connections, and how anything is measured.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any, Final

STREAM: Final = "benchstream"
BUCKET: Final = "benchbucket"
CONSUMER: Final = "nats-bench"
BATCH_COUNT: Final = 500


class Kind(StrEnum):
    """What is measured; the value is how it is called on the command line."""

    PUB = "pub"
    SUB = "sub"
    REQUEST = "service request"
    SERVE = "service serve"
    JS_SYNC = "js pub sync"
    JS_ASYNC = "js pub async"
    JS_ATOMIC = "js pub atomic"
    JS_FAST = "js pub fast"
    CONSUME = "js consume"
    FETCH = "js fetch"
    ORDERED = "js ordered"
    GET = "js get sync"
    GET_BATCH = "js get batch"
    KV_PUT = "kv put"
    KV_GET = "kv get"


READS_STREAM: Final = {Kind.CONSUME, Kind.FETCH, Kind.ORDERED, Kind.GET, Kind.GET_BATCH}
# Every client of these gets every message; the others share them.
EACH_GETS_ALL: Final = {Kind.SUB, Kind.ORDERED, Kind.GET_BATCH}
# Clients take what comes from one consumer or queue group, so how many each gets is not known before.
SHARES_AS_IT_COMES: Final = {Kind.CONSUME, Kind.SERVE}
# More than any client ever handles: the share of one that ends by the clock or by Ctrl-C.
ENDLESS: Final = 10**15


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One benchmark. Durations in seconds."""

    kind: Kind
    subject: str = ""
    # 0: as many as there is time for.
    message_count: int = 100_000
    duration_s: float = 0.0
    size_bytes: int = 128
    client_count: int = 1
    batch_count: int = BATCH_COUNT
    outstanding_acks: int = 1
    stream: str = STREAM
    consumer: str = CONSUMER
    bucket: str = BUCKET
    acks: str = "explicit"
    double_ack: bool = False
    filters: list[str] = field(default_factory=list)
    multi_subject: bool = False
    multi_subject_max: int = 100_000
    random_subject: bool = False
    payload: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    dedup: bool = False
    # Makes the message ids of one run differ from those of the next.
    run_id: str = ""
    sleep_s: float = 0.0
    throughput: int = 0
    idle_timeout_s: float = 10.0
    connection: dict[str, Any] = field(default_factory=dict)

    def share(self, client: int) -> range:
        """The numbers of the messages one client is about."""
        if self.kind in EACH_GETS_ALL or self.kind in SHARES_AS_IT_COMES:
            return range(self.message_count or ENDLESS)
        if not self.message_count:
            # In turn, so that the numbers all clients have used are without large gaps.
            return range(client, ENDLESS, self.client_count)
        size, rest = divmod(self.message_count, self.client_count)
        first = client * size + min(client, rest)
        return range(first, first + size + (1 if client < rest else 0))

    @property
    def total_count(self) -> int:
        """How many messages all clients together handle; 0 when that is not known before."""
        return self.message_count * (self.client_count if self.kind in EACH_GETS_ALL else 1)

    @property
    def pattern(self) -> str:
        """What to listen to in order to get every message of the benchmark."""
        return f"{self.subject}.*" if self.multi_subject else self.subject

    def body(self) -> bytes:
        """What every message carries."""
        return self.payload or bytes(self.size_bytes)

    def subjects(self, share: range, chance: Random) -> list[str]:
        """The subjects a client publishes to, in turn: message `share[i]` goes to `subjects[i % len(subjects)]`."""
        if not self.multi_subject:
            return [self.subject]
        top = self.multi_subject_max or self.message_count
        if self.random_subject:
            return [f"{self.subject}.{chance.randrange(top)}" for _ in range(min(len(share), top))] or [self.subject]
        return [f"{self.subject}.{number % top}" for number in share[:top]] or [self.subject]

    def latency_of(self) -> str:
        """What one measured duration is of."""
        batch = f"{self.batch_count:,}"
        return {
            Kind.PUB: f"each {min(self.batch_count, 100):,} messages handed to the connection",
            Kind.SUB: f"each {batch} messages received",
            Kind.REQUEST: "each request until its reply",
            Kind.SERVE: "nothing, whoever asks sees it",
            Kind.JS_SYNC: "each publish until its acknowledgement",
            Kind.JS_ASYNC: f"each batch of {batch} until its last acknowledgement",
            Kind.JS_ATOMIC: f"each atomic batch of {batch} until it is stored",
            Kind.JS_FAST: f"each acknowledgement, of up to {batch} messages",
            Kind.CONSUME: "each confirmed acknowledgement" if self.double_ack else f"each {batch} messages consumed",
            Kind.FETCH: f"each fetch of {batch} with its acknowledgements",
            Kind.ORDERED: f"each {batch} messages read",
            Kind.GET: "each get",
            Kind.GET_BATCH: f"each get of {batch}",
            Kind.KV_PUT: "each put",
            Kind.KV_GET: "each get",
        }[self.kind]
