"""The C library, where it is installed."""

from __future__ import annotations

import ctypes
from functools import cache


@cache
def find() -> ctypes.CDLL | None:
    """libmfq; None where there is none, or one that is too old."""
    try:
        library = ctypes.CDLL("libmfq.so.2")
    except OSError:
        return None
    return library if hasattr(library, "mfq_count_whole") else None


def find_again() -> ctypes.CDLL | None:
    """The same for who cannot do without: the library may be there since it was looked for."""
    if find() is None:
        find.cache_clear()
    return find()


class _Buffer(ctypes.Structure):
    """Py_buffer."""

    _fields_ = [
        ("buf", ctypes.c_void_p), ("obj", ctypes.py_object), ("len", ctypes.c_ssize_t), ("itemsize", ctypes.c_ssize_t),
        ("readonly", ctypes.c_int), ("ndim", ctypes.c_int), ("format", ctypes.c_char_p), ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p), ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    ]


def address_of(buffer: object) -> int:
    """Where the bytes of an object are, as long as it lives: ctypes itself gives it of writable ones only."""
    view = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(buffer), ctypes.byref(view), 0)
    try:
        return int(view.buf)
    finally:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(view))
