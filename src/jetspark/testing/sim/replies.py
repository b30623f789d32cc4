"""What the reply to a request must say, and whether it did.

An expectation is made when the request arrives, from the models as they are then; a reply that waits for the disk must
still say that, or that the disk refused.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any

from jetspark.protocol.subjects import matches
from jetspark.testing.sim.consumer_model import ConsumerModel
from jetspark.testing.sim.model import Message, Outcome, StreamModel, header_value
from jetspark.testing.sim.violation import require
from jetspark.testing.sim.wire import Frame


@dataclass(slots=True)
class Expected:
    """What the reply to one request must be, and when it may leave."""

    # The number of commits that must be done before; 0 for a reply that need not wait.
    commit_count: int
    outcome: Outcome | None = None
    stream: StreamModel | None = None
    consumer: ConsumerModel | None = None
    ack_seq: int = 0
    resets: int = 0
    document: dict[str, Any] | None = None
    message: Message | None = None
    error: bool | None = None
    # Something goes: whatever else the disk refuses, that may be done.
    is_removal: bool = False
    # The answer is the message itself, not a document about it.
    is_direct: bool = False
    # The commit it waited for was refused: so is the request.
    failed: bool = False
    # It only reads, but waits if what it reads is not durable yet; then it may be refused too.
    may_fail: bool = False

    @property
    def is_silent_on_failure(self) -> bool:
        """Double acks and direct reads that the disk refused are answered by silence: the client asks again."""
        return self.is_direct or (self.consumer is not None and self.commit_count > 0)


def wanted_message(model: StreamModel, document: dict[str, Any]) -> Message | None:
    """The message a read asks for: by sequence, the last of a subject, or the next of one."""
    last_of = document.get("last_by_subj", "").encode()
    next_of = document.get("next_by_subj", "").encode()
    if last_of:
        found = [seq for seq in model.seqs if matches(last_of, model.messages[seq].subject)]
        return model.messages[found[-1]] if found else None
    if next_of:
        following = model.live_from(document.get("seq", 0))
        found = [seq for seq in following if matches(next_of, model.messages[seq].subject)]
        return model.messages[found[0]] if found else None
    return model.messages.get(document["seq"])


def check_reply(expected: Expected, frame: Frame, commit_count: int) -> dict[str, Any] | None:
    """The document of a reply that had to be as expected; None when the disk refused it."""
    if expected.is_direct:
        check_direct(expected, frame, commit_count)
        return None
    document: dict[str, Any] = json.loads(frame.payload) if frame.payload else {}
    is_error = "error" in document or bool(frame.status)
    if expected.failed:
        require(is_error, "what the disk refused is not acknowledged", frame)
        return None
    if expected.may_fail and is_error:
        return None
    if not is_error:
        is_time = commit_count >= expected.commit_count
        require(is_time, "a reply waits for its commit", expected.commit_count, commit_count, frame)
    return document


def check_direct(expected: Expected, frame: Frame, commit_count: int) -> None:
    """A message read directly, or the status that says there is none."""
    message = expected.message
    if message is None:
        require(frame.status == b"404", "there is no such message", frame)
        return
    require(commit_count >= expected.commit_count, "what is read is durable", expected, frame)
    seq = int(header_value(frame.header, b"Nats-Sequence") or b"0")
    same = seq == message.seq and frame.payload == message.payload
    require(same, "the message that was asked for", message, frame)


def check_publish(expected: Expected, document: dict[str, Any]) -> None:
    """The acknowledgement of a publish, or why it was refused."""
    outcome = expected.outcome
    assert outcome is not None
    if outcome.refusal:
        require("error" in document, "a publish that must be refused is", outcome, document)
        return
    require("error" not in document, "a publish that fits is acknowledged", outcome, document)
    require(document["seq"] == outcome.seq, "sequences rise by one", outcome, document)
    is_duplicate = document.get("duplicate", False)
    require(is_duplicate == outcome.is_duplicate, "a repeated id is a duplicate, nothing else", outcome, document)


def check_api(expected: Expected, document: dict[str, Any]) -> None:
    """Any other answer."""
    if expected.error is not None:
        require(("error" in document) == expected.error, "the request fails or not", expected, document)
    if expected.document is not None:
        shown = document.get("state", document)
        for key, value in expected.document.items():
            require(shown.get(key, 0) == value, "the answer is exact", key, value, document)
    if expected.message is not None:
        shown = document["message"]
        same = (
            shown["seq"] == expected.message.seq
            and base64.b64decode(shown.get("data", "")) == expected.message.payload
            and base64.b64decode(shown.get("hdrs", "")) == expected.message.header
        )
        require(same, "the message that was asked for", expected.message, shown)
