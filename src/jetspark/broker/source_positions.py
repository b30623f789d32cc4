"""How far a stream has taken over each of its sources, and how that survives a restart.

The last message of each source says so in its header. That is not enough when messages may leave the stream, and
slow when there are many, so now and then, and whenever a message that may be the last of its source has left, the
positions are written down, in the same commit and after the messages. After a restart they are read from there, and
from the messages stored since. If the messages of that commit are not on disk, the positions before them count, which
are written down as well: a crash may cost doing something twice, never leaving it out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import i64

from jetspark.api.responses import encode_json
from jetspark.broker.bounds import bounded_sequence
from jetspark.broker.publish import STREAM_SOURCE
from jetspark.protocol import headers
from jetspark.store import meta
from jetspark.store.disk import Commit
from jetspark.store.view import RecordView

if TYPE_CHECKING:
    from jetspark.broker.stream import Stream

FOLDER_NAME: Final = "sources"
# No more messages than this have to be read after a restart.
MESSAGES_BETWEEN_SAVES: Final = 8192


class Position:
    """The last message taken over from a source: its sequence there, and which stream of that name it was."""

    def __init__(self, seq: i64, identity: bytes) -> None:
        self.seq: i64 = seq
        self.identity = identity


class SourcePositions:
    """The positions of one stream's sources, by index name; of those it had before too."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._current: dict[bytes, Position] = {}
        # As of the commit that is under way, and as of the last one that is durable; with our own last sequence.
        self._collected: dict[bytes, Position] = {}
        self._durable: dict[bytes, Position] = {}
        self._durable_seq: i64 = 0
        self._saved_seq: i64 = 0
        self._must_save: bool = False

    def get(self, name: bytes) -> Position:
        known = self._current.get(name)
        return known if known is not None else Position(0, b"")

    def moved(self, name: bytes, seq: i64, identity: bytes) -> None:
        # Positions are never changed, only replaced: older ones are still needed.
        self._current[name] = Position(seq, identity)

    def removed(self, seq: i64) -> None:
        if seq > self._saved_seq:
            self._must_save = True

    def purged(self) -> None:
        self._must_save = True

    # -- disk ------------------------------------------------------------------------------------------------------

    def collect(self, commit: Commit) -> None:
        stream = self._stream
        last_seq = stream.store.last_seq
        if (self._must_save or last_seq - self._saved_seq >= MESSAGES_BETWEEN_SAVES) and not stream.in_memory:
            self._must_save = False
            self._saved_seq = last_seq
            document = {
                "seq": last_seq,
                "sources": document_of(self._current),
                "before_seq": self._durable_seq,
                "before": document_of(self._durable),
            }
            for op in meta.write_meta(self._folder(), encode_json(document)):
                commit.add(op)
        self._collected = dict(self._current)

    def visible(self, seq: i64) -> None:
        self._durable = self._collected
        self._durable_seq = seq

    def rolled_back(self) -> None:
        self._current = dict(self._durable)
        self._collected = self._durable
        # What was written down may be ahead of what is stored.
        self._must_save = True

    def take_over(self, before: SourcePositions) -> None:
        self._current = before._current
        self._collected = before._collected
        self._durable = before._durable
        self._durable_seq = before._durable_seq
        self._saved_seq = before._saved_seq
        self._must_save = before._must_save

    def _folder(self) -> str:
        return f"{self._stream.account.jetstream.stream_path(self._stream.name)}/{FOLDER_NAME}"

    def recover(self) -> None:
        stream = self._stream
        store = stream.store
        if not stream.in_memory:
            document = meta.read_meta(stream.broker.disk, self._folder())
            if document is not None:
                self._read(json.loads(document))
        if self._saved_seq > 0:
            view = RecordView()
            seq = store.next_live(self._saved_seq + 1)
            while seq > 0:
                if store.view(seq, view) and view.header_size > 0:
                    self._read_message(view)
                seq = store.next_live(seq + 1)
        else:
            store.scan_headers(0, self._read_message)
        self._collected = dict(self._current)
        self._durable = self._collected
        self._durable_seq = store.last_seq

    def _read(self, document: dict[str, Any]) -> None:
        """Positions that were written down, unless they are ahead of what is stored."""
        is_stored = self._stream.store.last_seq >= document["seq"]
        positions = document["sources" if is_stored else "before"]
        self._saved_seq = document["seq" if is_stored else "before_seq"]
        for name, (seq, identity) in positions.items():
            self._current[name.encode()] = Position(seq, identity.encode())

    def _read_message(self, view: RecordView) -> None:
        origin = headers.find_value(view.header(), STREAM_SOURCE)
        if not origin:
            return
        words = origin.split(b" ")
        if len(words) < 4 or not words[1].isdigit():
            return
        name = b"%s %s %s" % (words[0], words[2], words[3])
        self._current[name] = Position(bounded_sequence(int(words[1][:19])), words[5] if len(words) > 5 else b"")


def document_of(positions: dict[bytes, Position]) -> dict[str, list[Any]]:
    return {name.decode(): [position.seq, position.identity.decode()] for name, position in positions.items()}
