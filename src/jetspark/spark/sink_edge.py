"""What a task of the sink asks of the world: connections, the ledger, and time. The tests have another world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from jetspark.spark.sink_connection import Stored
from jetspark.spark.sink_ids import Place
from jetspark.spark.sink_ledger import Base, Begun, Claim, Committed
from jetspark.spark.sink_rows import Rows


class Records(Protocol):
    """The ledger. Every change is refused with ClaimLost when the record is no longer the one that was read."""

    def begun(self, place: Place) -> Begun | None:
        """The record of the batch."""
        ...

    def put_begun(self, place: Place, begun: Begun) -> Begun:
        """Change the record of the batch."""
        ...

    def claim(self, place: Place) -> Claim | None:
        """The claim on the rows of the task."""
        ...

    def put_claim(self, place: Place, claim: Claim) -> Claim:
        """Change the claim on the rows of the task."""
        ...

    def claims(self, place: Place) -> dict[int, Claim]:
        """Every claim on rows of the batch, by partition."""
        ...

    def committed(self, write: str) -> Committed | None:
        """The last batch that is finished as a whole."""
        ...

    def knows_elsewhere(self, write: str) -> bool:
        """Has the write been committed to another stream?"""
        ...


class SentRows(Protocol):
    """Rows on their way, each known by its place among them."""

    @property
    def refusals(self) -> Sequence[tuple[int, bytes]]:
        """Place and answer of each refused row."""
        ...

    @property
    def duplicate_count(self) -> int:
        """How many were acknowledged as duplicates."""
        ...

    @property
    def last_ack(self) -> bytes:
        """The last acknowledgement, as the server sent it."""
        ...

    def is_stored(self, place: int) -> bool:
        """Was this row acknowledged?"""
        ...

    def wait(self, timeout: float) -> None:
        """Wait until every row is stored or refused."""
        ...


class Line(Protocol):
    """A connection, which is closed for good when it is lost."""

    @property
    def ledger(self) -> Records:
        """The ledger, over this connection."""
        ...

    def listen(self) -> str:
        """Be heard on a subject until the connection is closed; the subject."""
        ...

    def is_gone(self, owner: str) -> bool:
        """Is the connection that was heard there closed, and everything received that it sent?"""
        ...

    def bases(self) -> dict[str, Base]:
        """The streams as they are now."""
        ...

    def read_stored(self, bases: Mapping[str, Base], prefix: bytes) -> Stored:
        """The ids stored since then, of all that was received before."""
        ...

    def publish(self, rows: Rows) -> SentRows:
        """Send rows."""
        ...

    def close(self) -> None:
        """Send nothing more."""
        ...


class Edge(Protocol):
    """What a task asks of the world: connections, and time."""

    def connect(self) -> Line:
        """A new connection."""
        ...

    def now_s(self) -> float:
        """Seconds that never go back."""
        ...

    def sleep(self, wait_s: float) -> None:
        """Wait."""
        ...
