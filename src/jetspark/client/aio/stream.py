"""A stream: its settings, its messages, its consumers."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jetspark.api.consumer_config import ConsumerConfig
from jetspark.api.stream_config import StreamConfig
from jetspark.api.timestamps import parse_time
from jetspark.client.aio.arrow import BATCH_ROWS
from jetspark.client.aio.backup import CHUNK_BYTES, BackupProgress, backup
from jetspark.client.api_errors import MessageNotFoundError
from jetspark.client.configs import consumer_config, stream_config, wire_time
from jetspark.client.durations import Seconds
from jetspark.client.errors import BadOptionError, NoRespondersError
from jetspark.client.headers import Headers
from jetspark.client.infos import ConsumerInfo, StreamInfo
from jetspark.client.names import check_name, server_is_older
from jetspark.protocol.subjects import has_wildcard

if TYPE_CHECKING:
    from jetspark.client.aio.consumer import Consumer
    from jetspark.client.aio.jetstream import JetStream
    from jetspark.client.aio.msg import Msg
    from jetspark.client.aio.ordered import OrderedConsumer
    from jetspark.client.aio.scanning import ArrowScan


@dataclass(frozen=True, slots=True)
class StoredMsg:
    """A message as it is stored in a stream."""

    subject: str
    """The subject."""
    seq: int
    """The sequence in the stream."""
    data: bytes
    """The payload."""
    headers: Headers
    """The headers."""
    timestamp_ns: int
    """When it was stored, in nanoseconds since 1970."""


class Stream:
    """One stream. Its settings are those of the last `info`."""

    def __init__(self, jetstream: JetStream, info: StreamInfo) -> None:
        self.jetstream = jetstream
        self.cached_info = info

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.cached_info.config.name

    async def info(self, *, subjects_filter: str = "", deleted_details: bool = False) -> StreamInfo:
        """Settings and state, fresh from the server: `(await stream.info()).state.messages`.

        `subjects_filter` (`">"` for all) adds the number of messages of each subject, as `state.subjects`.
        `deleted_details` adds the deleted sequences. StreamNotFoundError if the stream is gone.
        """
        document: dict[str, Any] = {}
        if subjects_filter:
            document["subjects_filter"] = subjects_filter
        if deleted_details:
            document["deleted_details"] = True
        answer = await self.jetstream.api_request(f"STREAM.INFO.{self.name}", document or None)
        if subjects_filter:
            await self._more_subjects(answer, document)
        info = StreamInfo.read(answer)
        self.cached_info = info
        return info

    async def _more_subjects(self, answer: dict[str, Any], document: dict[str, Any]) -> None:
        """The server gives at most 100,000 subjects at a time."""
        subjects = answer["state"].get("subjects") or {}
        while subjects and len(subjects) < int(answer.get("total", 0)):
            page = await self.jetstream.api_request(f"STREAM.INFO.{self.name}", {**document, "offset": len(subjects)})
            more = page["state"].get("subjects") or {}
            if not more:
                break
            subjects.update(more)
        answer["state"]["subjects"] = subjects

    async def update(self, config: StreamConfig | None = None, **settings: Any) -> StreamInfo:
        """Change settings. With keywords only, the other settings stay as they are."""
        base = config if config is not None else (await self.info()).config
        wanted = stream_config(base, self.name, settings)
        answer = await self.jetstream.api_request(f"STREAM.UPDATE.{self.name}", wanted.encode())
        self.cached_info = StreamInfo.read(answer)
        return self.cached_info

    async def delete(self) -> None:
        """Delete the stream with all its messages and consumers."""
        await self.jetstream.delete_stream(self.name)

    async def purge(self, *, subject: str = "", seq: int = 0, keep: int = 0) -> int:
        """Remove messages: all, those of a subject, those before `seq`, or all but the newest `keep`.

        Returns how many were removed.
        """
        if seq and keep:
            raise BadOptionError("give seq or keep, not both")
        document: dict[str, Any] = {}
        if subject:
            document["filter"] = subject
        if seq:
            document["seq"] = seq
        if keep:
            document["keep"] = keep
        answer = await self.jetstream.api_request(f"STREAM.PURGE.{self.name}", document or None)
        return int(answer.get("purged", 0))

    # Messages.

    async def get_msg(
        self,
        seq: int = 0,
        *,
        last_by_subject: str = "",
        next_by_subject: str = "",
        start_time: datetime | None = None,
        direct: bool | None = None,
    ) -> StoredMsg:
        """One message: by its sequence, the last of a subject, or the next of a subject from `seq` on.

        MessageNotFoundError if there is none. If the stream has `allow_direct` (or with `direct`), any replica may
        answer; if none does, the leader is asked.
        """
        document: dict[str, Any] = {}
        if seq:
            document["seq"] = seq
        if last_by_subject:
            document["last_by_subj"] = last_by_subject
        if next_by_subject:
            document["next_by_subj"] = next_by_subject
        if start_time is not None:
            document["start_time"] = str(wire_time(start_time))
        if not document:
            raise BadOptionError("say which message: seq, last_by_subject, next_by_subject or start_time")
        if direct if direct is not None else self.cached_info.config.allow_direct:
            try:
                return await self._get_direct(document)
            except NoRespondersError:
                # The stream is gone, its servers are away, or it allows no direct gets: the API knows which.
                pass
        answer = await self.jetstream.api_request(f"STREAM.MSG.GET.{self.name}", document)
        message = answer["message"]
        return StoredMsg(
            message["subject"],
            int(message["seq"]),
            base64.b64decode(message.get("data", "")),
            Headers.from_block(base64.b64decode(message.get("hdrs", ""))),
            parse_time(message["time"]).unix_ns,
        )

    async def _get_direct(self, document: dict[str, Any]) -> StoredMsg:
        jetstream = self.jetstream
        import msgspec

        subject = f"{jetstream.api_prefix}.DIRECT.GET.{self.name}"
        body = msgspec.json.encode(document)
        return stored_msg(await jetstream._link.request(subject, b"", body, jetstream._request_timeout_s))

    async def get_last_msg(self, subject: str, *, direct: bool | None = None) -> StoredMsg:
        """The last message of a subject."""
        return await self.get_msg(last_by_subject=subject, direct=direct)

    async def delete_msg(self, seq: int, *, erase: bool = True) -> None:
        """Remove one message. With `erase` its bytes on disk are overwritten too."""
        document: dict[str, Any] = {"seq": seq}
        if not erase:
            document["no_erase"] = True
        await self.jetstream.api_request(f"STREAM.MSG.DELETE.{self.name}", document)

    async def backup(
        self,
        folder: str | Path,
        *,
        progress: Callable[[BackupProgress], Any] | None = None,
        consumers: bool = True,
        check: bool = False,
        chunk_bytes: int = CHUNK_BYTES,
        window_bytes: int = 0,
        timeout: Seconds = 30.0,
    ) -> BackupProgress:
        """Save the stream with its consumers into a folder; `JetStream.restore_stream` restores it.

        With `check` the server looks for damage first. `window_bytes` is how much it sends ahead; 0 is the server's
        default.
        """
        request = {"chunk_size": chunk_bytes, "no_consumers": not consumers, "jsck": check, "window_size": window_bytes}
        return await backup(self, folder, progress, {key: value for key, value in request.items() if value}, timeout)

    def scan(
        self,
        start: int | datetime | None = None,
        end: int | datetime | None = None,
        *,
        subjects: str | Sequence[str] = (),
        batch_rows: int = BATCH_ROWS,
        columns: Sequence[str] | None = None,
    ) -> ArrowScan:
        """Read the messages from `start` to `end` (both included), in order, as Arrow record batches.

        `start` and `end` are sequences or times. The default is everything that is stored now. A scan continues after a
        lost connection and leaves no consumer behind. The columns are those of `Consumer.fetch_arrow`.
        """
        from jetspark.client.aio.scanning import ArrowScan

        return ArrowScan(self, start, end, subjects, batch_rows, columns)

    # Consumers.

    async def consumer(self, name: str) -> Consumer:
        """An existing consumer; ConsumerNotFoundError if there is none."""
        answer = await self.jetstream.api_request(f"CONSUMER.INFO.{self.name}.{check_name('consumer', name)}")
        return self._consumer(ConsumerInfo.read(answer))

    async def create_consumer(self, config: ConsumerConfig | str | None = None, **settings: Any) -> Consumer:
        """Create a consumer. With a name it is durable; without one it is removed when unused.

            worker = await orders.create_consumer("worker", filter_subject="orders.new", ack_wait=60, max_deliver=5)

        The settings have the names of the JetStream API. `ack_policy` is "explicit" by default. If the consumer exists
        with the same settings, nothing happens; with other settings it is ConsumerExistsError.
        """
        return await self._put_consumer(config, settings, "create")

    async def update_consumer(self, config: ConsumerConfig | str | None = None, **settings: Any) -> Consumer:
        """Change settings of a consumer. With a name and keywords, the other settings stay as they are."""
        if isinstance(config, str):
            base = (await self.consumer(config)).cached_info.config
            return await self._put_consumer(replace(base, pause_until=None), settings, "update")
        return await self._put_consumer(config, settings, "update")

    async def create_or_update_consumer(self, config: ConsumerConfig | str | None = None, **settings: Any) -> Consumer:
        """Create a consumer, or change the existing one to these settings."""
        return await self._put_consumer(config, settings, "")

    async def _put_consumer(
        self, config: ConsumerConfig | str | None, settings: dict[str, Any], action: str
    ) -> Consumer:
        if isinstance(config, str):
            settings = {"durable_name": config, **settings}
            config = None
        wanted = consumer_config(config, "", settings)
        name = wanted.name or wanted.durable_name
        if not name:
            with self.jetstream._link.guard:
                name = self.jetstream._link.core.nuid.next()
            wanted = replace(wanted, name=name)
        document = {"stream_name": self.name, "config": wanted.encode(), "action": action}
        endpoint = self._create_endpoint(check_name("consumer", name), wanted)
        answer = await self.jetstream.api_request(endpoint, document)
        return self._consumer(ConsumerInfo.read(answer))

    def _create_endpoint(self, name: str, wanted: ConsumerConfig) -> str:
        if server_is_older(self.jetstream.connection.server_version, 2, 9):
            return (
                f"CONSUMER.DURABLE.CREATE.{self.name}.{name}" if wanted.durable_name else f"CONSUMER.CREATE.{self.name}"
            )
        # One can only publish to a subject without wildcards; the server then takes the filter from the document.
        if wanted.filter_subject and not has_wildcard(wanted.filter_subject.encode()):
            return f"CONSUMER.CREATE.{self.name}.{name}.{wanted.filter_subject}"
        return f"CONSUMER.CREATE.{self.name}.{name}"

    async def delete_consumer(self, name: str) -> None:
        """Delete a consumer."""
        await self.jetstream.api_request(f"CONSUMER.DELETE.{self.name}.{check_name('consumer', name)}")

    async def consumer_names(self) -> list[str]:
        """The names of the stream's consumers."""
        return await self.jetstream.api_list(f"CONSUMER.NAMES.{self.name}", "consumers", {})

    async def consumers(self) -> list[ConsumerInfo]:
        """The stream's consumers."""
        found = await self.jetstream.api_list(f"CONSUMER.LIST.{self.name}", "consumers", {})
        return [ConsumerInfo.read(one) for one in found]

    async def ordered_consumer(self, **options: Any) -> OrderedConsumer:
        """Read the stream in order and without gaps, also after a lost connection or a restart of the server.

        Options: `filter_subjects`, `deliver_policy`, `opt_start_seq`, `opt_start_time`, `headers_only`,
        `replay_policy`, `inactive_threshold`, `name_prefix`, `metadata`.
        """
        from jetspark.client.aio.ordered import OrderedConsumer

        return OrderedConsumer(self, **options)

    def _consumer(self, info: ConsumerInfo) -> Consumer:
        from jetspark.client.aio.consumer import Consumer

        return Consumer(self, info)

    def consumer_handle(self, name: str) -> Consumer:
        """A consumer object for a name, without asking the server (for example across accounts, where that is not
        allowed).
        """
        return self._consumer(ConsumerInfo.read({"stream_name": self.name, "name": check_name("consumer", name)}))


def stored_msg(reply: Msg) -> StoredMsg:
    """The answer to a direct get; MessageNotFoundError when it says so."""
    code = reply.status_code
    if code == 404:
        raise MessageNotFoundError(404, 10037, "no message found")
    if code:
        raise BadOptionError(f"{code} {reply.status_text}")
    headers = reply.headers
    subject, seq, time = headers["Nats-Subject"], int(headers["Nats-Sequence"]), headers["Nats-Time-Stamp"]
    for name in (
        "Nats-Stream",
        "Nats-Subject",
        "Nats-Sequence",
        "Nats-Time-Stamp",
        "Nats-Num-Pending",
        "Nats-Last-Sequence",
    ):
        headers.remove(name)
    return StoredMsg(subject, seq, reply.data, headers, parse_time(time).unix_ns)
