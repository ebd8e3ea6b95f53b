"""The header block of a message."""

from __future__ import annotations

import struct
from dataclasses import dataclass

TIME, PRODUCER, CARRIED, TRACE, KEY = 1, 2, 4, 8, 16


@dataclass(frozen=True)
class Headers:
    """What a message says about itself beside its content. What it does not say is None."""

    #: 100 ns since 1970-01-01 UTC.
    time: int | None = None
    #: The producer that numbered the message, and the number.
    producer: tuple[int, int] | None = None
    #: The numbers are those of the store that the message was copied from.
    is_carried: bool = False
    trace_id: bytes | None = None
    span_id: bytes | None = None
    trace_flags: int | None = None
    trace_state: str = ""
    key: bytes | None = None


def block_length(payload: memoryview | bytes) -> int:
    """The length of the block that a payload begins with; 0 when none can begin there."""
    if len(payload) < 8:
        return 0
    words: int
    fields: int
    words, _, fields, key, state = struct.unpack_from("<BBHHH", payload)
    known = (8 + (8 if fields & TIME else 0) + (16 if fields & (PRODUCER | CARRIED) else 0) + (32 if fields & TRACE else 0)
             + (state + 7 & ~7) + (key + 7 & ~7))
    is_possible = (
        known <= words * 8 <= len(payload) and key <= 1024 and state <= 512
        and (key == 0 or fields & KEY) and (state == 0 or fields & TRACE)
        and fields & (PRODUCER | CARRIED) != PRODUCER | CARRIED
    )
    return words * 8 if is_possible else 0


def parse(block: memoryview | bytes) -> Headers:
    """The headers of a whole block."""
    _, _, fields, key_length, state_length = struct.unpack_from("<BBHHH", block)
    at = 8
    found: dict[str, object] = {}
    if fields & TIME:
        found["time"] = struct.unpack_from("<q", block, at)[0]
        at += 8
    if fields & (PRODUCER | CARRIED):
        found["producer"] = struct.unpack_from("<QQ", block, at)
        found["is_carried"] = bool(fields & CARRIED)
        at += 16
    if fields & TRACE:
        found["trace_id"], found["span_id"] = bytes(block[at:at + 16]), bytes(block[at + 16:at + 24])
        found["trace_flags"] = block[at + 24]
        at += 32
        found["trace_state"] = bytes(block[at:at + state_length]).decode("ascii", "replace")
        at += state_length + 7 & ~7
    if fields & KEY:
        found["key"] = bytes(block[at:at + key_length])
    return Headers(**found)  # type: ignore[arg-type]
