"""Little-endian numbers in bytes, read and written without making small objects when compiled.

Two bodies each: librt's native access when compiled, `struct` when plain, where native integer types cost a call.
"""

from __future__ import annotations

import struct
from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_le,
    read_i32_le,
    read_i64_le,
    write_i16_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i16, i32, i64

COMPILED: Final[bool] = not __file__.endswith(".py")

_U16: Final = struct.Struct("<H")
_U32: Final = struct.Struct("<I")
_I64: Final = struct.Struct("<q")


def get_u16(data: bytes, at: i64) -> i64:
    if COMPILED:
        return i64(read_i16_le(data, at)) & 0xFFFF
    value: int = _U16.unpack_from(data, at)[0]
    return value


def get_u32(data: bytes, at: i64) -> i64:
    if COMPILED:
        return i64(read_i32_le(data, at)) & 0xFFFFFFFF
    value: int = _U32.unpack_from(data, at)[0]
    return value


def get_i64(data: bytes, at: i64) -> i64:
    if COMPILED:
        return read_i64_le(data, at)
    value: int = _I64.unpack_from(data, at)[0]
    return value


def put_u16(writer: BytesWriter, value: i64) -> None:
    if COMPILED:
        write_i16_le(writer, i16(value))
    else:
        writer.write(_U16.pack(value))


def put_u32(writer: BytesWriter, value: i64) -> None:
    if COMPILED:
        write_i32_le(writer, i32(value))
    else:
        writer.write(_U32.pack(value))


def put_i64(writer: BytesWriter, value: i64) -> None:
    if COMPILED:
        write_i64_le(writer, value)
    else:
        writer.write(_I64.pack(value))
