#!/usr/bin/env python3
"""Makes stores of MappedFileQueues byte by byte, from docs/FORMAT.md alone, each with what a reader must answer.

    python3 make.py FOLDER

writes FOLDER/NAME/ (a store) and FOLDER/NAME.json for each case. The bytes are the same each time, but for the boot id of the
cases whose `boot` is "this": a reader has to know it as the present boot. The JSON has:

    what      a sentence
    open      "ok", "not-found" or "format" (the reader refuses the meta page)
    kind, structSize, segmentLength
    first     where the log starts
    messages  in order, from the log start: offset, next (offset after it), payload (hex), headers (null, or see `Headers`)
    end       what the read after the last message gives: "empty", "corrupt" or "removed"; and at which offset
    cursors   name -> the stored offset; null for a new consumer; "corrupt"
"""

import json
import os
import shutil
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

STORE_ID = bytes.fromhex("33221100554477668899aabbccddeeff")
OTHER_ID = bytes.fromhex("0102030405060708090a0b0c0d0e0f10")
PAGE = 4096
FREE, CLAIMED, PUBLISHED, PADDING, IN_BATCH = 0, 1, 2, 3, 4
EXTENDED = 1 << 31
HAS_LOG_ID, MAY_HAVE_HEADERS = 1, 2


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ 0x82F63B78 if value & 1 else value >> 1
        table.append(value)
    return table


_TABLE = _table()


def crc(value: int, data: bytes) -> int:
    """CRC-32C without any inversion."""
    for byte in data:
        value = (value >> 8) ^ _TABLE[(value ^ byte) & 0xFF]
    return value


def page_crc(data: bytes) -> int:
    """The usual CRC-32C, of pages and records."""
    return crc(0xFFFFFFFF, data) ^ 0xFFFFFFFF


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def frame_crc(log_id: bytes, offset: int, low: int, payload: bytes) -> int:
    value = crc(0xFFFFFFFF, log_id)
    value = crc(value, struct.pack("<Q", (offset // 8) ^ (low << 32)))
    return value if (low >> 28) & 7 == PADDING else crc(value, padded(payload))


@dataclass
class Headers:
    """What a header block says. Bytes are hex in the JSON, absent fields are null."""

    time: int | None = None
    producer: tuple[int, int] | None = None
    carried: bool = False
    trace: bytes | None = None  # trace id 16, span id 8, flags 1
    trace_state: bytes = b""
    key: bytes | None = None
    unknown: int = 0  # bits of fields that do not exist yet
    unknown_words: int = 0  # and what they take after the known fields

    def block(self) -> bytes:
        fields, body = self.unknown, b""
        if self.time is not None:
            fields |= 1
            body += struct.pack("<q", self.time)
        if self.producer is not None:
            fields |= 4 if self.carried else 2
            body += struct.pack("<QQ", *self.producer)
        if self.trace is not None:
            fields |= 8
            body += self.trace + bytes(7)
        body += padded(self.trace_state)
        if self.key is not None:
            fields |= 16
            body += padded(self.key)
        body += b"\xA5" * 8 * self.unknown_words
        words = 1 + len(body) // 8
        return struct.pack("<BBHHH", words, 0, fields, len(self.key or b""), len(self.trace_state)) + body

    def expected(self) -> dict:
        trace = self.trace
        return {
            "time": self.time,
            "producer": None if self.producer is None else list(self.producer),
            "carried": self.carried,
            "traceId": None if trace is None else trace[:16].hex(),
            "spanId": None if trace is None else trace[16:24].hex(),
            "traceFlags": None if trace is None else trace[24],
            "traceState": self.trace_state.decode(),
            "key": None if self.key is None else self.key.hex(),
        }


@dataclass
class Store:
    """A store in memory. `tail` is where the next frame goes; the methods append and note what a reader must find."""

    name: str
    what: str
    kind: int = 2
    segment_length: int = PAGE
    struct_size: int = 0
    fingerprint: int = 0
    log_id: bytes | None = None
    boot: str = "other"
    checkpoint: int | None = 0
    epoch: int = 0
    log_start_file: int | None = None
    start: int = 0
    control: dict | None = None
    meta_change: object = None
    with_meta: bool = True
    open: str = "ok"
    segments: dict[int, bytearray] = field(default_factory=dict)
    cursors: dict[str, int] = field(default_factory=dict)
    expected_cursors: dict[str, object] = field(default_factory=dict)
    messages: list[dict] = field(default_factory=list)
    end: str = "empty"
    end_at: int | None = None
    extra: dict[str, bytes] = field(default_factory=dict)
    first: int | None = None
    torn_slot: bool = False

    def __post_init__(self) -> None:
        self.tail = self.start
        self.segment(self.start)

    # -- the log

    @property
    def _id(self) -> bytes:
        return self.log_id or STORE_ID

    def segment(self, offset: int) -> bytearray:
        return self.segments.setdefault(offset - offset % self.segment_length, bytearray(self.segment_length))

    def put(self, offset: int, data: bytes) -> None:
        segment, at = self.segment(offset), offset % self.segment_length
        segment[at:at + len(data)] = data

    def flip(self, offset: int, bits: int = 1) -> None:
        self.segment(offset)[offset % self.segment_length] ^= bits

    def frame(self, offset: int, state: int, payload: bytes, extended: bool = False, log_id: bytes | None = None) -> int:
        """Writes a frame; gives the offset after it."""
        low = len(payload) | state << 28 | (EXTENDED if extended else 0)
        checksum = frame_crc(log_id or self._id, offset, low, payload)
        self.put(offset, struct.pack("<II", low, checksum) + payload)
        return offset + 8 + len(padded(payload))

    def room(self) -> int:
        return self.segment_length - self.tail % self.segment_length

    def roll(self) -> None:
        """What is left of the segment becomes padding."""
        room = self.room()
        if room != self.segment_length:
            self.pad(room)
        self.segment(self.tail)

    def pad(self, frame_length: int) -> None:
        low = (frame_length - 8) | PADDING << 28
        self.put(self.tail, struct.pack("<II", low, frame_crc(self._id, self.tail, low, b"")))
        self.tail += frame_length

    def claim(self, length: int, slot: int = 7, generation: int = 3) -> None:
        self.put(self.tail, struct.pack("<II", length | CLAIMED << 28, slot << 20 | generation))
        self.tail += 8 + (length + 7) // 8 * 8

    def add(self, payload: bytes, headers: Headers | None = None, state: int = PUBLISHED, is_read: bool = True) -> int:
        whole = (headers.block() if headers else b"") + payload
        if 8 + len(padded(whole)) > self.room():
            self.roll()
        offset = self.tail
        self.tail = self.frame(offset, state, whole, extended=headers is not None)
        if is_read:
            self.messages.append({
                "offset": offset,
                "next": self.tail,
                "payload": payload.hex(),
                "headers": headers.expected() if headers else None,
            })
        return offset

    def batch(self, *payloads: bytes, headers: Headers | None = None) -> None:
        for payload in payloads[:-1]:
            self.add(payload, headers, IN_BATCH)
        self.add(payloads[-1], headers)

    def damaged(self, payload: bytes = b"damaged message") -> int:
        """Appends a message that the case then damages: the reader must not give it, and ends there."""
        offset = self.add(payload, is_read=False)
        self.end, self.end_at = "corrupt", offset
        self.add(b"after the damage", is_read=False)
        return offset

    # -- the files

    def boot_id(self) -> bytes:
        if self.boot != "this":
            return bytes.fromhex("07b007b007b007408007b007b007b007")
        text = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
        raw = bytes.fromhex(text)
        # The order in which .NET gives the bytes of an identity.
        return raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]

    def meta(self) -> bytes:
        features = MAY_HAVE_HEADERS | (HAS_LOG_ID if self.log_id else 0)
        page = bytearray(PAGE)
        struct.pack_into("<8sIIQQQiIQ16sQ16s", page, 0, b"MFQSTORE", 2, self.kind, 0, features, self.segment_length,
                         self.struct_size, 0, self.fingerprint, STORE_ID, 1_767_323_045_678, self.log_id or bytes(16))
        if self.meta_change:
            self.meta_change(page)
        struct.pack_into("<I", page, 4092, page_crc(bytes(page[:4092])))
        return bytes(page)

    def record(self, offset: int, sequence: int) -> bytes:
        record = struct.pack("<qqq16s16sI", offset, self.epoch, sequence, self.boot_id(), STORE_ID, 0)
        return record + struct.pack("<I", page_crc(record))

    def slots(self, offset: int) -> bytes:
        """An older record in the first slot, the newest in the second."""
        file = bytearray(2 * PAGE)
        file[0:64] = self.record(0, 2)
        file[PAGE:PAGE + 64] = self.record(offset, 3)
        if self.torn_slot:
            file[PAGE + 3] ^= 0x40
        return bytes(file)

    def control_page(self) -> bytes:
        words = {"stage": 1, "tail": 0, "confirmed": 0, "allocated": 0, "log_start": 0, "exclusive": 0, "corrupt": 0,
                 "flushed": 0, "break": False, **(self.control or {})}
        page = bytearray(PAGE)
        struct.pack_into("<8s16s16sq", page, 0, b"MFQCTRL2", STORE_ID, self.boot_id(), self.epoch)
        for at, word in ((56, "stage"), (64, "flushed"), (128, "tail"), (256, "confirmed"), (384, "allocated"),
                         (768, "log_start"), (1024, "exclusive"), (1920, "corrupt")):
            struct.pack_into("<q", page, at, words[word])
        covered = b"".join(bytes(page[a:a + n]) for a, n in ((0, 48), (768, 8), (1024, 8), (1920, 8), (64, 8)))
        struct.pack_into("<I", page, 48, page_crc(covered) ^ (1 if words["break"] else 0))
        return bytes(page)

    def write(self, folder: Path) -> None:
        root = folder / self.name
        for inner in ("commitlog", "offset/consumers", "locks"):
            (root / inner).mkdir(parents=True)
        if self.with_meta:
            (root / "queue.meta").write_bytes(self.meta())
        if self.checkpoint is not None:
            (root / "offset/producer.checkpoint").write_bytes(self.slots(self.checkpoint))
        if self.log_start_file is not None:
            (root / "offset/log-start").write_bytes(self.slots(self.log_start_file))
        if self.control is not None:
            (root / "control").write_bytes(self.control_page())
        for start, data in self.segments.items():
            (root / f"commitlog/{start:020}.log").write_bytes(data)
        for name, word in self.cursors.items():
            path = f"offset/consumers/{name}.cursor" if name else "offset/consumer.cursor"
            (root / path).write_bytes(struct.pack("<Q", word) + bytes(PAGE - 8))
        for name, data in self.extra.items():
            (root / name).write_bytes(data)
        ok = self.open == "ok"
        answer = {
            "name": self.name,
            "what": self.what,
            "boot": self.boot,
            "open": self.open,
            "kind": self.kind if ok else None,
            "structSize": self.struct_size if ok else None,
            "segmentLength": self.segment_length if ok else None,
            "first": (self.start if self.first is None else self.first) if ok else None,
            "messages": self.messages if ok else [],
            "end": {"kind": self.end, "offset": self.tail if self.end_at is None else self.end_at} if ok else None,
            "cursors": self.expected_cursors,
        }
        (folder / f"{self.name}.json").write_text(json.dumps(answer, indent=1) + "\n")


def cursor_word(offset: int) -> int:
    word = offset | 1
    return word | (word * 0xD5029C1D890D25FB & 0xFE00000000000000)


CASES: list[Store] = []


def case(name: str, what: str, **settings) -> Store:
    store = Store(name, what, **settings)
    CASES.append(store)
    return store


def make_whole() -> None:
    case("empty", "A new store.")

    s = case("bytes", "Messages of each length up to 40 bytes, and the longest that a segment holds.", segment_length=8192)
    s.add(b"Hello, MFQ!")
    for length in range(41):
        s.add(bytes((length * 7 + i) & 0xFF for i in range(length)))
    s.add(bytes(i & 0xFF for i in range(8192 - 8)))
    s.add(b"end")

    s = case("structs", "Structs of 24 bytes.", kind=1, struct_size=24, fingerprint=0x0123456789ABCDEF)
    for i in range(300):
        s.add(struct.pack("<qdi4x", i, i / 2, -i))

    s = case("structs-odd-size", "Structs of 13 bytes, some with headers.", kind=1, struct_size=13, fingerprint=5)
    for i in range(50):
        s.add(bytes([i]) * 13, Headers(time=i) if i % 3 == 0 else None)

    s = case("batches", "Batches, with and without headers, and single messages.")
    s.batch(b"1", b"22", b"333")
    s.add(b"single")
    s.batch(b"", b"")
    s.batch(b"a", b"b", headers=Headers(time=-1, key=b"k"))
    s.batch(*[bytes([i]) * i for i in range(60)])

    s = case("headers", "Each field of the header block, alone and together, at its limits.", segment_length=16384)
    trace = bytes(range(1, 26))
    for headers in (
            Headers(), Headers(time=17_674_000_000_000_000), Headers(time=-(1 << 63)), Headers(producer=((1 << 64) - 1, 1)),
            Headers(producer=(5, 6), carried=True), Headers(trace=trace), Headers(trace=trace, trace_state=b"a=b"),
            Headers(trace=trace, trace_state=b"x" * 512), Headers(key=b""), Headers(key=b"key"), Headers(key=b"12345678"),
            Headers(key=bytes(range(256)) * 4),
            Headers(time=1, producer=(2, 3), trace=trace, trace_state=b"vendor=1,other=2", key=b"customer-42"),
            Headers(time=9, key=b"later", unknown=0x20, unknown_words=3), Headers(unknown=0xFF00, unknown_words=254)):
        s.add(b"message with headers", headers)
        s.add(b"", headers)
    s.add(b"none")

    s = case("states", "A frame in each state; the claim's owner is unknown, and the boot is another: the log ends there.")
    s.add(b"before")
    s.pad(8)
    s.pad(40)
    s.put(s.tail - 32, b"what an abandoned claim left behind")
    s.put(s.tail, bytes(8))
    s.batch(b"x", b"y")
    s.claim(20)
    s.end_at = s.tail - 32
    s.add(b"after the claim", is_read=False)

    s = case("dead-claim", "A claim of a dead owner: the reader steps over it.", boot="this")
    s.add(b"before")
    s.claim(100)
    s.add(b"after the claim")

    s = case("dead-claim-in-control", "The same; the control page says that the store was recovered in this boot.", boot="this",
             control={"allocated": PAGE})
    s.add(b"before")
    s.claim(3)
    s.batch(b"after", b"the claim")

    s = case("in-order", "A store as an orderly end leaves it: whoever comes next has nothing to repair.", boot="this")
    for i in range(20):
        s.add(bytes([i]) * 300)
    s.segment(2 * PAGE)
    s.control = {"tail": s.tail, "confirmed": PAGE, "allocated": 2 * PAGE, "flushed": PAGE}
    s.checkpoint = PAGE
    s.cursors = {"": cursor_word(s.tail)}
    s.expected_cursors = {"": s.tail}
    s.extra = {"locks/slots": bytes(65536), "locks/producers": b""}

    s = case("rest-of-8", "A segment whose last 8 bytes are a padding of length 0, and one that ends with its last message.")
    s.add(bytes(PAGE - 16 - 8))
    s.add(b"begins the second segment")
    s.add(bytes(s.room() - 8))
    s.add(b"begins the third one")

    s = case("rolled", "Five segments, each with padding at its end.")
    for i in range(40):
        s.add(bytes([i]) * 500)
    s.checkpoint = 2 * PAGE

    s = case("ends-with-segment", "The log ends where a segment ends, and the next file does not exist.")
    s.add(bytes(PAGE - 8))

    s = case("prepared", "The next segment exists already, and is empty.")
    s.add(b"only message")
    s.segment(PAGE)

    s = case("recycled", "A segment that was another one before: a page longer, with frames of it after what is allocated.",
             segment_length=16384, control={"allocated": 16384 + 4096}, boot="this")
    for i in range(17):
        s.add(bytes([i]) * 1000)
    old = Store("", "", segment_length=16384)
    for i in range(12):
        old.add(bytes([i]) * 1000)
    last = s.segment(16384)
    last[4096:] = old.segments[0][4096:]
    last += old.segments[0][:4096]

    s = case("trimmed", "The control page has the log start; older files are not removed yet.", boot="this",
             control={"log_start": 2 * PAGE, "allocated": 4 * PAGE}, first=2 * PAGE)
    for i in range(30):
        s.add(bytes([i]) * 400)
    s.messages = [m for m in s.messages if m["offset"] >= 2 * PAGE]

    s = case("trimmed-without-control", "No control page: the file log-start tells what was removed.", log_start_file=PAGE,
             start=PAGE, checkpoint=PAGE)
    for i in range(30):
        s.add(bytes([i]) * 400)

    s = case("gap-before-run", "No control page: only the contiguous segments up to the checkpoint's are the log.",
             start=3 * PAGE, checkpoint=4 * PAGE)
    for i in range(20):
        s.add(bytes([i]) * 400)
    s.frame(PAGE, PUBLISHED, b"a segment that a power loss brought back")

    s = case("zero-segment-before-run", "No control page: a segment of zeros before the run is no part of the log.",
             start=3 * PAGE, checkpoint=4 * PAGE)
    for i in range(20):
        s.add(bytes([i]) * 400)
    s.segment(2 * PAGE)

    s = case("high-offsets", "Offsets above 2^35 and 2^40, where they meet length and state in the checksum's first word.",
             start=(1 << 45) + (1 << 36), log_start_file=(1 << 45) + (1 << 36), checkpoint=(1 << 45) + (1 << 36))
    for i in range(12):
        s.add(bytes([i]) * 700)

    s = case("log-id", "A snapshot: the checksums cover the log id of its source.", log_id=OTHER_ID)
    s.add(b"from the source")

    s = case("torn-checkpoint", "The newest record is torn: the older one counts.", torn_slot=True, checkpoint=PAGE)
    s.add(b"message")

    s = case("no-checkpoint", "The checkpoint is missing.", checkpoint=None)
    s.add(b"message")

    s = case("bad-control", "The control page's checksum is wrong: nothing of it is believed.",
             control={"log_start": PAGE, "break": True})
    s.add(b"message")

    s = case("short-control", "The control file is too short.", extra={"control": b"MFQCTRL2"})
    s.add(b"message")

    s = case("compatible-feature", "An unknown compatible feature is ignored.",
             meta_change=lambda page: struct.pack_into("<Q", page, 16, 1 << 40))
    s.add(b"message")

    s = case("stray-files", "Files of other names are left alone.",
             extra={"commitlog/00000000000000004096": b"x", "commitlog/notes.log": b"x",
                    "commitlog/00000000000000004097.log": b"x", "commitlog/00000000000000008192.log.7-1.tmp": b"x"})
    s.add(b"message")

    s = case("cursors", "Cursors of each kind.")
    first = s.add(b"one")
    second = s.add(b"two")
    s.cursors = {"": cursor_word(first), "second": cursor_word(second), "new": int.from_bytes(b"MFQ-NONE", "little"),
                 "zeros": 0, "flipped": cursor_word(second) ^ 1 << 20, "no-mark": cursor_word(second) & ~1,
                 "far": cursor_word((1 << 57) - 8)}
    s.expected_cursors = {"": first, "second": second, "new": None, "zeros": "corrupt", "flipped": "corrupt",
                          "no-mark": "corrupt", "far": (1 << 57) - 8}


def make_damaged() -> None:
    def damage(name: str, what: str, **settings) -> tuple[Store, int]:
        s = case(f"damaged-{name}", what, **settings)
        s.add(b"whole")
        return s, s.damaged()

    s, at = damage("payload", "One bit of a payload.")
    s.flip(at + 12, 0x10)
    s, at = damage("last-byte", "One bit of a payload's last byte.")
    s.flip(at + 8 + 14, 0x80)
    s, at = damage("checksum", "One bit of a checksum.")
    s.flip(at + 6)
    s, at = damage("length", "A length that is one too long.")
    s.flip(at, 0x10)
    s, at = damage("length-beyond", "A length beyond the segment's end.")
    s.flip(at + 2, 0x80)
    for state in (0, 5, 6, 7):
        s, at = damage(f"state-{state}", f"State {state} with a length.")
        low = 15 | state << 28
        s.put(at, struct.pack("<II", low, frame_crc(STORE_ID, at, low, b"damaged message")))
    for state in (0, 1, 3):
        s, at = damage(f"extended-state-{state}", f"Bit 31 in a frame of state {state}.")
        low = 15 | state << 28 | EXTENDED
        s.put(at, struct.pack("<II", low, frame_crc(STORE_ID, at, low, b"")))
    s, at = damage("high-half-only", "Length and state are zero, and the checksum is not.")
    s.put(at, struct.pack("<II", 0, 5))
    s, at = damage("padding", "A padding whose checksum is wrong.")
    s.put(at, struct.pack("<II", 16 | PADDING << 28, 0x12345678))

    def block(name: str, what: str, payload: bytes) -> None:
        s, at = damage(f"block-{name}", what)
        s.put(at, bytes(32))
        s.frame(at, PUBLISHED, payload, extended=True)

    block("none", "Bit 31, and the payload is too short for a block.", b"1234567")
    block("zero", "A block of no words.", bytes(16))
    block("long", "A block longer than the payload.", struct.pack("<BBHHH", 3, 0, 0, 0, 0) + bytes(8))
    block("time", "A block shorter than its fields.", struct.pack("<BBHHH", 1, 0, 1, 0, 0) + bytes(8))
    block("key", "A key longer than the block.", struct.pack("<BBHHH", 2, 0, 16, 9, 0) + bytes(8))
    block("key-without-field", "A key's length without a key.", struct.pack("<BBHHH", 2, 0, 0, 3, 0) + bytes(8))
    block("state-without-trace", "A trace state's length without a trace.", struct.pack("<BBHHH", 2, 0, 0, 0, 3) + bytes(8))
    block("producers", "Both producers.", struct.pack("<BBHHH", 3, 0, 6, 0, 0) + bytes(16))

    s = case("damaged-struct-length", "In a store of structs, a message of another length.", kind=1, struct_size=8, fingerprint=1)
    s.add(b"12345678")
    s.end, s.end_at = "corrupt", s.tail
    s.add(b"123456789", is_read=False)

    s = case("damaged-key-too-long", "A key of 1,025 bytes.")
    s.add(b"whole")
    s.end, s.end_at = "corrupt", s.tail
    s.add(b"", Headers(key=bytes(1025)), is_read=False)

    s, at = damage("claim-of-generation-0", "A claim of a generation that no slot has.", boot="this")
    s.put(at, struct.pack("<II", 15 | CLAIMED << 28, 7 << 20))
    s, at = damage("claim-below-checkpoint", "A claim where everything is on disk and whole.", checkpoint=1000)
    s.put(at, struct.pack("<II", 15 | CLAIMED << 28, 7 << 20 | 3))
    s, at = damage("hole", "A free header below the checkpoint.", checkpoint=1000)
    s.put(at, bytes(8))

    s = case("damaged-missing-segment", "A segment below the checkpoint is missing.", boot="this",
             control={"allocated": 4 * PAGE}, checkpoint=3 * PAGE)
    for i in range(30):
        s.add(bytes([i]) * 400)
    del s.segments[PAGE]
    s.messages = [m for m in s.messages if m["offset"] < PAGE]
    s.end, s.end_at = "corrupt", PAGE

    s = case("damaged-truncated", "A file that ends within a message.")
    for i in range(4):
        s.add(bytes([i]) * 500, is_read=i < 2)
    s.end, s.end_at = "corrupt", 2 * 512
    s.segments[0] = s.segments[0][:2 * 512 + 200]

    s = case("damaged-truncated-header", "A file that ends within a header.")
    for i in range(4):
        s.add(bytes([i]) * 500, is_read=i < 2)
    s.end, s.end_at = "corrupt", 2 * 512
    s.segments[0] = s.segments[0][:2 * 512 + 4]

    s = case("damaged-empty-file", "A segment's file is empty.")
    for i in range(12):
        s.add(bytes([i]) * 500)
    s.end, s.end_at = "corrupt", PAGE
    s.messages = [m for m in s.messages if m["offset"] < PAGE]
    s.segments[PAGE] = bytearray()

    s = case("foreign-segment", "The second segment is another store's.")
    for i in range(12):
        s.add(bytes([i]) * 500)
    s.end, s.end_at = "corrupt", PAGE
    s.messages = [m for m in s.messages if m["offset"] < PAGE]
    s.frame(PAGE, PUBLISHED, bytes(500), log_id=OTHER_ID)

    s = case("swapped-segments", "Two segments in each other's place.")
    for i in range(24):
        s.add(bytes([i]) * 500)
    s.end, s.end_at = "corrupt", PAGE
    s.messages = [m for m in s.messages if m["offset"] < PAGE]
    s.segments[PAGE], s.segments[2 * PAGE] = s.segments[2 * PAGE], s.segments[PAGE]


def make_refused() -> None:
    def refused(name: str, what: str, change=None, open: str = "format", **settings) -> Store:
        s = case(f"refused-{name}", what, open=open, meta_change=change, **settings)
        s.add(b"message")
        return s

    def word(at: int, form: str, value: object):
        return lambda page: struct.pack_into(form, page, at, value)

    refused("version", "A later version.", word(8, "<I", 3))
    refused("old-version", "An earlier version.", word(8, "<I", 1))
    refused("feature", "An incompatible feature that is not known.", word(24, "<Q", 4 | MAY_HAVE_HEADERS))
    refused("feature-63", "The last incompatible feature.", word(24, "<Q", 1 << 63))
    refused("kind", "An unknown kind.", word(12, "<I", 3))
    refused("segment-zero", "A segment length of 0.", word(32, "<Q", 0))
    refused("segment-odd", "A segment length that is no multiple of a page.", word(32, "<Q", 4097))
    refused("segment-huge", "A segment length above 2^40.", word(32, "<Q", (1 << 40) + 4096))
    refused("segment-negative", "A segment length with bit 63.", word(32, "<Q", 1 << 63 | 4096))
    refused("struct-size", "A negative struct size.", word(40, "<i", -8))
    refused("magic", "Another file.", word(0, "<8s", b"MFQPACK1"))
    s = refused("checksum", "One bit of the meta page.", with_meta=False)
    page = bytearray(s.meta())
    page[3000] ^= 1
    s.extra["queue.meta"] = bytes(page)
    s = refused("short-meta", "A meta page that is too short.", with_meta=False)
    s.extra["queue.meta"] = s.meta()[:4095]
    s = refused("long-meta", "A meta page that is too long.", with_meta=False)
    s.extra["queue.meta"] = s.meta() + b"\0"
    refused("no-meta", "A store without a meta page.", open="not-found", with_meta=False)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 64
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    make_whole()
    make_damaged()
    make_refused()
    for store in CASES:
        shutil.rmtree(folder / store.name, ignore_errors=True)
        store.write(folder)
    print(f"{len(CASES)} stores in {os.fspath(folder)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
