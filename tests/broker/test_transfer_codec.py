"""The archive's bytes: S2 blocks and frames, entries, and the files of older archives."""

import contextlib
import io
import random
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetspark.broker.transfer import archive, old_archive, s2_frames
from jetspark.broker.transfer.archive import ArchiveReader
from jetspark.broker.transfer.crc32c import crc32c, crc32c_native, crc32c_plain
from jetspark.broker.transfer.old_archive import TarReader
from jetspark.broker.transfer.s2_block import DamagedArchive, decode_block
from jetspark.broker.transfer.s2_encoder import encode_block
from jetspark.broker.transfer.s2_frames import FrameReader

# Runs and words, so that there is something to compress.
TEXTS = st.lists(
    st.one_of(st.binary(max_size=40), st.sampled_from([b"abcdefgh", b"\0" * 70, b"hello world ", b"x" * 300])),
    max_size=60,
).map(b"".join)


@given(TEXTS)
def test_a_block_stands_for_what_it_was_made_of(data: bytes) -> None:
    assert decode_block(encode_block(data)) == data


@pytest.mark.parametrize("size", [65_539, 65_540, 65_541, 300_000])
def test_long_runs_become_a_few_bytes(size: int) -> None:
    block = encode_block(b"y" * size)

    assert len(block) < 20
    assert decode_block(block) == b"y" * size


@pytest.mark.parametrize(
    ("block", "data"),
    [
        (b"\x00", b""),
        (b"\x05\x10hello", b"hello"),
        # Literal, then a copy of each width.
        (b"\x0a\x10hello\x05\x05", b"hellohello"),
        (b"\x0a\x10hello\x12\x05\x00", b"hellohello"),
        (b"\x0a\x10hello\x13\x05\x00\x00\x00", b"hellohello"),
        # A copy, then repeats of its offset: short, and with one, two and three bytes of length.
        (b"\x0e\x10hello\x05\x05\x01\x00", b"hello" * 2 + b"hell"),
        (b"\x13\x10hello\x05\x05\x15\x00\x01", b"hello" * 3 + b"hell"),
        (b"\x8e\x02\x10hello\x05\x05\x19\x00\x00\x00", (b"hello" * 60)[:270]),
        (b"\x8e\x80\x04\x10hello\x05\x05\x1d\x00\x00\x00\x00", (b"hello" * 20_000)[:65_550]),
    ],
)
def test_every_kind_of_tag_is_read(block: bytes, data: bytes) -> None:
    assert decode_block(block) == data


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\xff\xff\xff\xff\xff",
        b"\x05\x10hell",
        b"\x04\x10hello",
        b"\x09\x01\x05",
        b"\x08\x01\x00",
        b"\x06\x10hello",
    ],
)
def test_blocks_that_make_no_sense_are_refused(block: bytes) -> None:
    with pytest.raises(DamagedArchive):
        decode_block(block)


@given(st.binary(max_size=200))
def test_blocks_of_noise_are_refused_or_read_but_never_worse(block: bytes) -> None:
    with contextlib.suppress(DamagedArchive):
        decode_block(block)


@given(st.binary(max_size=300))
def test_both_ways_of_summing_agree(data: bytes) -> None:
    assert crc32c_plain(data) == crc32c_native(data)


def test_the_checksum_is_castagnoli_s() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(TEXTS, st.integers(1, 50))
def test_frames_may_be_cut_anywhere(data: bytes, piece: int) -> None:
    stream = s2_frames.START + s2_frames.encode_frames(data)
    reader = FrameReader()

    parts = [reader.feed(stream[at : at + piece]) for at in range(0, len(stream), piece)]

    assert b"".join(parts) == data
    assert reader.is_whole()


def test_frames_of_other_writers_are_read() -> None:
    skippable = b"\x99\x03\x00\x00abc"
    padding = b"\xfe\x02\x00\x00\0\0"
    stream = b"\xff\x06\x00\x00sNaPpY" + skippable + s2_frames.encode_frames(b"data") + padding

    assert FrameReader().feed(stream) == b"data"


def test_a_flipped_bit_is_noticed() -> None:
    stream = bytearray(s2_frames.START + s2_frames.encode_frames(random.Random(1).randbytes(1000)))
    stream[500] ^= 1

    with pytest.raises(DamagedArchive, match="crc"):
        FrameReader().feed(bytes(stream))


@given(
    st.lists(
        st.tuples(
            st.binary(min_size=1, max_size=20),
            st.integers(-(2**62), 2**62),
            st.integers(0, 2**61),
            st.binary(max_size=20),
            st.binary(max_size=300),
        ),
        max_size=8,
    ),
    st.integers(1, 60),
)
def test_entries_may_be_cut_anywhere(rows: list[tuple[bytes, int, int, bytes, bytes]], piece: int) -> None:
    data = b"".join(archive.encode_entry(*row) for row in rows) + archive.END
    reader = ArchiveReader()

    found = [entry for at in range(0, len(data), piece) for entry in reader.feed(data[at : at + piece])]

    assert [(e.name, e.ts_ns, e.seq, e.header, e.payload) for e in found] == rows
    assert reader.has_ended


@pytest.mark.parametrize("piece", [1000, 100_000])
def test_files_come_out_of_a_tar(piece: int) -> None:
    buffer = io.BytesIO()
    names = ["meta.inf", "msgs/1.blk", "obs/" + "long-name-" * 15 + "/meta.inf"]
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for number, name in enumerate(names):
            entry = tarfile.TarInfo(name)
            entry.size = number * 700
            tar.addfile(entry, io.BytesIO(b"z" * entry.size))
    data = buffer.getvalue()
    reader = TarReader()

    found = [file for at in range(0, len(data), piece) for file in reader.feed(data[at : at + piece])]

    assert [(name, len(content)) for name, content in found] == [(name, n * 700) for n, name in enumerate(names)]
    assert reader.has_ended


def old_record(seq: int, subject: bytes, header: bytes, payload: bytes) -> bytes:
    body = len(subject).to_bytes(2, "little") + subject
    if header:
        body += len(header).to_bytes(4, "little") + header
    body += payload
    length = (4 + 16 + len(body) + 8) | (1 << 31 if header else 0)
    return length.to_bytes(4, "little") + seq.to_bytes(8, "little") + (77).to_bytes(8, "little") + body + b"\0" * 8


def test_an_old_block_gives_its_messages_and_deletions() -> None:
    block = old_record(1, b"a", b"", b"one") + old_record(2, b"b", b"H\r\n\r\n", b"two")
    block += old_record(1 << 62 | 1, b"", b"", b"")
    erased = old_record(1 << 63 | 3, b"c", b"", b"gone")

    found = old_archive.read_block(block + erased + b"\x40\x00")

    assert [(e.seq, e.name, e.header, e.payload, e.ts_ns) for e in found.entries] == [
        (1, b"a", b"", b"one", 77),
        (2, b"b", b"H\r\n\r\n", b"two", 77),
    ]
    assert found.removed == [1]


def test_an_old_block_may_be_compressed() -> None:
    block = old_record(5, b"a", b"", b"x" * 500)
    packed = s2_frames.START + s2_frames.encode_frames(block[:-8])
    stored = b"cmp\x01" + archive.uvarint(len(block)) + packed + block[-8:]

    assert [(e.seq, e.payload) for e in old_archive.read_block(stored).entries] == [(5, b"x" * 500)]


def test_an_old_consumer_state_is_read() -> None:
    assert old_archive.read_consumer_state(bytes.fromhex("16020206020600 00".replace(" ", ""))) == {
        "delivered": {"consumer_seq": 2, "stream_seq": 6},
        "ack_floor": {"consumer_seq": 2, "stream_seq": 6},
        "pending": {},
        "redelivered": {},
    }
