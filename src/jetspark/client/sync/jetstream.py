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
    """Streams and consumers of one account, reached through a connection."""

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
        """Ask the JetStream API, for what has no method here; raises ApiError when it answers with one."""
        body = b"" if document is None else msgspec.json.encode(document)
        subject = f"{self.api_prefix}.{endpoint}"
        timeout_s = self._request_timeout_s if timeout is None else seconds(timeout)
        try:
            reply = self._link.request(subject, b"", body, timeout_s)
        except NoRespondersError:
            raise NoJetStreamError(subject) from None
        return read_answer(reply.data)

    def api_list(self, endpoint: str, key: str, document: dict[str, Any]) -> list[Any]:
        """Ask for a list until it is complete."""
        found: list[Any] = []
        while True:
            answer = self.api_request(endpoint, {**document, "offset": len(found)})
            page = answer.get(key) or []
            found.extend(page)
            if not page or len(found) >= int(answer.get("total", 0)):
                return found

    def account_info(self) -> AccountInfo:
        """What the account uses of JetStream and may use."""
        return AccountInfo.read(self.api_request("INFO"))

    # Streams.

    def create_stream(self, config: StreamConfig | str | None = None, **settings: Any) -> Stream:
        """Make a stream. The same settings again are no error; other ones under the same name are StreamExistsError.

            orders = jetstream.create_stream("ORDERS", subjects=["orders.>"], max_age=7 * 86400)

        Settings have JetStream's own names; durations are seconds or timedelta. A name that is no setting, or a value
        that does not fit, is BadOptionError; a subject that another stream has is SubjectOverlapError.
        """
        name = config if isinstance(config, str) else ""
        wanted = stream_config(None if isinstance(config, str) else config, name, settings)
        answer = self.api_request(f"STREAM.CREATE.{check_name('stream', wanted.name)}", wanted.encode())
        return self._stream(StreamInfo.read(answer))

    def update_stream(self, config: StreamConfig | str | None = None, **settings: Any) -> Stream:
        """Change a stream's settings. With a name and keywords, what is not named stays as it is."""
        if isinstance(config, str):
            base = ((self.stream(config)).info()).config
            wanted = stream_config(base, config, settings)
        else:
            wanted = stream_config(config, "", settings)
        answer = self.api_request(f"STREAM.UPDATE.{check_name('stream', wanted.name)}", wanted.encode())
        return self._stream(StreamInfo.read(answer))

    def create_or_update_stream(self, config: StreamConfig | str | None = None, **settings: Any) -> Stream:
        """Make a stream, or give the one there is these settings."""
        try:
            return self.create_stream(config, **settings)
        except StreamExistsError:
            return self.update_stream(config, **settings)

    def stream(self, name: str) -> Stream:
        """A stream that exists; StreamNotFoundError when it does not."""
        answer = self.api_request(f"STREAM.INFO.{check_name('stream', name)}")
        return self._stream(StreamInfo.read(answer))

    def stream_info(self, name: str) -> StreamInfo:
        """A stream's settings and state."""
        return (self.stream(name)).cached_info

    def delete_stream(self, name: str) -> None:
        """Remove a stream with everything in it."""
        self.api_request(f"STREAM.DELETE.{check_name('stream', name)}")

    def stream_names(self, subject: str = "") -> list[str]:
        """The names of all streams, or of those that have a subject."""
        return self.api_list("STREAM.NAMES", "streams", {"subject": subject} if subject else {})

    def streams(self, subject: str = "") -> list[StreamInfo]:
        """All streams, or those that have a subject."""
        found = self.api_list("STREAM.LIST", "streams", {"subject": subject} if subject else {})
        return [StreamInfo.read(one) for one in found]

    def stream_name_by_subject(self, subject: str) -> str:
        """The one stream that has a subject; NoMatchingStreamError when none or several do."""
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
        """A stream by its name, without asking the server."""
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
        """Make a stream again from a folder written by `Stream.backup` (or by the `nats` command)."""
        return self._stream(restore(self, folder, name, progress, timeout))

    def batch(self) -> PublishBatch:
        """Several messages stored together or not at all; see `PublishBatch`."""
        return PublishBatch(self)

    def fast_batch(
        self,
        *,
        flow: int = 100,
        outstanding_acks: int = 2,
        gaps_are_fine: bool = False,
        timeout: Seconds | None = None,
    ) -> FastBatch:
        """Many messages in a row, acknowledged together every `flow` messages or so; see `FastBatch`.

        A lost or refused message ends the batch, so that what is stored is without gaps; with `gaps_are_fine` it goes
        on without it and counts it.
        """
        return FastBatch(self, flow, outstanding_acks, gaps_are_fine, timeout)

    # Buckets.

    def create_key_value(self, bucket: str, **settings: Any) -> KeyValue:
        """Make a key-value bucket.

        Settings: `history`, `ttl`, `max_value_size`, `limit_marker_ttl`, and any of a stream.
        """
        from jetspark.client.sync.key_value import KeyValue, bucket_config

        return KeyValue(self, bucket, self.create_stream(bucket_config(bucket, dict(settings))))

    def key_value(self, bucket: str) -> KeyValue:
        """A bucket that exists; BucketNotFoundError when it does not."""
        from jetspark.client.sync.key_value import open_bucket

        return open_bucket(self, bucket)

    def delete_key_value(self, bucket: str) -> None:
        """Remove a bucket with everything in it; BucketNotFoundError when there is none."""
        from jetspark.client.sync.key_value import check_bucket, named_bucket

        with named_bucket(bucket):
            self.delete_stream(f"KV_{check_bucket(bucket)}")

    def key_value_names(self) -> list[str]:
        """The names of all buckets."""
        # Not asked for by subject: a bucket that mirrors another has none.
        return [name[3:] for name in self.stream_names() if name.startswith("KV_")]

    def create_object_store(self, bucket: str, **settings: Any) -> ObjectStore:
        """Make an object store. Settings: `ttl`, and any of a stream."""
        from jetspark.client.sync.object_store import ObjectStore, store_config

        return ObjectStore(self, bucket, self.create_stream(store_config(bucket, dict(settings))))

    def object_store(self, bucket: str) -> ObjectStore:
        """An object store that exists; BucketNotFoundError when it does not."""
        from jetspark.client.sync.object_store import open_store

        return open_store(self, bucket)

    def delete_object_store(self, bucket: str) -> None:
        """Remove an object store with everything in it; BucketNotFoundError when there is none."""
        from jetspark.client.sync.key_value import check_bucket, named_bucket

        with named_bucket(bucket):
            self.delete_stream(f"OBJ_{check_bucket(bucket)}")

    # Consumers, by the name of their stream.

    def consumer(self, stream: str, name: str) -> Consumer:
        """A consumer that exists; ConsumerNotFoundError when it does not."""
        return self.stream_handle(stream).consumer(name)

    def create_consumer(self, stream: str, config: ConsumerConfig | str | None = None, **settings: Any) -> Consumer:
        """Make a consumer; see `Stream.create_consumer`."""
        return self.stream_handle(stream).create_consumer(config, **settings)

    def update_consumer(self, stream: str, config: ConsumerConfig | str | None = None, **settings: Any) -> Consumer:
        """Change a consumer; see `Stream.update_consumer`."""
        return self.stream_handle(stream).update_consumer(config, **settings)

    def create_or_update_consumer(
        self, stream: str, config: ConsumerConfig | str | None = None, **settings: Any
    ) -> Consumer:
        """Make a consumer, or give the one there is these settings."""
        return self.stream_handle(stream).create_or_update_consumer(config, **settings)

    def delete_consumer(self, stream: str, name: str) -> None:
        """Remove a consumer."""
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
        """Find or make a pull consumer for a subject and fetch from it.

        `consumer` binds to one that exists. One that is made here is removed with the subscription.
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
        """Find or make a push consumer for a subject and receive from it.

        With `ordered` the messages come in the stream's order and without gaps, whatever happens to the server or the
        connection; acks do nothing then, and no queue, durable or consumer can be named.

        `consumer` binds to one that exists; a queue without a name makes its own name the durable's. Nothing heard for
        `heartbeat_alarm` times the idle heartbeat is told to the error hook. A consumer made here is removed with the
        subscription (not for a queue, whose other members may use it), unless `delete_on_close` says otherwise.
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
        """Is there a stream of that name?"""
        try:
            self.stream(name)
        except StreamNotFoundError:
            return False
        return True
