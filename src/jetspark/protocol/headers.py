"""The header block: `NATS/1.0[ code[ text]]`, `Key: Value` lines, a blank line.

The server's own look-ups are exact: names are case-sensitive, the first occurrence wins, leading spaces of the
value are dropped. Blocks are stored as they came, so functions here build new blocks only when something changes.
"""

from __future__ import annotations

from typing import Final

PREFIX: Final = b"NATS/1.0"
EMPTY: Final = b"NATS/1.0\r\n\r\n"


def find_value(block: bytes, key: bytes) -> bytes | None:
    """The first value under exactly this name, or None."""
    at = block.find(b"\r\n" + key + b":")
    if at < 0:
        return None
    start = at + len(key) + 3
    end = block.find(b"\r\n", start)
    if end < 0:
        return None
    return block[start:end].lstrip(b" ")


def parse(block: bytes) -> list[tuple[bytes, bytes]]:
    """All pairs in order, without the status line."""
    pairs: list[tuple[bytes, bytes]] = []
    for line in block.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            pairs.append((name, value.strip(b" ")))
    return pairs


def build(pairs: list[tuple[bytes, bytes]]) -> bytes:
    """A block without status."""
    lines = [PREFIX]
    for name, value in pairs:
        lines.append(name + b": " + value)
    lines.append(b"\r\n")
    return b"\r\n".join(lines)


def status_block(code: int, text: bytes, pairs: list[tuple[bytes, bytes]]) -> bytes:
    """A status message's block, such as `NATS/1.0 404 No Messages`."""
    first = PREFIX + b" %d" % code
    if text:
        first += b" " + text
    lines = [first]
    for name, value in pairs:
        lines.append(name + b": " + value)
    lines.append(b"\r\n")
    return b"\r\n".join(lines)


def append_headers(block: bytes, pairs: list[tuple[bytes, bytes]]) -> bytes:
    """The same block with more lines after its own; an empty block becomes a new one."""
    if not block:
        return build(pairs)
    lines = [name + b": " + value + b"\r\n" for name, value in pairs]
    return block[:-2] + b"".join(lines) + b"\r\n"


def set_header(block: bytes, name: bytes, value: bytes) -> bytes:
    """The block with one value under this name: in the place of the first there is, or at the end."""
    at = block.find(b"\r\n" + name + b":")
    if at < 0:
        return append_headers(block, [(name, value)])
    end = block.find(b"\r\n", at + 2)
    return block[:at] + b"\r\n" + name + b": " + value + block[end:]


def remove_headers(block: bytes, names: list[bytes], prefixes: list[bytes]) -> bytes:
    """The block without the lines that carry one of the names or start with one of the prefixes.

    b"" when no line is left, because a message without headers is stored without a block.
    """
    lines = block.split(b"\r\n")
    kept: list[bytes] = []
    for line in lines[1:]:
        if not line:
            continue
        name = line.partition(b":")[0]
        if name in names:
            continue
        dropped = False
        for prefix in prefixes:
            if name.startswith(prefix):
                dropped = True
                break
        if not dropped:
            kept.append(line)
    if not kept:
        return b""
    return lines[0] + b"\r\n" + b"\r\n".join(kept) + b"\r\n\r\n"


def without_status(block: bytes) -> bytes:
    """A published block that starts with a status is stored without it; a block of nothing else is not stored."""
    if block.startswith(b"NATS/1.0\r\n"):
        return block
    end = block.find(b"\r\n")
    if end < 0 or not block.startswith(PREFIX):
        return block
    if len(block) <= end + 4:
        return b""
    return PREFIX + block[end:]
