"""Where streams and consumers live on disk, and the documents that describe them.

    <root of the account>/streams/<stream>/meta.inf, msgs/, obs/<consumer>/meta.inf, state.log

A document is what the broker gave, followed by a line with its checksum; what fails the check is reported, not read.
Names are escaped, so a name the broker accepted can never be a path, a dot file or too wide for the file system.
"""

from __future__ import annotations

from typing import Final

from xxhash import xxh3_64_hexdigest

from jetspark.store.disk import DOOMED_SUFFIX, MKDIRS, REMOVE_TREE, WRITE_FILE, Disk, DiskOp

META_NAME: Final = "meta.inf"
STREAMS_NAME: Final = "streams"
CONSUMERS_NAME: Final = "obs"
_PLAIN: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
# Escaping makes a name up to nine times as long, and file systems take 255 bytes: longer ones keep a readable start
# and are told apart by a hash. The true name is in the document.
_NAME_SIZE_MAX: Final = 200
_SUM_MARK: Final = b"\n#xxh3 "


def escape(name: str) -> str:
    """A name as a file name: the same name always the same, different names always different."""
    parts: list[str] = []
    for character in name:
        if character in _PLAIN:
            parts.append(character)
        else:
            parts.extend(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
    escaped = "".join(parts)
    if len(escaped) > _NAME_SIZE_MAX:
        digest = xxh3_64_hexdigest(name.encode("utf-8", "surrogatepass"))
        return f"{escaped[: _NAME_SIZE_MAX - 18]}%%{digest}"
    return escaped or "%"


def stream_path(root: str, stream: str) -> str:
    """A stream's folder; the root is an account's."""
    return f"{root}/{STREAMS_NAME}/{escape(stream)}"


def consumer_path(root: str, stream: str, consumer: str) -> str:
    return f"{stream_path(root, stream)}/{CONSUMERS_NAME}/{escape(consumer)}"


def write_stream(root: str, stream: str, document: bytes) -> list[DiskOp]:
    """What writes a stream's document, as one step."""
    return write_meta(stream_path(root, stream), document)


def write_consumer(root: str, stream: str, consumer: str, document: bytes) -> list[DiskOp]:
    return write_meta(consumer_path(root, stream, consumer), document)


def remove_stream(root: str, stream: str) -> DiskOp:
    """What removes a stream with everything in it."""
    return DiskOp(REMOVE_TREE, stream_path(root, stream))


def remove_consumer(root: str, stream: str, consumer: str) -> DiskOp:
    return DiskOp(REMOVE_TREE, consumer_path(root, stream, consumer))


def write_meta(folder: str, document: bytes) -> list[DiskOp]:
    checksum = xxh3_64_hexdigest(document).encode()
    data = document + _SUM_MARK + checksum + b"\n"
    return [DiskOp(MKDIRS, folder), DiskOp(WRITE_FILE, f"{folder}/{META_NAME}", data)]


class MetaListing:
    """The documents found below a folder: each with the folder it describes, and the folders without a sound one."""

    def __init__(self) -> None:
        self.found: list[tuple[str, bytes]] = []
        self.damaged: list[str] = []


def read_meta(disk: Disk, folder: str) -> bytes | None:
    """The document of a stream or consumer; None when it is missing or damaged."""
    path = f"{folder}/{META_NAME}"
    if disk.size(path) < 0:
        return None
    data = disk.read_all(path)
    at = data.rfind(_SUM_MARK)
    if at < 0:
        return None
    document = data[:at]
    if data[at + len(_SUM_MARK) :] != xxh3_64_hexdigest(document).encode() + b"\n":
        return None
    return document


def list_roots(disk: Disk, parent: str) -> list[str]:
    """The folders of accounts that have streams."""
    return [f"{parent}/{name}" for name in disk.list_dir(parent) if disk.list_dir(f"{parent}/{name}/{STREAMS_NAME}")]


def list_streams(disk: Disk, root: str) -> MetaListing:
    """The documents of an account's streams."""
    return list_metas(disk, f"{root}/{STREAMS_NAME}")


def list_consumers(disk: Disk, root: str, stream: str) -> MetaListing:
    return list_metas(disk, f"{stream_path(root, stream)}/{CONSUMERS_NAME}")


def list_metas(disk: Disk, parent: str) -> MetaListing:
    listing = MetaListing()
    for name in disk.list_dir(parent):
        folder = f"{parent}/{name}"
        if name.endswith(DOOMED_SUFFIX):
            # It was removed; a crash left some of it.
            disk.perform(DiskOp(REMOVE_TREE, folder))
            continue
        document = read_meta(disk, folder)
        if document is None:
            listing.damaged.append(folder)
        else:
            listing.found.append((folder, document))
    return listing


def unescape(escaped: str) -> str:
    """The name again; for names too long to be kept whole, what is left of it."""
    if "%%" in escaped or escaped == "%":
        return escaped.partition("%%")[0] if "%%" in escaped else ""
    data = bytearray()
    at = 0
    while at < len(escaped):
        if escaped[at] == "%":
            data.append(int(escaped[at + 1 : at + 3], 16))
            at += 3
        else:
            data.append(ord(escaped[at]))
            at += 1
    return data.decode("utf-8", "surrogatepass")
