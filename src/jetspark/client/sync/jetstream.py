# Generated from client/aio by tools/generate_sync.py: change that file, then run the tool.
"""The way to JetStream: publish, and find or make streams and consumers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.stream_config import StreamConfig
from jetspark.client.api_errors import NoJetStreamError, StreamExistsError, StreamNotFoundError
from jetspark.client.configs import stream_config
from jetspark.client.durations import Seconds, seconds, timeout_seconds
from jetspark.client.errors import BadOptionError, NoMatchingStreamError, NoRespondersError
from jetspark.client.infos import AccountInfo, StreamInfo, read_answer
from jetspark.client.names import check_name
from jetspark.client.sync import subscribing
from jetspark.client.sync.backup import BackupProgress, restore
from jetspark.client.sync.batch import PublishBatch
from jetspark.client.sync.fast_batch import FastBatch
from jetspark.client.sync.publishing import Publisher

if TYPE_CHECKING:
    from jetspark.client.sync.connection import Connection
    from jetspark.client.sync.consumer import Consumer
    from jetspark.client.sync.key_value import KeyValue
    from jetspark.client.sync.msg import Msg
    from jetspark.client.sync.object_store import ObjectStore
    from jetspark.client.sync.ordered import OrderedConsumer
    from jetspark.client.sync.pull_subscription import PullSubscription
    from jetspark.client.sync.push_subscription import PushSubscription
    from jetspark.client.sync.stream import Stream


class JetStream(Publisher):
    """The JetStream API of one account: streams, consumers, key-value buckets and object stores."""

    def __init__(
        self, connection: Connection, *, domain: str, api_prefix: str, timeout: Seconds | None, publish_window: int
    ) -> None:
        options = connection._link.options
        if publish_window < 0:
            raise BadOptionError("publish_window must be at least 1")
        super().__init__(
            connection._link,
            publish_window or options.publish_window,
            timeout_seconds(timeout, options.publish_timeout),
        )
        if domain and api_prefix:
            raise BadOptionError("give a domain or an api_prefix, not both")
        self.connection = connection
        self.api_prefix = f"$JS.{check_name('domain', domain)}.API" if domain else (api_prefix or "$JS.API").rstrip(".")
        self._request_timeout_s = timeout_seconds(timeout, options.request_timeout)
        # What goes before the subjects of key-value buckets, for a value to reach the same JetStream as the requests
        # do: without it, it is stored by whoever is nearest and has a bucket of that name.
        self._bucket_prefix = "" if self.api_prefix == "$JS.API" else f"{self.api_prefix}."

    def api_request(self, endpoint: str, document: Any = None, *, timeout: Seconds | None = None) -> dict[str, Any]:
        """Send a request to the JetStream API, for what has no method here. Raises ApiError when the answer is an
        error.
        """
        body = b"" if document is None else msgspec.json.encode(document)
        subject = f"{self.api_prefix}.{endpoint}"
        timeout_s = self._request_timeout_s if timeout is None else seconds(timeout)
        try:
            reply = self._link.request(subject, b"", body, timeout_s)
        except NoRespondersError:
            raise NoJetStreamError(subject) from None
        return read_answer(reply.data)

    def api_list(self, endpoint: str, key: str, document: dict[str, Any]) -> list[Any]:
        """Send a list request to the JetStream API, page by page."""
        found: list[Any] = []
        while True:
            answer = self.api_request(endpoint, {**document, "offset": len(found)})
            page = answer.get(key) or []
            found.extend(page)
            if not page or len(found) >= int(answer.get("total", 0)):
                return found

    def account_info(self) -> AccountInfo:
        """How much of JetStream the account uses, and its limits."""
        return AccountInfo.read(self.api_request("INFO"))

    # Streams.

    def create_stream(self, config: StreamConfig | str | None = None, **settings: Any) -> Stream:
        """Create a stream.

            orders = jetstream.create_stream("ORDERS", subjects=["orders.>"], max_age=7 * 86400)

        If it exists with the same settings, nothing happens; with other settings it is StreamExistsError. The settings
        have the names of the JetStream API; durations are seconds or timedelta. BadOptionError: an unknown setting or a
        wrong value. SubjectOverlapError: another stream has one of the subjects.
        """
        name = config if isinstance(config, str) else ""
        wanted = stream_config(None if isinstance(config, str) else config, name, settings)
        answer = self.api_request(f"STREAM.CREATE.{check_name('stream', wanted.name)}", wanted.encode())
        return self._stream(StreamInfo.read(answer))

    def update_stream(self, config: StreamConfig | str | None = None, **settings: Any) -> Stream:
        """Change settings of a stream. With a name and keywords, the other settings stay as they are."""
        if isinstance(config, str):
            base = ((self.stream(config)).info()).config
            wanted = stream_config(base, config, settings)
        else:
            wanted = stream_config(config, "", settings)
        answer = self.api_request(f"STREAM.UPDATE.{check_name('stream', wanted.name)}", wanted.encode())
        return self._stream(StreamInfo.read(answer))

    def create_or_update_stream(self, config: StreamConfig | str | None = None, **settings: Any) -> Stream:
        """Create a stream, or change the existing one to these settings."""
        try:
            return self.create_stream(config, **settings)
        except StreamExistsError:
            return self.update_stream(config, **settings)

    def stream(self, name: str) -> Stream:
        """An existing stream; StreamNotFoundError if there is none."""
        answer = self.api_request(f"STREAM.INFO.{check_name('stream', name)}")
        return self._stream(StreamInfo.read(answer))

    def stream_info(self, name: str) -> StreamInfo:
        """A stream's settings and state."""
        return (self.stream(name)).cached_info

    def delete_stream(self, name: str) -> None:
        """Delete a stream with all its messages and consumers."""
        self.api_request(f"STREAM.DELETE.{check_name('stream', name)}")

    def stream_names(self, subject: str = "") -> list[str]:
        """The names of all streams, or of those that take a subject."""
        return self.api_list("STREAM.NAMES", "streams", {"subject": subject} if subject else {})

    def streams(self, subject: str = "") -> list[StreamInfo]:
        """All streams, or those that take a subject."""
        found = self.api_list("STREAM.LIST", "streams", {"subject": subject} if subject else {})
        return [StreamInfo.read(one) for one in found]

    def stream_name_by_subject(self, subject: str) -> str:
        """The name of the stream that takes a subject; NoMatchingStreamError if none or several do."""
        names = self.stream_names(subject)
        if len(names) != 1:
            raise NoMatchingStreamError(
                f"{subject} belongs to {len(names)} streams: {', '.join(sorted(names))}"
                if names
                else f"no stream has {subject}"
            )
        return names[0]

    def _stream(self, info: StreamInfo) -> Stream:
        from jetspark.client.sync.stream import Stream

        return Stream(self, info)

    def stream_handle(self, name: str) -> Stream:
        """A stream object for a name, without asking the server."""
        from jetspark.client.sync.stream import Stream

        return Stream(self, StreamInfo.read({"config": {"name": check_name("stream", name)}, "state": {}}))

    def restore_stream(
        self,
        folder: str | Path,
        *,
        name: str = "",
        progress: Callable[[BackupProgress], Any] | None = None,
        timeout: Seconds = 30.0,
    ) -> Stream:
        """Create a stream from a folder written by `Stream.backup` or by the `nats` command."""
        return self._stream(restore(self, folder, name, progress, timeout))

    def batch(self) -> PublishBatch:
        """A batch of messages that is stored as a whole or not at all; see `PublishBatch`."""
        return PublishBatch(self)

    def fast_batch(
        self,
        *,
        flow: int = 100,
        outstanding_acks: int = 2,
        gaps_are_fine: bool = False,
        timeout: Seconds | None = None,
    ) -> FastBatch:
        """A fast batch: many messages, of which the server acknowledges about every `flow`-th; see `FastBatch`.

        A lost or refused message ends the batch, so that the stored messages have no gap. With `gaps_are_fine` the
        batch continues without it and counts it.
        """
        return FastBatch(self, flow, outstanding_acks, gaps_are_fine, timeout)

    # Buckets.

    def create_key_value(self, bucket: str, **settings: Any) -> KeyValue:
        """Create a key-value bucket.

        Settings: `history`, `ttl`, `max_value_size`, `limit_marker_ttl`, and all settings of a stream.
        """
        from jetspark.client.sync.key_value import KeyValue, bucket_config

        return KeyValue(self, bucket, self.create_stream(bucket_config(bucket, dict(settings))))

    def key_value(self, bucket: str) -> KeyValue:
        """An existing bucket; BucketNotFoundError if there is none."""
        from jetspark.client.sync.key_value import open_bucket

        return open_bucket(self, bucket)

    def delete_key_value(self, bucket: str) -> None:
        """Delete a bucket with all its keys; BucketNotFoundError if there is none."""
        from jetspark.client.sync.key_value import check_bucket, named_bucket

        with named_bucket(bucket):
            self.delete_stream(f"KV_{check_bucket(bucket)}")

    def key_value_names(self) -> list[str]:
        """The names of all buckets."""
        # Not asked for by subject: a bucket that mirrors another has none.
        return [name[3:] for name in self.stream_names() if name.startswith("KV_")]

    def create_object_store(self, bucket: str, **settings: Any) -> ObjectStore:
        """Create an object store. Settings: `ttl`, and all settings of a stream."""
        from jetspark.client.sync.object_store import ObjectStore, store_config

        return ObjectStore(self, bucket, self.create_stream(store_config(bucket, dict(settings))))

    def object_store(self, bucket: str) -> ObjectStore:
        """An existing object store; BucketNotFoundError if there is none."""
        from jetspark.client.sync.object_store import open_store

        return open_store(self, bucket)

    def delete_object_store(self, bucket: str) -> None:
        """Delete an object store with all its objects; BucketNotFoundError if there is none."""
        from jetspark.client.sync.key_value import check_bucket, named_bucket

        with named_bucket(bucket):
            self.delete_stream(f"OBJ_{check_bucket(bucket)}")

    # Consumers, by the name of their stream.

    def consumer(self, stream: str, name: str) -> Consumer:
        """An existing consumer; ConsumerNotFoundError if there is none."""
        return self.stream_handle(stream).consumer(name)

    def create_consumer(self, stream: str, config: ConsumerConfig | str | None = None, **settings: Any) -> Consumer:
        """Create a consumer; see `Stream.create_consumer`."""
        return self.stream_handle(stream).create_consumer(config, **settings)

    def update_consumer(self, stream: str, config: ConsumerConfig | str | None = None, **settings: Any) -> Consumer:
        """Change a consumer; see `Stream.update_consumer`."""
        return self.stream_handle(stream).update_consumer(config, **settings)

    def create_or_update_consumer(
        self, stream: str, config: ConsumerConfig | str | None = None, **settings: Any
    ) -> Consumer:
        """Create a consumer, or change the existing one to these settings."""
        return self.stream_handle(stream).create_or_update_consumer(config, **settings)

    def delete_consumer(self, stream: str, name: str) -> None:
        """Delete a consumer."""
        self.stream_handle(stream).delete_consumer(name)

    def ordered_consumer(self, stream: str, **options: Any) -> OrderedConsumer:
        """Read a stream in order without gaps; see `Stream.ordered_consumer`."""
        return self.stream_handle(stream).ordered_consumer(**options)

    # The subscribe workflow of the first specification.

    def pull_subscribe(
        self,
        subject: str = "",
        durable: str = "",
        *,
        stream: str = "",
        consumer: str = "",
        config: ConsumerConfig | None = None,
        delete_on_close: bool | None = None,
        **settings: Any,
    ) -> PullSubscription:
        """Find or create a pull consumer for a subject, and fetch from it.

        `consumer` uses an existing one. A consumer that is created here is removed with the subscription.
        """
        return subscribing.pull_subscribe(self, subject, stream, consumer, durable, config, delete_on_close, settings)

    def subscribe(
        self,
        subject: str = "",
        *,
        queue: str = "",
        callback: Callable[[Msg], Any] | None = None,
        durable: str = "",
        stream: str = "",
        consumer: str = "",
        config: ConsumerConfig | None = None,
        ordered: bool = False,
        heartbeat_alarm: float = 3.0,
        delete_on_close: bool | None = None,
        **settings: Any,
    ) -> PushSubscription:
        """Find or create a push consumer for a subject, and receive from it.

        With `ordered` the messages come in the order of the stream and without gaps, also after a lost connection or a
        restart of the server. There are no acknowledgements then, and no queue, durable or consumer may be given.

        `consumer` uses an existing one. A queue without a durable name uses its own name for that. If nothing arrives
        for `heartbeat_alarm` times the idle heartbeat, `on_error` is called. A consumer that is created here is removed
        with the subscription, unless `delete_on_close` says otherwise or it belongs to a queue, whose other members may
        use it.
        """
        return subscribing.subscribe(
            self,
            subject,
            stream,
            consumer,
            durable,
            queue,
            callback,
            config,
            heartbeat_alarm,
            delete_on_close,
            ordered,
            settings,
        )

    def stream_exists(self, name: str) -> bool:
        """Whether there is a stream of that name."""
        try:
            self.stream(name)
        except StreamNotFoundError:
            return False
        return True
