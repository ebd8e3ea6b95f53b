"""Appending, which the C library does."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

from . import _library
from ._headers import KEY, TIME, TRACE, Headers
from .errors import (CorruptError, DeletedError, FencedError, FormatError, InUseError, NotFoundError, OutOfRangeError, QueueError,
                     RecoveryNeededError)


class _Options(ctypes.Structure):
    _fields_ = [("mode", ctypes.c_int), ("durability", ctypes.c_int), ("flush_timeout_ms", ctypes.c_int)]


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("error", ctypes.c_int), ("offset", ctypes.c_int64), ("text", ctypes.c_char * 232)]


class _Headers(ctypes.Structure):
    _fields_ = [
        ("fields", ctypes.c_uint32), ("time", ctypes.c_int64), ("producer", ctypes.c_uint64), ("sequence", ctypes.c_uint64),
        ("trace_id", ctypes.c_char_p), ("span_id", ctypes.c_char_p), ("trace_flags", ctypes.c_uint8),
        ("trace_state", ctypes.c_char_p), ("trace_state_length", ctypes.c_size_t),
        ("key", ctypes.c_char_p), ("key_length", ctypes.c_size_t),
    ]


_ERRORS: dict[int, type[QueueError]] = {
    -1: NotFoundError, -2: FormatError, -3: CorruptError, -4: OutOfRangeError, -6: InUseError, -7: RecoveryNeededError,
    -8: DeletedError, -11: FencedError,
}
_DISK, _ARGUMENT, _NO_MEMORY, _TIMEOUT = -5, -9, -10, -12


class Producer:
    """Appends to a store that exists, beside producers in every language. It needs the C library, libmfq.so.2.

    Shared unless `exclusive`, which shuts other producers out. A message survives the death of every process. With `group` it
    survives a power loss too when `produce` returns; else after `flush`. It is for one thread at a time; other threads run on.
    """

    def __init__(self, path: str | os.PathLike[str], *, exclusive: bool = False, group: bool = False,
                 flush_timeout: float | None = None) -> None:
        """Attaches to the store. Raises InUseError beside an Exclusive producer, NotImplementedError without the C library."""
        self._handle = ctypes.c_void_p()
        self._owner = os.getpid()
        library = _library.find_again()
        if library is None:
            raise NotImplementedError("Producing needs the C library, libmfq.so.2: build and install interop/c.")
        if flush_timeout is not None and not 0.001 <= flush_timeout <= 2_000_000:
            raise ValueError(f"flush_timeout is at least 0.001 s, and at most 2,000,000 s: {flush_timeout}")
        self._library = library
        self._produce: Callable[..., int] = library.mfq_produce
        library.mfq_produce.argtypes = (
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)
        self._error = _Error()
        self._offset = ctypes.c_int64()
        options = _Options(int(exclusive), int(group), 0 if flush_timeout is None else int(flush_timeout * 1000))
        name = os.fsencode(path)
        if b"\0" in name:
            raise ValueError("embedded null byte")
        self._check(library.mfq_producer_open(
            name, ctypes.byref(options), ctypes.byref(self._handle), ctypes.byref(self._error)))

    def produce(self, data: bytes | bytearray | memoryview | Any, headers: Headers | None = None) -> int:
        """Appends a message, of bytes or of anything that shows its bytes; gives its offset.

        After an error nothing was appended, unless the text says so. Raises TimeoutError where `group` took longer than
        `flush_timeout`: the message is appended then.
        """
        content = data if isinstance(data, bytes) else memoryview(data).tobytes()
        block = None if headers is None else ctypes.byref(_block_of(headers))
        self._check(self._produce(
            self._open_handle(), block, content, len(content), ctypes.byref(self._offset), ctypes.byref(self._error)))
        return self._offset.value

    def flush(self) -> None:
        """Returns when everything that this producer has appended, and everything before it, is on disk."""
        self._check(self._library.mfq_producer_flush(self._open_handle(), ctypes.byref(self._error)))

    def close(self) -> None:
        """Releases everything. A second call does nothing."""
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            self._library.mfq_producer_close(handle)

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _open_handle(self) -> ctypes.c_void_p:
        if not self._handle:
            raise ValueError("The producer is closed.")
        if self._owner != os.getpid():
            raise ValueError("The producer is the parent's: open one after the fork.")
        return self._handle

    def _check(self, status: int) -> None:
        if status == 0:
            return
        text = self._error.text.decode("utf-8", "replace")
        if status == _DISK:
            raise OSError(self._error.error, text)
        if status == _NO_MEMORY:
            raise MemoryError(text)
        if status == _TIMEOUT:
            raise TimeoutError(text)
        if status == _ARGUMENT:
            raise ValueError(text)
        raise _ERRORS.get(status, QueueError)(text, self._error.offset if self._error.offset >= 0 else None)


def _block_of(headers: Headers) -> _Headers:
    """Those that a message can be given. The library refuses what is too long."""
    if headers.producer is not None:
        raise ValueError("The numbers of producers with an id are given by C# alone.")
    if (headers.trace_id is None) != (headers.span_id is None) or (headers.trace_id is None and headers.trace_state):
        raise ValueError("A trace has an id and a span.")
    block = _Headers()
    if headers.time is not None:
        block.fields |= TIME
        block.time = headers.time
        if block.time != headers.time:
            raise ValueError(f"A time is in units of 100 ns since 1970, and fits 64 bits: {headers.time}")
    if headers.trace_id is not None and headers.span_id is not None:
        if len(headers.trace_id) != 16 or len(headers.span_id) != 8:
            raise ValueError("A trace's id has 16 bytes, and a span's id 8.")
        if not 0 <= (headers.trace_flags or 0) <= 255:
            raise ValueError(f"A trace's flags are a byte: {headers.trace_flags}")
        block.fields |= TRACE
        block.trace_id, block.span_id, block.trace_flags = headers.trace_id, headers.span_id, headers.trace_flags or 0
        state = headers.trace_state.encode("ascii")
        block.trace_state, block.trace_state_length = state, len(state)
    if headers.key is not None:
        block.fields |= KEY
        block.key, block.key_length = headers.key, len(headers.key)
    return block
