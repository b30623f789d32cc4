"""Who may write which rows, and which batches are finished: records in a key-value bucket beside the target.

Every change of a claim is conditional on the revision it was read at, so of several attempts one wins. Records are read
from the stream's leader, never from a follower that may be behind. What a claim means is decided in `sink_task`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from jetspark.api.error_codes import ApiError
from jetspark.client.api_errors import (
    MessageNotFoundError,
    StreamExistsError,
    StreamNotFoundError,
    WrongLastSequenceError,
)
from jetspark.client.errors import BadOptionError
from jetspark.spark.sink_ids import Place

if TYPE_CHECKING:
    from jetspark.client.sync import JetStream

LATE_TASKS_TTL_S = 86400
MARKER_TTL_S = 3600
MESSAGE_TTL_DISABLED = 10166
USUAL_API = "$JS.API"
# Beside the claims of a batch, whose keys are partition numbers.
BEGUN = "begun"
_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ClaimLost(Exception):
    """Somebody else changed the record since it was read."""


@dataclass(frozen=True)
class Base:
    """A stream as it was before the first row of a task was sent: nothing of the task lies at or before `sequence`."""

    sequence: int
    created: str


@dataclass(frozen=True)
class Begun:
    """A batch somebody has begun to write: the streams before its first row, and which run of it was the last."""

    run: str
    bases: dict[str, Base]
    is_again: bool = False
    """More than one run has had its tasks at it, so rows may be stored that a task of this one never claimed."""
    revision: int = 0

    def encode(self) -> bytes:
        """As it is stored."""
        bases = {name: {"seq": base.sequence, "created": base.created} for name, base in self.bases.items()}
        return msgspec.json.encode({"run": self.run, "bases": bases, "again": self.is_again})

    @classmethod
    def decode(cls, data: bytes, revision: int) -> Begun:
        """As it was stored."""
        document = msgspec.json.decode(data)
        bases = {name: Base(int(raw["seq"]), str(raw["created"])) for name, raw in document["bases"].items()}
        return cls(str(document["run"]), bases, bool(document["again"]), revision)


@dataclass(frozen=True)
class Note:
    """What one attempt at a task has stored: exactly these rows. Whether the task has more of them it cannot know."""

    rows: int
    digest: int
    """The sum over the rows, see `sink_ids.rows_digest`."""
    summary: dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """One attempt's right to write the rows of one task."""

    owner: str
    """The subject the attempt listens on for as long as its connection lives."""
    run: str
    """The run of the batch whose task it is."""
    note: Note | None = None
    """What the last attempt that came to its end has stored. Later attempts keep it: what is stored stays so."""
    revision: int = 0

    def encode(self) -> bytes:
        """As it is stored."""
        return msgspec.json.encode({"owner": self.owner, "run": self.run, "note": self.note})

    @classmethod
    def decode(cls, data: bytes, revision: int) -> Claim:
        """As it was stored."""
        document = msgspec.json.decode(data)
        note = document.get("note")
        return cls(
            str(document["owner"]),
            str(document.get("run", "")),
            msgspec.convert(note, Note) if note else None,
            revision,
        )


@dataclass(frozen=True)
class Committed:
    """The last batch of a write that is finished as a whole."""

    batch: int
    rows: int | None
    """None when it was not noted."""
    digest: int | None
    revision: int


def _token(text: str) -> str:
    """A text as one token of a subject."""
    return text if _PLAIN.fullmatch(text) else hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Ledger:
    """The records of the writes into one stream."""

    def __init__(self, jetstream: JetStream, bucket: str, stream: str) -> None:
        self._jetstream = jetstream
        self._bucket = bucket
        self._stream = jetstream.stream_handle(f"KV_{bucket}")
        self._name = _token(stream)
        self._prefix = f"$KV.{bucket}.{self._name}"
        # Keys are read as they are stored, and written through the API's subjects when these are not the usual ones.
        self._way = "" if jetstream.api_prefix == USUAL_API else f"{jetstream.api_prefix}."

    def make(self, replicas: int) -> None:
        """See that the bucket is there."""
        try:
            config = self._jetstream.stream(f"KV_{self._bucket}").cached_info.config
        except StreamNotFoundError:
            try:
                self._jetstream.create_key_value(self._bucket, num_replicas=replicas, limit_marker_ttl=MARKER_TTL_S)
            except StreamExistsError:
                return
            return
        if config.max_age or config.mirror is not None:
            why = "forgets after a while" if config.max_age else "is a mirror"
            raise BadOptionError(f"option ledger: bucket {self._bucket} {why}, and what the sink notes must be kept")

    def _batch_prefix(self, place: Place) -> str:
        return f"{self._prefix}.{_token(place.write)}.claim.{place.batch}"

    def _claim_subject(self, place: Place) -> str:
        return f"{self._batch_prefix(place)}.{place.partition}"

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
        revision = self._put(self._claim_subject(place), claim.encode(), claim.revision)
        return replace(claim, revision=revision)

    def claims(self, place: Place) -> dict[int, Claim]:
        """Every claim on the rows of this batch, by partition."""
        prefix = f"{self._batch_prefix(place)}."
        subjects = self._stream.info(subjects_filter=f"{prefix}*").state.subjects or {}
        found = {name: self._read(prefix + name) for name in (one.removeprefix(prefix) for one in subjects)}
        return {int(name): Claim.decode(*one) for name, one in found.items() if name != BEGUN and one is not None}

    def begun(self, place: Place) -> Begun | None:
        """The record of the batch; None when nobody has begun it."""
        found = self._read(f"{self._batch_prefix(place)}.{BEGUN}")
        return None if found is None else Begun.decode(*found)

    def put_begun(self, place: Place, begun: Begun) -> Begun:
        """Write the record of the batch over the one it was read from; ClaimLost when that is no longer the last."""
        revision = self._put(f"{self._batch_prefix(place)}.{BEGUN}", begun.encode(), begun.revision)
        return replace(begun, revision=revision)

    def _put(self, subject: str, data: bytes, revision: int, ttl: int | None = None) -> int:
        try:
            return self._jetstream.publish(self._way + subject, data, expect_last_subject_seq=revision, ttl=ttl).seq
        except WrongLastSequenceError:
            marker = 0 if revision else self._marker(subject)
            if not marker:
                raise ClaimLost(subject) from None
        return self._put(subject, data, marker, ttl)

    def _marker(self, subject: str) -> int:
        """Where it is marked that the record was deleted; 0 when it was not."""
        stored = self._stream.get_msg(last_by_subject=subject, direct=False)
        return 0 if stored.data else stored.seq

    def committed(self, write: str) -> Committed | None:
        """The last batch of a write that is finished as a whole."""
        found = self._read(f"{self._prefix}.{_token(write)}.committed")
        if found is None:
            return None
        document = msgspec.json.decode(found[0])
        return Committed(int(document["batch"]), document.get("rows"), document.get("digest"), found[1])

    def knows_elsewhere(self, write: str) -> bool:
        """Has this write been committed to another stream?"""
        subjects = self._stream.info(subjects_filter=f"$KV.{self._bucket}.*.{_token(write)}.committed").state.subjects
        return any(subject.split(".")[2] != self._name for subject in subjects or {})

    def commit(self, write: str, batch: int, sequence: int, rows: int, digest: int, *, is_for_good: bool) -> Committed:
        """A batch is finished as a whole: its claims are no longer needed. What is recorded then, perhaps by another.

        A later batch on record stays. The record of a write that nobody can repeat only has to outlive its late tasks.
        """
        subject = f"{self._prefix}.{_token(write)}.committed"
        document = msgspec.json.encode(
            {"batch": batch, "seq": sequence, "rows": rows, "digest": digest, "write": write}
        )
        while True:
            found = self.committed(write)
            if found is not None and found.batch >= batch:
                if found.batch > batch:
                    return found
                break
            try:
                self._note(subject, document, 0 if found is None else found.revision, is_for_good=is_for_good)
            except ClaimLost:
                continue
            break
        self._stream.purge(subject=f"{self._prefix}.{_token(write)}.claim.{batch}.>")
        return found if found is not None and found.batch == batch else Committed(batch, rows, digest, 0)

    def _note(self, subject: str, document: bytes, revision: int, *, is_for_good: bool) -> None:
        try:
            self._put(subject, document, revision, None if is_for_good else LATE_TASKS_TTL_S)
        except ApiError as error:
            if error.err_code != MESSAGE_TTL_DISABLED:
                raise
            self._put(subject, document, revision)
