"""Streams on their way in and out: who listens under `$JS.SNAPSHOT.`.

Decided here: which upload or download a message there belongs to, and how an upload begins, goes on, ends and is given
up. What the uploaded bytes mean is read in `transfer`; how a stream is put together from them in `rebuild`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from jetspark.api import advisories, responses
from jetspark.api.error_codes import ApiError, ErrorCode, make
from jetspark.api.stream_checks import check_new_stream
from jetspark.api.stream_config import StreamConfig
from jetspark.api.stream_state import StreamState
from jetspark.broker import advisories as announcements
from jetspark.broker.endpoints.contexts import stream_context
from jetspark.broker.info import client_document, stream_fields, stream_state
from jetspark.broker.rebuild import STORE_FAILED, Rebuild
from jetspark.broker.timers import Timer, TimerOwner
from jetspark.broker.transfer.s2_block import DamagedArchive

if TYPE_CHECKING:
    from jetspark.broker.jetstream import JetStream
    from jetspark.broker.session import Session
    from jetspark.broker.snapshots import Snapshot

TIMER_UPLOAD: Final = 1

SILENCE_MAX_NS: Final = 5_000_000_000
SOON_NS: Final = 2_000_000

ACK_PREFIX: Final = b"$JS.SNAPSHOT.ACK."
RESTORE_PREFIX: Final = b"$JS.SNAPSHOT.RESTORE."


def checked_config(jetstream: JetStream, config: StreamConfig) -> StreamConfig:
    """The configuration of a stream that comes back, which may have been sealed while it lived."""
    context = stream_context(jetstream)
    others = {name: other for name, other in context.streams.items() if name != config.name}
    checked = check_new_stream(
        replace(config, sealed=False), replace(context, streams=others), subject_name=config.name
    )
    return replace(checked, sealed=config.sealed)


class Restores:
    """Snapshots and restores under way in one account."""

    def __init__(self, jetstream: JetStream) -> None:
        self._jetstream = jetstream
        self._snapshots: dict[str, Snapshot] = {}
        self._uploads: dict[bytes, Upload] = {}

    def is_restoring(self, name: str) -> bool:
        """Is a stream of this name on its way in?"""
        for upload in self._uploads.values():
            if upload.name == name:
                return True
        return False

    def receive(self, session: Session, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> bool:
        """A message under `$JS.SNAPSHOT.`; False when no transfer of that name is under way."""
        if subject.startswith(ACK_PREFIX):
            # <stream>.<id>.<size>.<index>
            snapshot = self._snapshots.get(b".".join(subject.split(b".")[3:5]).decode("utf-8", "replace"))
            if snapshot is None:
                return False
            snapshot.confirmed()
            return True
        upload = self._uploads.get(subject)
        if upload is None:
            return False
        upload.receive(reply, body[header_size:] if header_size > 0 else body)
        return True

    def add_snapshot(self, snapshot: Snapshot) -> None:
        self._snapshots[snapshot.key] = snapshot

    def forget_snapshot(self, snapshot: Snapshot) -> None:
        self._snapshots.pop(snapshot.key, None)

    def begin(self, session: Session, config: StreamConfig, state: StreamState) -> bytes:
        """Get ready for an upload; returns the subject it goes to."""
        upload = Upload(self, self._jetstream, session, config, state)
        self._uploads[upload.subject] = upload
        return upload.subject

    def forget_upload(self, upload: Upload) -> None:
        self._uploads.pop(upload.subject, None)


class Upload(TimerOwner):
    """One stream on its way in."""

    def __init__(
        self, restores: Restores, jetstream: JetStream, session: Session, config: StreamConfig, state: StreamState
    ) -> None:
        broker = jetstream.broker
        self._restores = restores
        self._jetstream = jetstream
        self._config = config
        self._client = client_document(session)
        self.name: str = config.name
        self.subject: bytes = RESTORE_PREFIX + f"{config.name}.{broker.nuid.next()}".encode()
        self._rebuild = Rebuild(jetstream, config, state)
        self._started_ns: i64 = broker.now_ns
        self._heard_ns: i64 = broker.now_ns
        self._received_bytes: int = 0
        # Why it will fail; said at the end, as nats-server does.
        self._problem: str = ""
        # Where the answer goes once everything has arrived.
        self._reply: bytes = b""
        self._timer = Timer(self, TIMER_UPLOAD)
        broker.timers.arm(self._timer, broker.now_ns + SILENCE_MAX_NS)
        account = jetstream.account
        if announcements.is_heard(account, f"$JS.EVENT.ADVISORY.STREAM.RESTORE_CREATE.{self.name}"):
            stamp = announcements.stamp(account)
            announcements.announce(account, advisories.restore_create(stamp, stream=self.name, client=self._client))

    def receive(self, reply: bytes, chunk: bytes) -> None:
        """One chunk; an empty one is the end."""
        if self._reply:
            return
        broker = self._jetstream.broker
        self._heard_ns = broker.now_ns
        if not reply:
            # Nobody could be told of failure: given up, as nats-server does.
            self._give_up()
            return
        if not chunk:
            self._reply = reply
            if not self._problem:
                self._problem = self._rebuild.close()
            self._finish_when_durable()
            return
        self._received_bytes += len(chunk)
        limit = broker.options.max_storage
        if 0 <= limit < self._jetstream.used(False) + self._received_bytes:
            self._fail(reply, make(ErrorCode.INSUFFICIENT_RESOURCES))
            return
        if not self._problem:
            try:
                self._rebuild.feed(chunk)
            except (DamagedArchive, ApiError) as error:
                self._problem = str(error)
        self._jetstream.account.publish_internal(reply, b"", 0, b"")

    def on_timer(self, kind: int, now_ns: i64) -> None:
        if self._reply:
            self._finish_when_durable()
        elif now_ns - self._heard_ns >= SILENCE_MAX_NS:
            self._give_up()
        else:
            self._jetstream.broker.timers.arm(self._timer, self._heard_ns + SILENCE_MAX_NS)

    def timer_failed(self, error: Exception) -> None:
        self._jetstream.broker.failed(f"Restore of stream {self.name} is given up", error)
        self._restores.forget_upload(self)

    # -- the end -----------------------------------------------------------------------------------------------------

    def _finish_when_durable(self) -> None:
        """The stream is there only when all of it is: its messages first, then the note that it exists."""
        broker = self._jetstream.broker
        if self._rebuild.has_failed():
            self._problem = STORE_FAILED
        if self._problem:
            self._fail(self._reply, make(ErrorCode.STREAM_RESTORE, err=self._problem))
        elif not self._rebuild.is_durable():
            broker.timers.arm(self._timer, broker.now_ns + SOON_NS)
        else:
            self._finish()

    def _finish(self) -> None:
        jetstream = self._jetstream
        try:
            # Another stream may have taken its subjects meanwhile.
            checked_config(jetstream, self._config)
            self._rebuild.adopt()
        except ApiError as error:
            self._fail(self._reply, make(ErrorCode.STREAM_RESTORE, err=error.description))
            return
        except DamagedArchive as error:
            self._fail(self._reply, make(ErrorCode.STREAM_RESTORE, err=error))
            return
        stream = self._rebuild.stream
        if announcements.is_heard(jetstream.account, f"$JS.EVENT.ADVISORY.STREAM.CREATED.{stream.name}"):
            jetstream.announce_stream(stream, "create")
        self._end()
        fields = stream_fields(stream, stream_state(stream), with_domain=False)
        body = responses.encode_json(responses.stream_created(fields, did_create=False))
        if stream.in_memory:
            jetstream.account.publish_internal(self._reply, b"", 0, body)
        else:
            jetstream.account.hold_reply(self._reply, 0, body)

    def _fail(self, reply: bytes, error: ApiError) -> None:
        body = responses.encode_json(responses.error(responses.STREAM_CREATE, error))
        self._jetstream.account.publish_internal(reply, b"", 0, body)
        self._give_up()

    def _give_up(self) -> None:
        self._rebuild.discard()
        self._end()

    def _end(self) -> None:
        broker = self._jetstream.broker
        account = self._jetstream.account
        broker.timers.cancel(self._timer)
        self._restores.forget_upload(self)
        if announcements.is_heard(account, f"$JS.EVENT.ADVISORY.STREAM.RESTORE_COMPLETE.{self.name}"):
            event = advisories.restore_complete(
                announcements.stamp(account),
                stream=self.name,
                start_ns=self._started_ns,
                end_ns=broker.now_ns,
                received_bytes=self._received_bytes,
                client=self._client,
            )
            announcements.announce(account, event)
