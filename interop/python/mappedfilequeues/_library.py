"""The C library, where it is installed."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache


@cache
def find() -> ctypes.CDLL | None:
    """libmfq; None where there is none, or one that is too old."""
    for name in ("libmfq.so.2", ctypes.util.find_library("mfq")):
        try:
            library = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if library is not None and hasattr(library, "mfq_producer_flush"):
            return library
    return None
