"""The JetStream of one account: its streams, and everything that arrives under `$JS.`.

Acknowledgements (the hot kind) and flow-control answers go straight to their consumer; requests to `$JS.API.` go to
`endpoints`. Making, keeping and deleting streams and consumers on disk is here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from jetspark.api import advisories
from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.error_codes import ErrorCode, make
from jetspark.api.stream_config import Storage, StreamConfig
from jetspark.broker import advisories as announcements
from jetspark.broker import mirroring, recovery
from jetspark.broker.ack_subject import AckSubject
from jetspark.broker.changes import ConsumerChanged, ConsumerMade, Removal, StreamChanged, StreamMade
from jetspark.broker.consumer import acks, position, pulls
from jetspark.broker.consumer.consumer import Consumer
from jetspark.broker.consumer.outcomes import ACK_NONE
from jetspark.broker.consumer.pull_queue import CONSUMER_DELETED
from jetspark.broker.endpoints import dispatch as endpoints
from jetspark.broker.feature_set import features_after_update, features_for
from jetspark.broker.followers import Followers
from jetspark.broker.offline import Offline, OfflineRegistry
from jetspark.broker.restores import Restores
from jetspark.broker.room import Room
from jetspark.broker.stream import Stream
from jetspark.protocol.subjects import collides
from jetspark.store import meta
from jetspark.store.consumer_log import ConsumerLog
from jetspark.store.consumer_state import ConsumerState
from jetspark.store.disk import DiskOp
from jetspark.store.recovery import new_stream_store

if TYPE_CHECKING:
    from jetspark.broker.account import Account
    from jetspark.broker.broker import Broker
    from jetspark.broker.session import Session


class JetStream:
    """Streams and consumers of one account."""

    def __init__(self, broker: Broker, account: Account) -> None:
        self.broker = broker
        self.account = account
        self.enabled: bool = broker.options.jetstream
        self.streams: dict[str, Stream] = {}
        self.offline = OfflineRegistry()
        # Consumers by `stream.consumer`, as it stands in an ack subject and in a pull request.
        self._by_key: dict[bytes, Consumer] = {}
        self.flow_replies: dict[bytes, Consumer] = {}
        self.restores = Restores(self)
        self.room = Room(self)
        self.followers = Followers()
        # Some stream keeps advisories: they must be made even when no client listens.
        self.captures_dollar: bool = False
        self._ack = AckSubject()
        # Requests answered, and those answered with an error.
        self.api_total: int = 0
        self.api_errors: int = 0
        # Account limits; -1 is none.
        self.max_memory: int = -1
        self.max_storage: int = -1
        self.max_streams: int = -1
        self.max_consumers: int = -1
        self.max_ack_pending: int = -1
        self.memory_max_stream_bytes: int = -1
        self.storage_max_stream_bytes: int = -1
        self.max_bytes_required: bool = False
        self._api_prefix: bytes = b"$JS.API."
        domain = broker.options.domain
        self._domain_prefix: bytes = f"$JS.{domain}.API.".encode() if domain else b""

    # -- what arrives ------------------------------------------------------------------------------------------------

    def receive(self, session: Session, subject: bytes, reply: bytes, header_size: i64, body: bytes) -> bool:
        """A publish to `$JS.…`; False when nobody here listens on that subject."""
        if not self.broker.options.jetstream:
            return False
        if subject.startswith(b"$JS.ACK."):
            return self._receive_ack(subject, reply, body[header_size:] if header_size > 0 else body)
        if subject.startswith(self._api_prefix):
            return self._receive_request(session, subject[8:], reply, header_size, body)
        if subject.startswith(b"$JS.FC."):
            consumer = self.flow_replies.get(subject)
            if consumer is not None:
                consumer.push.answered(subject)
            return consumer is not None
        if subject.startswith(b"$JS.SNAPSHOT."):
            return self.restores.receive(session, subject, reply, header_size, body)
        if self._domain_prefix and subject.startswith(self._domain_prefix):
            return self._receive_request(session, subject[len(self._domain_prefix) :], reply, header_size, body)
        return False

    def bucket_subject(self, subject: bytes) -> bytes:
        """What a publish to a bucket of the domain (`$JS.hub.API.$KV.…`) is a publish to; empty for anything else.

        nats-server has this for `$KV` and `$OBJ`, though object stores live under `$O`.
        """
        prefix = self._domain_prefix
        if not prefix or not subject.startswith(prefix) or not self.broker.options.jetstream:
            return b""
        inner = subject[len(prefix) :]
        return inner if inner.startswith((b"$KV.", b"$OBJ.")) else b""

    def _receive_ack(self, subject: bytes, reply: bytes, body: bytes) -> bool:
        token = self._ack
        if not token.read(subject):
            return False
        consumer = self._by_key.get(token.key)
        if consumer is None or consumer.ack_policy == ACK_NONE:
            return False
        stream_seq = token.stream_seq
        if stream_seq > 0 and token.consumer_seq >= 0:
            acks.receive(consumer, stream_seq, token.consumer_seq, token.deliveries, reply, body)
        return True

    def _receive_request(self, session: Session, verb: bytes, reply: bytes, header_size: i64, body: bytes) -> bool:
        if verb.startswith(b"CONSUMER.MSG.NEXT."):
            consumer = self._by_key.get(verb[18:])
            if consumer is None:
                return False
            if header_size == 0:
                pulls.request(consumer, reply, body)
            else:
                endpoints.pull(self, session, consumer, reply, body[:header_size], body[header_size:])
            return True
        return endpoints.receive(self, session, verb, reply, body[:header_size], body[header_size:])

    # -- streams -----------------------------------------------------------------------------------------------------

    def stream(self, name: str) -> Stream:
        found = self.streams.get(name)
        if found is None:
            offline = self.offline_stream(name)
            if offline is not None:
                raise make(ErrorCode.STREAM_OFFLINE_REASON, err=offline.reason)
            raise make(ErrorCode.STREAM_NOT_FOUND)
        return found

    def consumer(self, stream_name: str, name: str) -> Consumer:
        found = self.stream(stream_name).consumers.get(name)
        if found is None:
            offline = self.offline_consumer(stream_name, name)
            if offline is not None:
                raise make(ErrorCode.CONSUMER_OFFLINE_REASON, err=offline.reason)
            raise make(ErrorCode.CONSUMER_NOT_FOUND)
        return found

    # -- offline -----------------------------------------------------------------------------------------------------

    def offline_stream(self, name: str) -> Offline | None:
        """The stream of this name, if the disk has it and the server does not run it."""
        found = self.offline.get(self.stream_path(name))
        return None if found is None or found.is_stray else found

    def offline_consumer(self, stream_name: str, name: str) -> Offline | None:
        found = self.offline.get(self.consumer_path(stream_name, name))
        return None if found is None or found.is_stray else found

    def verify_stream_free(self, config: StreamConfig) -> None:
        """Refuse to make a stream where the disk has something that is not in use."""
        if config.name in self.streams:
            return
        found = self.offline.get(self.stream_path(config.name))
        if found is not None:
            raise make(ErrorCode.STREAM_OFFLINE_REASON, err=f"{found.reason}; {way_out(found)}")
        if self.offline.unlisted and config.storage != Storage.MEMORY:
            raise make(ErrorCode.STREAM_OFFLINE_REASON, err=self.offline.unlisted)

    def verify_consumer_free(self, stream: Stream, name: str) -> None:
        """The same for a consumer."""
        if not name or name in stream.consumers:
            return
        found = self.offline.get(self.consumer_path(stream.name, name))
        if found is not None:
            raise make(ErrorCode.CONSUMER_OFFLINE_REASON, err=f"{found.reason}; {way_out(found)}")

    def delete_offline(self, offline: Offline) -> None:
        """Somebody wants what is in the folder to go, whatever it is."""
        self.broker.remove_soon(Removal(offline.folder))
        self.forget_offline(offline.folder)

    def forget_offline(self, folder: str) -> None:
        """Nothing in a folder waits to be repaired any more; nor do streams keep messages for it."""
        self.offline.remove(folder)
        for stream in self.streams.values():
            if stream.has_offline_readers and not self.offline.has_readers_of(stream.name):
                stream.has_offline_readers = False
                stream.retention.interest_changed()

    # -- making and removing -----------------------------------------------------------------------------------------

    def create_stream(self, config: StreamConfig) -> Stream:
        """A stream with a checked configuration that does not exist yet."""
        mirroring.verify_origins(config, self.broker.options.domain)
        recovery.verify_writable(config)
        broker = self.broker
        path = self.stream_path(config.name)
        store = new_stream_store(broker.disk, path, recovery.store_options(broker, config))
        stream = Stream(broker, self.account, config, store, broker.now_ns)
        self.register(stream)
        if not stream.in_memory:
            # What is left of a stream of this name that could not be recovered must not mix with the new one.
            broker.remove_soon(Removal(path))
            broker.change_soon(StreamMade(self, stream, self.stream_ops(stream)))
        if announcements.is_heard(self.account, f"$JS.EVENT.ADVISORY.STREAM.CREATED.{stream.name}"):
            self.announce_stream(stream, "create")
        return stream

    def register(self, stream: Stream) -> None:
        """Let the stream capture its subjects."""
        self.streams[stream.name] = stream
        for subject in stream.config.subjects:
            self.account.interest.add_stream(subject.encode(), stream)
        self._note_dollar()
        stream.features = features_for(stream)
        self.followers.origin_registered(stream)

    def update_stream(self, stream: Stream, config: StreamConfig) -> None:
        """Change a stream to a checked configuration."""
        mirroring.verify_origins(config, self.broker.options.domain)
        recovery.verify_writable(config)
        before = stream.config
        self.configure_stream(stream, config)
        stream.retention.enforce_all()
        if not stream.in_memory:
            self.broker.change_soon(StreamChanged(self, stream, before, self.stream_ops(stream)))
        if announcements.is_heard(self.account, f"$JS.EVENT.ADVISORY.STREAM.UPDATED.{stream.name}"):
            self.announce_stream(stream, "modify")

    def configure_stream(self, stream: Stream, config: StreamConfig) -> None:
        """Let another configuration be in force; what is over its limits is still there."""
        interest = self.account.interest
        for subject in stream.config.subjects:
            interest.remove_stream(subject.encode())
        stream.configure(config)
        for subject in config.subjects:
            interest.add_stream(subject.encode(), stream)
        self._note_dollar()
        stream.features = features_after_update(stream)
        stream.store.reconfigure(recovery.store_options(self.broker, config))

    def delete_stream(self, stream: Stream) -> None:
        for consumer in list(stream.consumers.values()):
            self.delete_consumer(consumer)
        self.take_out(stream)
        if not stream.in_memory:
            self.broker.remove_soon(Removal(self.stream_path(stream.name)))
        self.forget_offline(self.stream_path(stream.name))
        if announcements.is_heard(self.account, f"$JS.EVENT.ADVISORY.STREAM.DELETED.{stream.name}"):
            self.announce_stream(stream, "delete")

    def withdraw(self, stream: Stream) -> None:
        """Something went wrong with the stream: it does not run, and nothing on disk is touched."""
        for consumer in list(stream.consumers.values()):
            try:
                self.detach(consumer)
            except Exception as error:  # noqa: BLE001 - the others and the stream itself must go
                self.broker.failed(f"Consumer {consumer.name} of stream {stream.name} is not wholly offline", error)
        self.take_out(stream)

    def set_stream_offline(self, stream: Stream, reason: str) -> None:
        """A stream that ran does not run any more."""
        if self.streams.get(stream.name) is not stream:
            return
        offline = Offline(self.stream_path(stream.name), stream.name, reason)
        offline.config = stream.config
        recovery.set_offline(self, offline)
        recovery.retire(self, stream)

    def set_consumer_offline(self, consumer: Consumer, reason: str) -> None:
        """The same for a consumer."""
        stream = consumer.stream
        if stream.deleted or stream.consumers.get(consumer.name) is not consumer:
            return
        offline = Offline(self.consumer_path(stream.name, consumer.name), consumer.name, reason)
        offline.stream_name = stream.name
        offline.consumer_config = consumer.config
        recovery.set_offline(self, offline)
        self.detach(consumer)

    def take_out(self, stream: Stream) -> None:
        """The stream is no part of the account any more."""
        if stream.features is not None:
            try:
                stream.features.stop()
            except Exception as error:  # noqa: BLE001 - the stream must go
                self.broker.failed(f"Features of stream {stream.name} are not wholly stopped", error)
        stream.deleted = True
        self.followers.origin_deleted(stream)
        for subject in stream.config.subjects:
            self.account.interest.remove_stream(subject.encode())
        del self.streams[stream.name]
        self._note_dollar()
        stream.store.closed()

    def announce_stream(self, stream: Stream, action: str) -> None:
        stamp = announcements.stamp(self.account)
        event = advisories.stream_action(stamp, stream=stream.name, action=action)
        announcements.announce(self.account, event)

    def _note_dollar(self) -> None:
        self.captures_dollar = False
        for stream in self.streams.values():
            for subject in stream.config.subjects:
                if collides(b"$JS.>", subject.encode()):
                    self.captures_dollar = True

    # -- consumers ---------------------------------------------------------------------------------------------------

    def create_consumer(self, stream: Stream, name: str, config: ConsumerConfig) -> Consumer:
        """A consumer with a checked configuration that does not exist yet."""
        recovery.verify_writable(config)
        broker = self.broker
        in_memory = stream.in_memory or config.mem_storage
        state = ConsumerState()
        log = ConsumerLog(self.consumer_path(stream.name, name), state, not in_memory)
        consumer = Consumer(stream, name, config, log, state, broker.now_ns)
        consumer.is_new = True
        try:
            position.place(consumer)
        except OSError:
            self.detach(consumer)
            raise
        self.attach(consumer)
        if not in_memory:
            broker.change_soon(ConsumerMade(self, consumer, self.consumer_ops(consumer)))
            log.snapshot(state)
            consumer.mark_dirty()
        consumer.announcer.action("create")
        if config.pause_until is not None:
            consumer.lifecycle.pause(config.pause_until.unix_ns)
        consumer.update_wants()
        # Whoever asked for it hears that it exists before the first message comes.
        broker.deliver_after_commit(consumer)
        return consumer

    def update_consumer(self, consumer: Consumer, config: ConsumerConfig) -> None:
        """Change a consumer to a checked configuration; it goes on where it stands."""
        recovery.verify_writable(config)
        before = consumer.config
        self.configure_consumer(consumer, config)
        self.save_consumer(consumer, before)
        consumer.deliver()

    def configure_consumer(self, consumer: Consumer, config: ConsumerConfig) -> None:
        """Let another configuration be in force."""
        had_filters = consumer.config.filters
        consumer.configure(config)
        if config.filters != had_filters:
            consumer.stream.sort_consumers()
            try:
                consumer.recount()
            except OSError as error:
                # The change is in force; what is pending is counted anew at the next start.
                consumer.stream.read_failed(error)
            consumer.stream.retention.interest_changed()
        consumer.look_at_acks()

    def attach(self, consumer: Consumer) -> None:
        consumer.stream.attach(consumer)
        self._by_key[f"{consumer.stream.name}.{consumer.name}".encode()] = consumer

    def delete_consumer(self, consumer: Consumer) -> None:
        if consumer.deleted:
            return
        stream = consumer.stream
        consumer.pulls.end_all(CONSUMER_DELETED)
        self.detach(consumer)
        if consumer.log.enabled:
            self.broker.remove_soon(Removal(self.consumer_path(stream.name, consumer.name)))
        consumer.announcer.action("delete")
        if not stream.deleted:
            stream.retention.interest_changed()

    def detach(self, consumer: Consumer) -> None:
        """The consumer takes part in nothing any more."""
        consumer.deleted = True
        consumer.wants_messages = False
        consumer.push.stop()
        consumer.lifecycle.stop()
        consumer.pinning.release()
        consumer.stream.detach(consumer)
        self._by_key.pop(f"{consumer.stream.name}.{consumer.name}".encode(), None)

    # -- disk --------------------------------------------------------------------------------------------------------

    def root(self) -> str:
        return f"{self.broker.options.store_dir}/jetstream/{meta.escape(self.account.name)}"

    def stream_path(self, name: str) -> str:
        return meta.stream_path(self.root(), name)

    def consumer_path(self, stream: str, name: str) -> str:
        return meta.consumer_path(self.root(), stream, name)

    def stream_ops(self, stream: Stream) -> list[DiskOp]:
        """What writes a stream's description."""
        return meta.write_stream(self.root(), stream.name, recovery.stream_document(stream))

    def consumer_ops(self, consumer: Consumer) -> list[DiskOp]:
        """What writes a consumer's description."""
        document = recovery.consumer_document(consumer)
        return meta.write_consumer(self.root(), consumer.stream.name, consumer.name, document)

    def save_consumer(self, consumer: Consumer, before: ConsumerConfig) -> None:
        """Have a consumer's new configuration written; the one before is in force again if the disk refuses."""
        if consumer.log.enabled:
            self.broker.change_soon(ConsumerChanged(self, consumer, before, self.consumer_ops(consumer)))

    def recover(self) -> None:
        if self.enabled and self.broker.options.store_dir:
            recovery.recover_account(self)

    def shutdown(self) -> None:
        for stream in self.streams.values():
            for consumer in stream.consumers.values():
                try:
                    consumer.pulls.end_for_shutdown()
                except Exception as error:  # noqa: BLE001 - the others' pulls must end, too
                    consumer.fail(error)

    # -- limits ------------------------------------------------------------------------------------------------------

    def used(self, in_memory: bool) -> int:
        return sum(stream.store.byte_count for stream in self.streams.values() if stream.in_memory == in_memory)

    def reserved(self, in_memory: bool) -> int:
        return sum(
            stream.config.max_bytes
            for stream in self.streams.values()
            if stream.in_memory == in_memory and stream.config.max_bytes > 0
        )


def way_out(offline: Offline) -> str:
    """What to do about a name that is taken."""
    if offline.is_stray:
        return "move what is in its folder away and start the server again"
    return "repair its files and start the server again, or delete it"
