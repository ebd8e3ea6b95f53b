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
    attach    what a consumer or a producer that cannot recover must say when it comes alone: "ok", "recovery", or as `open`
    recovered null, or the epoch after C# has opened the store, or less where `control` is missing; the messages are the same then
    floors    group -> the offset before which it is done, for retention and producers with a limit; "corrupt"
    producers id -> the last sequence of that producer, for C#
    number    null, or the number of the first message, for C#
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
    attach: str = "recovery"
    recovered: int | None = None
    floors: dict[str, object] = field(default_factory=dict)
    producers: dict[str, int] = field(default_factory=dict)
    number: int | None = None

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
                 "flushed": 0, "break": False, "flag": 0, **(self.control or {})}
        page = bytearray(PAGE)
        struct.pack_into("<8s16s16sq", page, 0, b"MFQCTRL2", STORE_ID, self.boot_id(), self.epoch)
        for at, word in ((56, "stage"), (64, "flushed"), (128, "tail"), (256, "confirmed"), (384, "allocated"), (640, "flag"),
                         (768, "log_start"), (1024, "exclusive"), (1920, "corrupt")):
            struct.pack_into("<Q", page, at, words[word])
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
            (root / name).parent.mkdir(parents=True, exist_ok=True)
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
            "attach": self.attach if ok else self.open,
            "recovered": self.recovered,
            "floors": self.floors,
            "producers": self.producers,
            "number": self.number,
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


def make_orderly() -> None:
    """Stores that nobody has open, in this boot: whoever comes alone asks whether a recovery would change anything."""

    def orderly(name: str, what: str, attach: str = "ok", recovered: int | None = None, **settings) -> Store:
        s = case(name, what, boot="this", attach=attach, recovered=recovered, **settings)
        for i in range(20):
            s.add(bytes([i]) * 300)
        s.segment(s.start + 2 * PAGE)
        s.checkpoint = s.start + PAGE
        s.control = {"tail": s.tail, "confirmed": s.checkpoint, "allocated": s.start + 2 * PAGE, "flushed": s.checkpoint,
                     "log_start": s.start}
        s.cursors = {"": cursor_word(s.tail)}
        s.expected_cursors = {"": s.tail}
        s.extra = {"locks/slots": bytes(65536), "locks/producers": b""}
        return s

    orderly("in-order", "A store as an orderly end leaves it: whoever comes next has nothing to repair.", recovered=0)

    def needs(name: str, what: str, recovered: int | None = None) -> Store:
        return orderly(f"alone-{name}", what, "recovery", recovered)

    needs("stage", "A recovery was cut short.").control["stage"] = 2
    needs("exclusive", "An Exclusive producer died at work.", 0).control["exclusive"] = 1
    needs("corrupt", "The last recovery has found damage.").control["corrupt"] = PAGE + 1
    needs("allocated", "Blocks up to an offset that cannot be.").control["allocated"] = 1 << 60
    s = needs("claim", "A claim whose owner is dead.", 0)
    s.extra["locks/slots"] = bytes(7 * 16) + struct.pack("<I", 3) + bytes(65536 - 7 * 16 - 4)
    s.extra["locks/slot-0007"] = b""
    s.claim(100)
    s = needs("claim-after-padding", "A claim whose owner is dead, after padding.", 0)
    s.extra["locks/slots"] = bytes(7 * 16) + struct.pack("<I", 3) + bytes(65536 - 7 * 16 - 4)
    s.extra["locks/slot-0007"] = b""
    s.pad(40)
    s.claim(100)
    s = needs("batch", "A batch that is not whole.")
    s.add(b"the first of two", state=IN_BATCH)
    s = needs("dirt", "A byte after the end of the log.", 1)
    s.put(s.tail + 160, b"x")
    needs("tail-hint", "The log ends before the tail hint: memory was lost.", 1).control["tail"] += 8
    needs("flushed", "The log ends before what was flushed: memory was lost.", 1).control["flushed"] = 2 * PAGE - 8
    s = needs("cursor", "A cursor beyond the end of the log: memory was lost.", 1)
    s.cursors["far"] = cursor_word(s.tail + 64)
    s.expected_cursors["far"] = s.tail + 64
    s = needs("damaged-cursor", "A damaged cursor.")
    s.cursors["zeros"] = 0
    s.expected_cursors["zeros"] = "corrupt"
    del needs("slots", "The table of slots is missing.").extra["locks/slots"]
    s = orderly("odd-cursors", "Cursors of names that no consumer may have any more: they count as cursors, at their offsets.")
    s.extra["offset/consumers/nul.cursor"] = struct.pack("<Q", cursor_word(304)) + bytes(PAGE - 8)
    s.extra["offset/consumers/Upper.cursor"] = struct.pack("<Q", cursor_word(304)) + bytes(PAGE - 8)
    s = needs("odd-cursor", "A cursor of such a name beyond the end of the log: memory was lost.", 1)
    s.extra["offset/consumers/nul.cursor"] = struct.pack("<Q", cursor_word(s.tail + 64)) + bytes(PAGE - 8)

    # A failed sync: the page cache may show what the disk never got.
    poison = "A sync has failed: readers read, and whoever would join is sent to C#, which reads all of it again."
    orderly("poison-file", poison, "recovery", 1).extra["poison"] = b""
    orderly("poison-bit", f"The file could not be made. {poison}", "recovery", 1).control["flag"] = 1 << 63
    s = orderly("poison-both", f"With a sleeper's flag. {poison}", "recovery", 1)
    s.control["flag"], s.extra["poison"] = 1 << 63 | 8, b"what it holds does not count"
    s = orderly("poison-without-control", poison, "recovery", 1)
    s.control, s.extra["poison"] = None, b""

    make_salvage(orderly)
    make_hints(orderly)


def make_salvage(orderly) -> None:
    """What a recovery has cut off is kept. It concerns readers that were there before, and nobody who comes later."""
    old = Store("", "")
    for i in range(5):
        old.add(bytes([200 + i]) * 100)
    cut = bytes(old.segments[0])

    def names(*cuts: tuple[int, int, int]) -> dict[str, bytes]:
        return {f"salvage/{start:020}-from-{tail:020}-epoch-{epoch}.cut": cut for start, tail, epoch in cuts}

    s = orderly("salvage", "A recovery has cut the log at 608; messages were appended since.", epoch=1)
    s.extra |= names((0, 608, 1))
    s = orderly("salvage-twice", "Two recoveries; the checkpoint and its epoch are of the last one.", epoch=2)
    s.extra |= names((0, 608, 1), (PAGE, PAGE + 304, 2), (2 * PAGE, PAGE + 304, 2))
    s = case("salvage-without-control", "The same; the checkpoint alone has the epoch.", epoch=2, checkpoint=PAGE)
    for i in range(20):
        s.add(bytes([i]) * 300)
    s.extra |= names((0, 608, 1), (0, 304, 2))
    s = orderly("salvage-of-later", "Names of an epoch that the store has not reached: no cut.", epoch=1)
    s.extra |= names((0, 0, 9))
    s = orderly("salvage-names", "Files of other names, and what a repair sets aside.", epoch=1)
    for name in ("notes.txt", "x.cut", "0-from-0-epoch-9.cut.tmp", "repair-20260102T030405Z-x.log", "-from--epoch-.cut"):
        s.extra[f"salvage/{name}"] = b"x"


def group_file(next_record: int, ranges: list, singles: list, store_id: bytes = STORE_ID) -> bytes:
    """Section 15. A range is (kind, start, end, done bits, count), a single (kind, message, own tag as its content has it)."""
    owner, tag = 7 << 20 | 3, 5
    data = bytearray(PAGE + 64 * 16384)
    head = struct.pack("<8sII16sq20x", b"MFQGROUP", 1, 1, store_id, 1_767_323_045_678)
    data[0:64] = head + struct.pack("<I", page_crc(head))
    struct.pack_into("<Q", data, 128, next_record | 9 << 16)
    struct.pack_into("<Q", data, 256, (1 << 63) - 1)
    struct.pack_into("<Q", data, 384, len(ranges) | len(singles) << 32)
    for i, (kind, start, end, done, count) in enumerate(ranges):
        state = kind | 1 << 2 | tag << 8 | (owner << 32 if kind else 0)
        struct.pack_into("<QQQQQ", data, PAGE + 64 * i, state, done | tag << 32, start, end, count)
    for i, (kind, message, own_tag) in enumerate(singles):
        state = kind | 2 << 2 | tag << 8 | (owner << 32 if kind in (1, 2) else 0)
        struct.pack_into("<QQQQQQQQ", data, PAGE + 64 * (8192 + i), state, 0, message, 0, 1 | own_tag << 16 | tag << 40, 0, 0, 1)
    return bytes(data)


def group_saved(end: int, records: list, epoch: int = 0) -> bytes:
    """Each record is (start, end, done bits, count, deliveries)."""
    data = struct.pack("<8s16sqqI20x", b"MFQGRPS1", STORE_ID, epoch, end, len(records))
    for start, after, done, count, deliveries in records:
        data += struct.pack("<qqIBBxxq", start, after, done, count, deliveries, 0)
    return data + struct.pack("<I", page_crc(data))


def make_hints(orderly) -> None:
    """Groups, the index and producers with an id. Readers in other languages leave them alone."""
    done, filling, held, waiting = 0, 1, 2, 3

    s = orderly("groups", "Groups: no cursors, and each holds messages back from its floor on.", recovered=0)
    at = [m["offset"] for m in s.messages]
    table = group_file(2, [
        (done, 0, at[2], 0, 2), (held, at[2], at[6], 0b11, 4), (held, at[6], at[10], 0, 4), (filling, 0, at[4], 0, 4),
    ], [(waiting, at[1], 5), (done, 0, 5), (filling, 0, 4), (waiting, at[12], 5)])
    s.extra["offset/groups/workers.group"] = table
    s.extra["offset/groups/workers.saved"] = group_saved(at[10], [(at[2], at[6], 3, 4, 0), (at[1], 0, 0, 0, 2)])
    # A range that is being filled counts once `next` names it.
    s.extra["offset/groups/filling.group"] = group_file(1, [(done, 0, at[3], 0, 3), (filling, at[3], at[5], 0, 2)], [])
    s.extra["offset/groups/at-the-end.cursor.group"] = group_file(0, [(done, s.tail, s.tail, 0, 0)], [])
    s.extra["offset/groups/no-group.saved"] = group_saved(0, [])
    s.extra["offset/groups/no-group.cursor"] = struct.pack("<Q", cursor_word(0)) + bytes(PAGE - 8)
    s.floors = {"workers": at[1], "filling": at[3], "at-the-end.cursor": s.tail}

    def group(name: str, what: str, file: bytes, floor: object, attach: str = "recovery", recovered: int | None = None) -> None:
        s = orderly(f"group-{name}", what, attach, recovered)
        s.extra["offset/groups/g.group"] = file
        s.extra["offset/groups/g.saved"] = group_saved(at[3], [])
        s.floors = {"g": floor}

    fresh = group_file(0, [(done, at[3], at[3], 0, 0)], [])
    group("alone", "A group that has handed nothing out.", fresh, at[3], "ok", 0)
    group("beyond", "The last hand-out ends beyond the log: memory was lost.",
          group_file(0, [(done, 0, s.tail + 64, 0, 1)], []), s.tail + 64, recovered=1)
    group("checksum", "The checksum of a group's head is wrong.", fresh[:60] + b"1234" + fresh[64:], "corrupt", recovered=0)
    group("short", "A group's file is too short.", fresh[:-1], "corrupt", recovered=0)
    one = [(done, 0, 0, 0, 0)]
    group("foreign", "A group's file is another store's.", group_file(0, one, [], OTHER_ID), "corrupt", recovered=0)
    group("next", "`next` names a record that there is not.", group_file(8192, one, []), "corrupt", recovered=0)
    group("end", "The last hand-out ends where no frame can.", group_file(0, [(done, 0, 7, 0, 0)], []), "corrupt", recovered=0)

    def index(name: str, what: str, number: int, series: int = 7, flip: int | None = None) -> None:
        s = orderly(f"index-{name}", what, recovered=0, number=number, start=PAGE, log_start_file=PAGE)
        page = bytearray(struct.pack("<8sII16sI4xqI8x", b"MFQINDEX", 1, 12, STORE_ID, 7, 0, 18))
        page += struct.pack("<I", page_crc(bytes(page)))
        # 1,000 messages were before what is here.
        entry = struct.pack("<qqqI", PAGE, 1000, 17_674_000_000_000_000, series)
        entry += struct.pack("<I", page_crc(STORE_ID + entry))
        page += bytes(PAGE - len(page) + 32) + entry
        if flip is not None:
            page[flip] ^= 1
        s.extra["offset/index"] = bytes(page)

    index("whole", "An index by which the first message has the number 1,000.", 1000)
    index("series", "Its entries are of another series: they do not count.", 0, series=8)
    index("entry", "The checksum of its entry is wrong.", 0, flip=PAGE + 40)
    index("page", "The checksum of its page is wrong: there is no index.", 0, flip=16)

    s = orderly("producer-file", "A producer with an id: what its file has, and what its messages after that have.")
    offset = s.tail
    for producer, carried in (((77, 6), False), ((77, 9), False), ((77, 8), False), ((77, 50), True), ((78, 99), False)):
        s.add(b"import", Headers(producer=producer, carried=carried))
    s.control["tail"] = s.tail
    page = struct.pack("<8sQ16s28x", b"MFQPROD1", 77, STORE_ID)
    page = page + struct.pack("<I", page_crc(page)) + bytes(64) + struct.pack("<Qq", 5, offset)
    s.extra["offset/producers/import.producer"] = page + bytes(PAGE - len(page))
    page = struct.pack("<8sQ16s28x", b"MFQPROD1", 79, STORE_ID)
    page = page + struct.pack("<I", page_crc(page)) + bytes(64) + struct.pack("<Qq", 12, 0)
    s.extra["offset/producers/quiet.producer"] = page + bytes(PAGE - len(page))
    s.recovered, s.producers = 0, {"import": 9, "quiet": 12}


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
    make_orderly()
    make_damaged()
    make_refused()
    for store in CASES:
        shutil.rmtree(folder / store.name, ignore_errors=True)
        store.write(folder)
    print(f"{len(CASES)} stores in {os.fspath(folder)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
