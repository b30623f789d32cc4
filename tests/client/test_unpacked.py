"""How much a snapshot holds is known while it comes, piece by piece, and without unpacking it."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from jetspark.broker.transfer.s2_frames import encode_frames
from jetspark.client.aio import JetStream, Stream
from jetspark.client.aio.backup import BackupProgress
from jetspark.client.unpacked import UnpackedCount

PADDING = b"\xfe\x03\x00\x00..."


@given(
    st.lists(st.one_of(st.binary(max_size=300), st.integers(0, 200_000).map(bytes)), max_size=4),
    st.lists(st.integers(1, 5000), min_size=1),
)
def test_frames_in_pieces_of_any_size_are_counted(contents: list[bytes], sizes: list[int]) -> None:
    packed = b"".join(encode_frames(one) + PADDING for one in contents)
    count, position, turn = UnpackedCount(), 0, 0

    while position < len(packed):
        size = sizes[turn % len(sizes)]
        count.feed(packed[position : position + size])
        position, turn = position + size, turn + 1

    assert count.byte_count == sum(map(len, contents))


async def test_a_backup_tells_how_much_of_the_stream_it_has(
    jetstream: JetStream, stream: Stream, name: str, tmp_path: Path
) -> None:
    # Half of it packs well, half does not: a server sends such frames as they are.
    for number in range(20):
        data = bytes(20_000) if number % 2 else random.Random(number).randbytes(20_000)
        await jetstream.publish(f"{name}.x", data)
    size_bytes = (await stream.info()).state.bytes
    told: list[BackupProgress] = []

    done = await stream.backup(tmp_path / "backup", progress=told.append)

    assert size_bytes * 0.9 <= done.unpacked_byte_count <= size_bytes * 1.3
    assert done.byte_count < size_bytes * 0.8
    assert [one.unpacked_byte_count for one in told] == sorted(one.unpacked_byte_count for one in told)
