"""A world for tasks of the sink, without a server: a stream, a ledger, connections, and what disturbs them.

Before and after each question that a task asks, `World.disturb` may lose the connection, kill the process, or let
others go on in between. A lost connection has sent some of what it was given, and the server reads that later, if it
has to be; whoever asks whether the connection is gone hears so only then. There is no duplicate window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from jetspark.client.errors import ConnectionLostError
from jetspark.spark.sink_connection import Stored
from jetspark.spark.sink_ids import Place
from jetspark.spark.sink_ledger import Base, Begun, Claim, ClaimLost, Committed
from jetspark.spark.sink_rows import Rows

STREAM = "OUT"
Answer = TypeVar("Answer")
Key = TypeVar("Key")
Record = TypeVar("Record", Begun, Claim)
Message = tuple[bytes, bytes]


class Killed(BaseException):
    """The process of a task is gone, in the middle of whatever it was."""


@dataclass
class World:
    """What outlives a task: the stream, the records, and what is still on its way."""

    disturb: Callable[[Line], None] = lambda line: None
    # How many messages of a connection that is lost were on their way already.
    sent_before_loss: Callable[[int], int] = lambda count: count
    stream: list[Message] = field(default_factory=list)
    begun: dict[tuple[str, int], Begun] = field(default_factory=dict)
    claims: dict[tuple[str, int, int], Claim] = field(default_factory=dict)
    committed: dict[str, Committed] = field(default_factory=dict)
    lines: list[Line] = field(default_factory=list)
    revision: int = 0

    def receive(self, line: Line, count: int | None = None) -> None:
        """The server reads what a connection has sent, or the first of it."""
        read = len(line.on_the_way) if count is None else count
        self.stream += line.on_the_way[:read]
        del line.on_the_way[:read]
        line.received_count += read

    def commit(self, write: str, batch: int, rows: int, digest: int) -> Committed:
        """What `Ledger.commit` does."""
        found = self.committed.get(write)
        if found is not None and found.batch > batch:
            return found
        if found is None or found.batch < batch:
            found = self.committed[write] = Committed(batch, rows, digest, 0)
        for place in [place for place in self.claims if place[:2] == (write, batch)]:
            del self.claims[place]
        self.begun.pop((write, batch), None)
        return found


class Line:
    """A connection of one task."""

    def __init__(self, world: World, task: Any) -> None:
        self.world = world
        self.task = task
        self.owner = f"owner-{len(world.lines)}"
        self.on_the_way: list[Message] = []
        self.sent_count = self.received_count = 0
        self.is_closed = False
        self.ledger = LineLedger(self)
        world.lines.append(self)

    def lose(self) -> None:
        """The connection ends here; the end of what it was given was never sent."""
        if not self.is_closed:
            self.is_closed = True
            del self.on_the_way[self.world.sent_before_loss(len(self.on_the_way)) :]

    def ask(self, answer: Callable[[], Answer]) -> Answer:
        """A question and its answer; either may be the last thing that happens."""
        self.world.disturb(self)
        self._check()
        found = answer()
        self.world.disturb(self)
        self._check()
        return found

    def _check(self) -> None:
        if self.is_closed:
            raise ConnectionLostError("lost")

    def listen(self) -> str:
        return self.ask(lambda: self.owner)

    def is_gone(self, owner: str) -> bool:
        def answer() -> bool:
            line = next((one for one in self.world.lines if one.owner == owner), None)
            return line is None or (line.is_closed and not line.on_the_way)

        return self.ask(answer)

    def bases(self) -> dict[str, Base]:
        return self.ask(lambda: {STREAM: Base(len(self.world.stream), "once")})

    def read_stored(self, bases: Mapping[str, Base], prefix: bytes) -> Stored:
        def answer() -> Stored:
            # The barrier goes the way of all messages before it.
            self.world.receive(self)
            found = self.world.stream[bases[STREAM].sequence :]
            return Stored({msg_id for msg_id, _ in found if msg_id.startswith(prefix)})

        return self.ask(answer)

    def publish(self, rows: Rows) -> LineBlock:
        self.world.disturb(self)
        self._check()
        self.on_the_way += zip(rows.ids, rows.payloads, strict=True)
        self.sent_count += len(rows)
        return LineBlock(self, len(rows))

    def close(self) -> None:
        self.is_closed = True


class LineBlock:
    """Messages on their way, and how many of them are acknowledged."""

    refusals: tuple[()] = ()
    duplicate_count = 0

    def __init__(self, line: Line, count: int) -> None:
        self._line = line
        self._first = line.sent_count - count
        self._count = count
        self.acked_count = 0

    @property
    def last_ack(self) -> bytes:
        return b'{"stream":"%b","seq":%d}' % (STREAM.encode(), len(self._line.world.stream) or 1)

    def is_stored(self, place: int) -> bool:
        return place < self.acked_count

    def wait(self, timeout: float) -> None:
        line = self._line
        line.world.disturb(line)
        if not line.is_closed:
            line.world.receive(line, max(0, self._first + self._count - line.received_count))
            self.acked_count = self._count
        elif line.received_count > self._first:
            # Some acknowledgements came before the end.
            self.acked_count = min(self._count, line.received_count - self._first) // 2
        if self.acked_count < self._count:
            raise ConnectionLostError("lost")


class LineLedger:
    """The records, over a connection. Each change is refused when the record is not the one that was read."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._world = line.world

    def begun(self, place: Place) -> Begun | None:
        return self._line.ask(lambda: self._world.begun.get((place.write, place.batch)))

    def put_begun(self, place: Place, begun: Begun) -> Begun:
        return self._line.ask(lambda: self._put(self._world.begun, (place.write, place.batch), begun))

    def claim(self, place: Place) -> Claim | None:
        return self._line.ask(lambda: self._world.claims.get(_key(place)))

    def put_claim(self, place: Place, claim: Claim) -> Claim:
        return self._line.ask(lambda: self._put(self._world.claims, _key(place), claim))

    def claims(self, place: Place) -> dict[int, Claim]:
        batch = (place.write, place.batch)
        return self._line.ask(lambda: {key[2]: one for key, one in self._world.claims.items() if key[:2] == batch})

    def committed(self, write: str) -> Committed | None:
        return self._line.ask(lambda: self._world.committed.get(write))

    def knows_elsewhere(self, write: str) -> bool:
        return self._line.ask(lambda: False)

    def _put(self, records: dict[Key, Record], key: Key, record: Record) -> Record:
        there = records.get(key)
        if record.revision != (0 if there is None else there.revision):
            raise ClaimLost(key)
        self._world.revision += 1
        records[key] = replace(record, revision=self._world.revision)
        return records[key]


def _key(place: Place) -> tuple[str, int, int]:
    return (place.write, place.batch, place.partition)
