"""CRC-32C in steps of 8 bytes, without inversions: by tables, by the C library where it is installed, and over many frames."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from . import _library

START = 0xFFFFFFFF

#: Below this many bytes, a call of the C library takes longer than the tables.
_LIBRARY_MIN = 64


def _make_tables() -> list[list[int]]:
    first = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ 0x82F63B78 if value & 1 else value >> 1
        first.append(value)
    tables = [first]
    for _ in range(7):
        last = tables[-1]
        tables.append([(value >> 8) ^ first[value & 0xFF] for value in last])
    return tables


_T0, _T1, _T2, _T3, _T4, _T5, _T6, _T7 = TABLES = _make_tables()


def step(crc: int, word: int) -> int:
    """One step over a word of 64 bits."""
    word ^= crc
    return (
        _T7[word & 0xFF] ^ _T6[word >> 8 & 0xFF] ^ _T5[word >> 16 & 0xFF] ^ _T4[word >> 24 & 0xFF]
        ^ _T3[word >> 32 & 0xFF] ^ _T2[word >> 40 & 0xFF] ^ _T1[word >> 48 & 0xFF] ^ _T0[word >> 56]
    )


def _by_tables(crc: int, data: bytes) -> int:
    whole = len(data) & ~7
    for word in struct.unpack_from(f"<{whole >> 3}Q", data):
        word ^= crc
        crc = (
            _T7[word & 0xFF] ^ _T6[word >> 8 & 0xFF] ^ _T5[word >> 16 & 0xFF] ^ _T4[word >> 24 & 0xFF]
            ^ _T3[word >> 32 & 0xFF] ^ _T2[word >> 40 & 0xFF] ^ _T1[word >> 48 & 0xFF] ^ _T0[word >> 56]
        )
    for byte in data[whole:]:
        crc = (crc >> 8) ^ _T0[(crc ^ byte) & 0xFF]
    return crc


@cache
def _in_c() -> Callable[[int, Any, int], int] | None:
    library = _library.find()
    if library is None:
        return None
    library.mfq_crc32c.argtypes = (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_size_t)
    library.mfq_crc32c.restype = ctypes.c_uint32
    return library.mfq_crc32c


@cache
def count_whole_in_c() -> Callable[[int, int, int, int, int], int] | None:
    """`mfq_count_whole` of the C library, which keeps the interpreter's lock: a call is shorter than giving it away."""
    library = _library.find()
    if library is None:
        return None
    function = ctypes.PyDLL(library._name).mfq_count_whole
    function.argtypes = (ctypes.c_uint32, ctypes.c_int64, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
    function.restype = ctypes.c_size_t
    return function


def crc32c(crc: int, data: bytes) -> int:
    """The running value after some bytes."""
    if len(data) >= _LIBRARY_MIN and (function := _in_c()) is not None:
        return function(crc, data, len(data))
    return _by_tables(crc, data)


def words_crc(crc: int, words: memoryview) -> int:
    """The running value after some words of 64 bits."""
    for word in words.tolist():
        word ^= crc
        crc = (
            _T7[word & 0xFF] ^ _T6[word >> 8 & 0xFF] ^ _T5[word >> 16 & 0xFF] ^ _T4[word >> 24 & 0xFF]
            ^ _T3[word >> 32 & 0xFF] ^ _T2[word >> 40 & 0xFF] ^ _T1[word >> 48 & 0xFF] ^ _T0[word >> 56]
        )
    return crc


def page_crc(data: bytes) -> int:
    """The usual CRC-32C, of pages and records."""
    return crc32c(START, data) ^ START


def steps_of_many(np: Any, crcs: Any, words: Any) -> Any:
    """`step` for arrays: one running value and one word of each frame."""
    halves = (words ^ crcs).view(np.uint16).reshape(-1, 4)
    tables = _numpy_tables(np)
    result = tables[0].take(halves[:, 0])
    for i in range(1, 4):
        result ^= tables[i].take(halves[:, i])
    return result


@cache
def _numpy_tables(np: Any) -> Any:
    """For two bytes at a time."""
    tables, values = np.array(TABLES, dtype=np.uint32), np.arange(1 << 16)
    return [tables[7 - 2 * i][values & 0xFF] ^ tables[6 - 2 * i][values >> 8] for i in range(4)]
