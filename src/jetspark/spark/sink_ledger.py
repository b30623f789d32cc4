"""Who may write which rows, and which batches are finished: records in a key-value bucket beside the target.

Every change of a claim is conditional on the revision it was read at, so of several attempts one wins. Records are read
from the stream's leader, never from a follower that may be behind. What a claim means is decided in `sink_claim`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec

from jetspark.api.error_codes import ApiError
from jetspark.client.api_errors import (
    MessageNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
    WrongLastSequenceError,
)
from jetspark.spark.sink_ids import Place

if TYPE_CHECKING:
    from jetspark.client.sync import JetStream

LATE_TASKS_TTL_S = 86400
MARKER_TTL_S = 3600
MESSAGE_TTL_DISABLED = 10166
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ClaimLost(Exception):
    """Somebody else changed the record since it was read."""


@dataclass(frozen=True)
class Base:
    """A stream as it was before the first row of a task was sent: nothing of the task lies at or before `sequence`."""

    sequence: int
    created: str


@dataclass(frozen=True)
class Claim:
    """One attempt's right to write the rows of one task."""

    owner: str
    """The subject the attempt listens on for as long as its connection lives."""
    bases: dict[str, Base] = field(default_factory=dict)
    done: dict[str, Any] | None = None
    """What was written, once everything is."""
    revision: int = 0

    def encode(self) -> bytes:
        """As it is stored."""
        bases = {name: {"seq": base.sequence, "created": base.created} for name, base in self.bases.items()}
        return msgspec.json.encode({"owner": self.owner, "bases": bases, "done": self.done})

    @classmethod
    def decode(cls, data: bytes, revision: int) -> Claim:
        """As it was stored."""
        document = msgspec.json.decode(data)
        bases = {name: Base(int(raw["seq"]), str(raw["created"])) for name, raw in document["bases"].items()}
        return cls(str(document["owner"]), bases, document["done"], revision)


def _token(text: str) -> str:
    """A text as one token of a subject."""
    return text if _PLAIN.fullmatch(text) else hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Ledger:
    """The records of the writes into one stream."""

    def __init__(self, jetstream: JetStream, bucket: str, stream: str) -> None:
        self._jetstream = jetstream
        self._bucket = bucket
        self._stream = jetstream.stream_handle(f"KV_{bucket}")
        self._prefix = f"$KV.{bucket}.{_token(stream)}"

    def make(self, replicas: int) -> None:
        """See that the bucket is there."""
        try:
            self._jetstream.stream(f"KV_{self._bucket}")
        except StreamNotFoundError:
            try:
                self._jetstream.create_key_value(self._bucket, num_replicas=replicas, limit_marker_ttl=MARKER_TTL_S)
            except StreamExistsError:
                return

    def _claim_subject(self, place: Place) -> str:
        return f"{self._prefix}.{_token(place.write)}.claim.{place.batch}.{place.partition}"

    def _read(self, subject: str) -> tuple[bytes, int] | None:
        try:
            stored = self._stream.get_msg(last_by_subject=subject, direct=False)
        except MessageNotFoundError:
            return None
        return (stored.data, stored.seq) if stored.data else None

    def claim(self, place: Place) -> Claim | None:
        """The claim on a task's rows; None when nobody has claimed them."""
        found = self._read(self._claim_subject(place))
        return None if found is None else Claim.decode(*found)

    def put_claim(self, place: Place, claim: Claim) -> Claim:
        """Write a claim over the one it was read from; ClaimLost when that is no longer the last."""
        try:
            ack = self._jetstream.publish(
                self._claim_subject(place), claim.encode(), expect_last_subject_seq=claim.revision
            )
        except WrongLastSequenceError:
            raise ClaimLost(str(place)) from None
        return replace(claim, revision=ack.seq)

    def committed_batch(self, write: str) -> int | None:
        """The last batch of a write that is finished as a whole."""
        found = self._read(f"{self._prefix}.{_token(write)}.committed")
        return None if found is None else int(msgspec.json.decode(found[0])["batch"])

    def commit(self, write: str, batch: int, sequence: int, *, is_for_good: bool) -> None:
        """A batch is finished as a whole: its claims are no longer needed.

        The record of a write that nobody can repeat only has to outlive its late tasks.
        """
        subject = f"{self._prefix}.{_token(write)}.committed"
        document = msgspec.json.encode({"batch": batch, "seq": sequence, "write": write})
        try:
            self._jetstream.publish(subject, document, ttl=None if is_for_good else LATE_TASKS_TTL_S)
        except ApiError as error:
            if error.err_code != MESSAGE_TTL_DISABLED:
                raise
            self._jetstream.publish(subject, document)
        self._stream.purge(subject=f"{self._prefix}.{_token(write)}.claim.{batch}.>")
