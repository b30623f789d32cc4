"""Where streams and consumers live on disk, and the documents that describe them.

    <root of the account>/streams/<stream>/meta.inf, msgs/, obs/<consumer>/meta.inf, state.log

A document is what the broker gave, followed by a line with its checksum, and the same once more: without it nobody
knows what the messages beside it are. A copy that fails the check is not read; while the other one is sound, the file
is written anew at the next start.
Names are escaped, so a name the broker accepted can never be a path, a dot file or too wide for the file system.
"""

from __future__ import annotations

from typing import Final

from xxhash import xxh3_64_hexdigest

from jetspark.store.disk import DOOMED_SUFFIX, MKDIRS, REMOVE_TREE, SYNC_DIR, TEMPORARY_SUFFIX, WRITE_FILE, Disk, DiskOp

META_NAME: Final = "meta.inf"
STREAMS_NAME: Final = "streams"
CONSUMERS_NAME: Final = "obs"
MESSAGES_NAME: Final = "msgs"
LOG_NAME: Final = "state.log"
# What only a stream or consumer that was once described has in its folder.
CONTENT_NAMES: Final = frozenset({MESSAGES_NAME, CONSUMERS_NAME, LOG_NAME})
_PLAIN: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
# Escaping makes a name up to nine times as long, and file systems take 255 bytes: longer ones keep a readable start
# and are told apart by a hash. The true name is in the document.
_NAME_SIZE_MAX: Final = 200
_SUM_MARK: Final = b"\n#xxh3 "
# What follows the document in each copy: the mark, 16 digits and a line feed.
_CHECKED_SIZE: Final = len(_SUM_MARK) + 16 + 1


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
    return [DiskOp(MKDIRS, folder), DiskOp(WRITE_FILE, f"{folder}/{META_NAME}", 2 * with_checksum(document))]


def with_checksum(document: bytes) -> bytes:
    """One copy of a document."""
    return document + _SUM_MARK + xxh3_64_hexdigest(document).encode() + b"\n"


def read_copy(data: bytes) -> bytes | None:
    """The document of one copy; None when it is damaged."""
    document = data[:-_CHECKED_SIZE]
    return document if with_checksum(document) == data else None


def read_copies(data: bytes) -> bytes | None:
    """The document of the first copy that is sound, whatever the other one looks like; None without one."""
    middle = len(data) // 2
    end = data.find(_SUM_MARK) + _CHECKED_SIZE
    # Both of their full length; then the second cut short or missing, then the first cut short.
    for copy in (data[:middle], data[middle:], data[:end], data[end:], data[data.find(b"\n") + 1 :]):
        document = read_copy(copy)
        if document is not None:
            return document
    return None


class MetaListing:
    """What is below a folder: documents with the folders they describe, and folders without a sound one.

    A folder that a crash left before anything was written into it is neither.
    """

    def __init__(self) -> None:
        self.found: list[tuple[str, bytes]] = []
        # Folders whose document had a damaged copy, which was written anew.
        self.repaired: list[str] = []
        # Folders that cannot be used, and why.
        self.damaged: list[tuple[str, str]] = []
        # What the server never made there, and what it is.
        self.strays: list[tuple[str, str]] = []


def read_file(disk: Disk, folder: str) -> bytes:
    """The file with the document of a stream or consumer; empty when it is missing."""
    path = f"{folder}/{META_NAME}"
    return b"" if disk.size(path) < 0 else disk.read_all(path)


def read_meta(disk: Disk, folder: str) -> bytes | None:
    """The document of a stream or consumer; None when it is missing or damaged."""
    return read_copies(read_file(disk, folder))


def complete(disk: Disk, folder: str, data: bytes, document: bytes, listing: MetaListing) -> None:
    """Write the file anew if it does not hold the document twice."""
    copy = with_checksum(document)
    if data == 2 * copy:
        return
    try:
        for op in write_meta(folder, document):
            disk.perform(op)
    except OSError:
        # The sound copy is still there, and the next start tries again.
        return
    if data != copy:
        listing.repaired.append(folder)


def list_roots(disk: Disk, parent: str) -> list[str]:
    """The folders of accounts that have streams, and those that cannot be looked into."""
    found: list[str] = []
    for name in disk.list_dir(parent):
        root = f"{parent}/{name}"
        try:
            disk.list_dir(root)
        except NotADirectoryError:
            continue
        except OSError:
            found.append(root)
            continue
        try:
            if disk.list_dir(f"{root}/{STREAMS_NAME}"):
                found.append(root)
        except OSError:
            found.append(root)
    return found


def list_streams(disk: Disk, root: str) -> MetaListing:
    """The documents of an account's streams."""
    return list_metas(disk, f"{root}/{STREAMS_NAME}")


def list_consumers(disk: Disk, root: str, stream: str) -> MetaListing:
    return list_metas(disk, f"{stream_path(root, stream)}/{CONSUMERS_NAME}")


def list_metas(disk: Disk, parent: str) -> MetaListing:
    """What is below a folder. OSError when that itself cannot be listed; what is wrong below it is in the listing."""
    listing = MetaListing()
    names = disk.list_dir(parent)
    if disk.exists(parent):
        sync_names(disk, parent)
    for name in names:
        folder = f"{parent}/{name}"
        try:
            if name.endswith(DOOMED_SUFFIX):
                # It was removed; a crash left some of it.
                disk.perform(DiskOp(REMOVE_TREE, folder))
                continue
            data = read_file(disk, folder)
            document = read_copies(data)
            if document is not None:
                listing.found.append((folder, document))
                sync_names(disk, folder)
                complete(disk, folder, data, document, listing)
            else:
                sort_folder(disk, folder, listing)
        except NotADirectoryError:
            listing.strays.append((folder, "it is not a directory"))
        except OSError as error:
            listing.damaged.append((folder, f"it cannot be read: {error.strerror or error}"))
    return listing


def sync_names(disk: Disk, folder: str) -> None:
    """Sync the names in a folder: a server that was killed may have made or removed one and not synced it.

    Without this, a power failure could take away a stream that clients have seen, or bring back one that was removed.
    """
    disk.perform(DiskOp(SYNC_DIR, folder))


def sort_folder(disk: Disk, folder: str, listing: MetaListing) -> None:
    """A folder without a sound document: damaged, never used, or none of the server's."""
    # Half written means that nobody was told of it.
    names = [name for name in disk.list_dir(folder) if not name.endswith(TEMPORARY_SUFFIX)]
    if META_NAME in names or CONTENT_NAMES & set(names):
        listing.damaged.append((folder, "its description is missing or damaged"))
    elif names:
        listing.strays.append((folder, "it holds files that are not the server's"))


def unescape(escaped: str) -> str:
    """The name again; for names too long to be kept whole, what is left of it; anything else as it is."""
    if "%%" in escaped or escaped == "%":
        return escaped.partition("%%")[0] if "%%" in escaped else ""
    data = bytearray()
    at = 0
    try:
        while at < len(escaped):
            if escaped[at] == "%":
                data.append(int(escaped[at + 1 : at + 3], 16))
                at += 3
            else:
                data.append(ord(escaped[at]))
                at += 1
        return data.decode("utf-8", "surrogatepass")
    except ValueError:
        # Not a name of the server's making.
        return escaped
