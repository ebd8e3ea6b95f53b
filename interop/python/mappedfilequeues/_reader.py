"""Reading a store without a trace."""

from __future__ import annotations

import fcntl
import math
import mmap
import operator
import os
import re
import time
from collections.abc import Iterator
from typing import Any

from . import _crc, _headers, _library, _system
from ._headers import Headers
from ._store import (ALLOCATED, EPOCH, FENCE, FLAG, OFFSET_MAX, POISON, POLLERS, SEQUENCE, TAIL, Control, Files)
from .errors import CorruptError, DeletedError, InUseError, OutOfRangeError, RecoveryNeededError

#: The first message that there still is.
EARLIEST = -1
#: The end of what is published.
LATEST = -2

_CLAIMED, _PUBLISHED, _PADDING, _IN_BATCH = 1, 2, 3, 4
_EXTENDED = 1 << 31
_LENGTH = 0x0FFFFFFF
#: A bit for each value of bit 31 and the state.
_POSSIBLE = 0x141E
_STEP = 1 << 20
#: Low halves of headers without a length: single messages, and messages in a batch.
_PLAIN = (_PUBLISHED << 28, _IN_BATCH << 28)
#: So many structs are verified at once.
_PIECE = 1 << 14
#: Longer ones are left to whole calls over bytes.
_SHORT = 256


class Message:
    """A message in the mapping of its segment. `data` stays valid as long as it is referenced."""

    __slots__ = ("data", "offset", "next_offset", "_block")

    def __init__(self, data: memoryview, offset: int, next_offset: int, block: memoryview | None) -> None:
        self.data = data
        self.offset = offset
        self.next_offset = next_offset
        self._block = block

    @property
    def headers(self) -> Headers | None:
        """The message's headers; None when it has none."""
        return None if self._block is None else _headers.parse(self._block)

    def __bytes__(self) -> bytes:
        return bytes(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"Message(offset={self.offset}, length={len(self.data)})"


class _Segment:
    """A mapped segment. The lock on its file, which keeps it from being recycled, lives as long as the mapping."""

    def __init__(self, fd: int, start: int, length: int) -> None:
        self.start = start
        self.usable = min(os.fstat(fd).st_size, length) & ~7
        self.map: mmap.mmap | None = None
        self.view = memoryview(b"")
        if self.usable:
            # It keeps a duplicate of the descriptor, and the lock belongs to both.
            self.map = mmap.mmap(fd, self.usable, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
            self.view = memoryview(self.map)
        self.words = self.view.cast("Q")
        self.address = _library.address_of(self.view) if self.usable and _library.find() is not None else 0
        self.bound = 0
        self.limit = 0
        # For reads of the file: its name may mean another one by now.
        self.fd = os.dup(fd)

    def __del__(self) -> None:
        if "fd" in self.__dict__:
            os.close(self.fd)

    def populate(self, begin: int, end: int) -> bool:
        """Asks for pages before anybody loads from them: a load from a page that the disk cannot give ends the process."""
        assert self.map is not None
        first = begin & ~4095
        for _ in range(1000):
            try:
                self.map.madvise(_system.MADV_POPULATE_READ, first, end - first)
                return True
            except (InterruptedError, BlockingIOError):
                continue
            except OSError:
                return False
        return False


class Reader:
    """Reads a store: takes no name, holds no lock on it, and writes nothing but the flag by which it is woken.

    One thread at a time may use it. It is an iterator over the messages that are there now, and a context manager.
    """

    def __init__(self, path: str | os.PathLike[str], start: int = EARLIEST, *, verify: bool = True) -> None:
        """Opens the store. `start` is an offset, EARLIEST or LATEST; without `verify` no checksum of a message is looked at."""
        self._files = Files(path)
        self._verify = verify
        self._segment: _Segment | None = None
        self._offset = 0
        self._in_hand = 0
        self._is_at_claim = False
        self._is_walk = False
        self._has_tried_to_wait = False
        meta = self._files.meta
        self._seed = _crc.crc32c(_crc.START, meta.log_id)
        self._size = meta.struct_size if meta.is_struct else -1
        self._count_in_c = _crc.count_whole_in_c()
        try:
            self._attach()
            self._begin(start)
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        files = self._files
        files.control = Control.open(files.directory, writable=False)
        checkpoint = files.checkpoint()
        self._checkpoint = checkpoint.offset
        self._epoch = checkpoint.epoch

    def _begin(self, start: int) -> None:
        self.seek(start)

    # -- what it is

    @property
    def offset(self) -> int:
        """The offset of the message that was read last, or else of the next one."""
        return self._offset

    @property
    def next_offset(self) -> int:
        """The offset after the message that was read last."""
        return self._offset + self._in_hand

    @property
    def is_struct(self) -> bool:
        """Whether the store holds structs of one size."""
        return self._files.meta.is_struct

    @property
    def struct_size(self) -> int:
        """The size of the struct in bytes; 0 for messages of any length."""
        return self._files.meta.struct_size

    @property
    def segment_length(self) -> int:
        """The length of each segment."""
        return self._files.meta.segment_length

    @property
    def first(self) -> int:
        """Where the log starts now."""
        return self._files.log_start()

    def stored_offset(self, consumer: str = "") -> int | None:
        """What a consumer has committed; None when it has nothing."""
        return self._files.stored_offset(consumer)

    def consumers(self) -> list[str]:
        """The consumers that have a cursor."""
        return self._files.consumers()

    def close(self) -> None:
        """Releases everything. Messages that are still referenced stay valid."""
        self._segment = None
        self._files.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Not of a walk, which has the reader's own files.
        if not self.__dict__.get("_is_walk", True):
            self.close()

    # -- reading

    def seek(self, start: int) -> None:
        """Moves to an offset, EARLIEST or LATEST."""
        epoch = self._epoch_now()
        offset = self._find(start)
        if epoch != self._epoch:
            # A recovery may have put other files in the segments' places.
            self._segment = None
        self._epoch = epoch
        self._in_hand = 0
        self._move(offset)

    def read(self) -> Message | None:
        """The next message, or None when there is none yet. After an error the position stays."""
        self._offset += self._in_hand
        self._in_hand = 0
        message = self._read_next()
        if message is not None:
            return message
        for _ in range(100):
            try:
                found = self._find_message()
            except (CorruptError, OutOfRangeError):
                if not self._was_cut():
                    raise
                found = None
            # After the look: what is appended after a recovery becomes visible together with its epoch.
            if self._was_cut():
                self._continue_after_cut()
                continue
            if found is not None:
                self._in_hand = found.next_offset - found.offset
            return found
        return None

    def _read_next(self) -> Message | None:
        """The usual case of `read`: a short message without headers, in pages that were asked for. None: look properly."""
        segment, offset = self._segment, self._offset
        if segment is None:
            return None
        at = offset - segment.start
        if at + 8 > segment.bound:
            return None
        words = segment.words
        header = words[at >> 3]
        low = header & 0xFFFFFFFF
        length, end = low & _LENGTH, at + (low & _LENGTH) + 15 & ~7
        if low - length not in _PLAIN or end > segment.bound or length > _SHORT or (self._size >= 0 and length != self._size):
            return None
        if self._verify and self._count_in_c is not None:
            if self._count_in_c(self._seed, offset, segment.address + at, length, 1) == 0:
                return None
        elif self._verify:
            crc = _crc.step(self._seed, (offset >> 3) ^ (low << 32))
            crc = _crc.words_crc(crc, words[at + 8 >> 3:at + 8 + length >> 3])
            if length & 7:
                crc = _crc.step(crc, words[at + 8 + length >> 3] & (1 << (length & 7) * 8) - 1)
            if crc != header >> 32:
                return None
        # After the look, as in `read`.
        control = self._files.control
        if control is not None and control[EPOCH] != self._epoch:
            return None
        self._in_hand = end - at
        return Message(segment.view[at + 8:at + 8 + length], offset, offset + end - at, None)

    def __iter__(self) -> Iterator[Message]:
        while (message := self.read()) is not None:
            yield message

    def follow(self, timeout: float | None = None) -> Iterator[Message]:
        """Every message as it comes; ends when none comes for so many seconds."""
        while (message := self.wait(timeout)) is not None:
            yield message

    def wait(self, timeout: float | None = None) -> Message | None:
        """The next message; sleeps until there is one, for so many seconds at most."""
        if timeout is not None and math.isnan(timeout):
            raise ValueError("A timeout is a number of seconds.")
        message = self.read()
        if message is not None or timeout == 0:
            return message
        control = self._control_for_waiting()
        end = None if timeout is None else time.monotonic() + timeout
        pause, checked = 0.001, time.monotonic()
        while True:
            sequence, sleep = self._prepare_sleep(control) if control is not None else (0, pause)
            message = self.read()
            if message is not None:
                return message
            self._throw_if_poisoned()
            now = time.monotonic()
            if end is not None and now >= end:
                return None
            if now - checked >= 1:
                self._files.check_replaced()
                checked = now
            # A dead owner of a claim wakes nobody.
            sleep = min(sleep, 0.002) if self._is_at_claim else sleep
            sleep = sleep if end is None else min(sleep, end - now)
            if control is not None:
                _system.futex_wait(control.address + SEQUENCE, sequence, sleep)
            else:
                time.sleep(sleep)
                pause = min(pause * 2, 0.01)

    def read_structs(self, dtype: Any, count: int = 1 << 16) -> Any:
        """The structs that are there now, as an array of numpy without a copy, and moves past them. May be empty.

        `dtype` has the size of the store's struct. The array is in the mapping, and stays valid as long as it is referenced. At
        most `count` structs come, and not those after the next one with headers or at the end of a segment: call it again.
        """
        import numpy as np

        dtype = np.dtype(dtype)
        if count < 1:
            raise ValueError(f"A batch has at least one struct: count={count}")
        if not self.is_struct or dtype.itemsize != self.struct_size:
            raise ValueError(f"The store does not hold structs of {dtype.itemsize} bytes: structSize={self.struct_size}")
        first = self.read()
        if first is None:
            return np.empty(0, dtype)
        self._in_hand, segment = 0, self._segment
        assert segment is not None
        size = dtype.itemsize
        stride = 8 + size + 7 & ~7
        at = self._offset - segment.start
        if first._block is not None:
            # One that has headers comes alone.
            self._offset = first.next_offset
            return np.frombuffer(first.data, dtype, 1)
        # More than the first frame only where the pages were asked for.
        end = max(at + stride, min(segment.limit, segment.usable, at + count * stride))
        if end > segment.bound and segment.populate(segment.bound, end):
            segment.bound = end
        many = max(1, min(count, (min(end, segment.bound) - at) // stride))
        frames = np.frombuffer(segment.view, np.dtype(
            {"names": ["header", "struct"], "formats": [np.uint64, dtype], "offsets": [0, 8], "itemsize": stride}), many, at)
        headers = frames["header"].copy()
        low = headers & np.uint64(0xFFFFFFFF)
        is_whole = (low == size | _PUBLISHED << 28) | (low == size | _IN_BATCH << 28)
        many = many if is_whole.all() else int(np.argmin(is_whole))
        if self._verify and many > 0:
            many = self._count_whole(np, segment, at, stride, size, headers[:many])
        # The first one was read and verified alone; what is damaged after it is met by the next call.
        many = max(many, 1)
        self._offset += many * stride
        return frames["struct"][:many]

    def _count_whole(self, np: Any, segment: _Segment, at: int, stride: int, size: int, headers: Any) -> int:
        """How many of the frames from a position on have the right checksum. In pieces, which stay in the processor's cache."""
        many, words = len(headers), stride // 8
        if self._count_in_c is not None:
            return self._count_in_c(self._seed, self._offset, segment.address + at, size, many)
        grid = np.frombuffer(segment.view, np.uint64, many * words, at).reshape(many, words)
        for begin in range(0, many, _PIECE):
            piece, low = grid[begin:begin + _PIECE], headers[begin:begin + _PIECE]
            offsets = np.arange(len(low), dtype=np.uint64) * np.uint64(stride) + np.uint64(self._offset + begin * stride)
            crcs = _crc.steps_of_many(np, np.uint64(self._seed), offsets >> np.uint64(3) ^ low << np.uint64(32))
            for i in range(1, words):
                word = piece[:, i]
                if i == words - 1 and size % 8:
                    # Nothing covers the bytes between a payload and the next frame.
                    word = word & np.uint64((1 << size % 8 * 8) - 1)
                crcs = _crc.steps_of_many(np, crcs, word)
            is_whole = crcs == low >> np.uint64(32)
            if not is_whole.all():
                return begin + int(np.argmin(is_whole))
        return many

    # -- the log

    def _move(self, offset: int) -> None:
        # Not backwards: pages before the place where the segment was entered were not asked for.
        segment = self._segment
        if segment is None or not self._offset <= offset < segment.start + self.segment_length:
            self._segment = None
        self._offset = offset

    def _corrupt(self, what: str) -> CorruptError:
        return CorruptError(f"The log is damaged: {what}, offset={self._offset}, path={self._files.path}.", self._offset)

    def _enter(self) -> bool:
        """Maps the segment of the offset; False when there is none yet."""
        files, offset = self._files, self._offset
        if offset > OFFSET_MAX:
            return False
        start = offset - offset % self.segment_length
        name = files.segment_name(start)
        patience = _system.Patience(5)
        fd = -1
        try:
            while True:
                try:
                    fd = _system.open_file(files.directory, name)
                except FileNotFoundError:
                    break
                # First the lock, then the look whether the name still means this file.
                if _system.try_flock(fd, fcntl.LOCK_SH) and _system.is_in_place(files.directory, name, fd):
                    break
                _system.unlock_and_close(fd)
                fd = -1
                if patience.is_over():
                    raise InUseError(f"A segment is locked: file={name}, path={files.path}.", offset)
            first = files.log_start()
            if start < first:
                raise OutOfRangeError(
                    f"The messages here were removed: offset={offset}, logStart={first}, path={files.path}.", offset)
            if fd < 0:
                return False
            self._segment = _Segment(fd, start, self.segment_length)
            return True
        finally:
            if fd >= 0:
                os.close(fd)

    def _raise_bound(self, segment: _Segment, begin: int, needed: int, wanted: int) -> None:
        end = max(needed, wanted)
        if not segment.populate(begin, end):
            end = needed
            if not segment.populate(begin, end):
                # Before Linux 5.14, or the disk cannot give the page: a read tells.
                if len(os.pread(segment.fd, end - begin, begin)) < end - begin:
                    raise self._corrupt("the file became shorter")
        segment.bound = end

    def _reach_header(self) -> int:
        """The header at the offset; 0 when there is nothing yet."""
        segment = self._segment
        if segment is None or self._offset - segment.start == self.segment_length:
            self._throw_if_poisoned()
            if not self._enter():
                return 0
            segment = self._segment
            assert segment is not None
        at = self._offset - segment.start
        if at + 8 > segment.bound:
            self._throw_if_poisoned()
            if at + 8 > segment.usable:
                raise self._corrupt("the file is too short")
            control = self._files.control
            limit = min(control[ALLOCATED] - segment.start, segment.usable) if control is not None else 0
            if limit < at + 8:
                # The word may be old, or damaged: a read, which touches no mapping, decides.
                header = os.pread(segment.fd, 8, at)
                if len(header) < 8 or header == bytes(8):
                    return 0
                limit = segment.usable
            segment.limit = limit
            self._raise_bound(segment, at, at + 8, min(limit, at + _STEP))
        return segment.words[at >> 3]

    def _throw_if_poisoned(self) -> None:
        """A consumer is told that a sync has failed, though not before every message: pages that it has asked for come first."""
        control = self._files.control
        if self._files.is_attached and not self._is_walk and control is not None and control[FLAG] & POISON:
            raise RecoveryNeededError(
                f"A flush of the store has failed: close it in every process, then open it from C#: path={self._files.path}.")

    def _is_plausible(self, header: int) -> bool:
        room = self.segment_length - self._offset % self.segment_length
        return bool(_POSSIBLE >> (header >> 28 & 15) & 1) and (header & _LENGTH) + 15 & ~7 <= room

    def _is_passed(self) -> bool:
        """The log continues here, so a free header is damage."""
        files, offset = self._files, self._offset
        passed = max(self._checkpoint, files.confirmed(), files.plausible(TAIL) if files.is_attached else 0)
        return offset < passed and offset - offset % self.segment_length >= files.log_start()

    def _crc_of(self, offset: int, low: int, payload: bytes) -> int:
        crc = _crc.step(self._seed, (offset >> 3) ^ (low << 32))
        if len(payload) & 7:
            payload += bytes(-len(payload) & 7)
        return _crc.crc32c(crc, payload)

    def _check_frame(self, segment: _Segment, header: int, verify: bool) -> memoryview:
        """The payload of the frame at the offset, whose header is plausible and no claim; that of padding counts as empty."""
        low, at = header & 0xFFFFFFFF, self._offset - segment.start
        if at + (low & _LENGTH) + 15 & ~7 > segment.usable:
            raise self._corrupt("the file is too short")
        length = 0 if low >> 28 & 7 == _PADDING else low & _LENGTH
        end = at + length + 15 & ~7
        if end > segment.bound:
            self._raise_bound(segment, segment.bound, end, min(segment.limit, end + _STEP))
        payload = segment.view[at + 8:at + 8 + length]
        if verify and self._crc_of(self._offset, low, bytes(payload)) != header >> 32:
            raise self._corrupt("a wrong checksum")
        return payload

    def _find_message(self, stops_at_claims: bool = False) -> Message | None:
        """The next message, over padding and dead claims, at which it may stop instead; the offset stays before it."""
        self._is_at_claim = False
        zero_at = -1
        while True:
            header = self._reach_header()
            offset = self._offset
            if header == 0:
                if not self._is_passed():
                    return None
                # It may have been published between the two looks.
                if zero_at == offset:
                    self._files.check_replaced()
                    raise self._corrupt("messages are missing")
                zero_at = offset
                continue
            if not self._is_plausible(header):
                raise self._corrupt("an impossible header")
            low = header & 0xFFFFFFFF
            length, state = low & _LENGTH, low >> 28 & 7
            size = length + 15 & ~7
            if state == _CLAIMED:
                if stops_at_claims or not self._settle_claim(header):
                    self._is_at_claim = True
                    return None
                continue
            segment = self._segment
            assert segment is not None
            if state == _PADDING:
                self._check_frame(segment, header, True)
                self._offset += size
                continue
            payload = self._check_frame(segment, header, self._verify)
            block = None
            if low & _EXTENDED:
                block_length = _headers.block_length(payload)
                if block_length == 0:
                    raise self._corrupt("an impossible header block")
                block, payload = payload[:block_length], payload[block_length:]
            if self._files.meta.is_struct and len(payload) != self._files.meta.struct_size:
                raise self._corrupt("a message of another length")
            return Message(payload, offset, offset + size, block)

    def _settle_claim(self, claim: int) -> bool:
        """False while the claim's owner may publish it; True when the place is to be looked at again, perhaps after it.

        A dead owner publishes nothing any more, so its claim is stepped over, and left to those who repair.
        """
        files, offset = self._files, self._offset
        if not files.is_recovered():
            record = files.checkpoint()
            if files.has_valid_control() or not _system.is_this_boot(record.boot):
                if offset < self._checkpoint:
                    raise self._corrupt("a claim below the checkpoint")
                return False
        slot, generation = claim >> 52, claim >> 32 & 0xFFFFF
        entry = _system.read_file(files.directory, "locks/slots", 4, slot * 16)
        now = int.from_bytes(entry, "little") if entry is not None and len(entry) == 4 else generation
        flushed = 0 if offset < files.log_start() else max(self._checkpoint, files.confirmed())
        if generation == 0 or generation > now or (offset < flushed and self._reach_header() == claim):
            raise self._corrupt("a claim that cannot be")
        if generation == now:
            held = _system.is_locked(files.directory, f"locks/slot-{slot:04}", fcntl.LOCK_SH)
            if held is None:
                if _system.exists(files.directory, "locks/slots"):
                    raise DeletedError(f"Lock files were removed: path={files.path}.", offset)
                held = _system.is_locked(files.directory, "queue.meta", fcntl.LOCK_EX)
            if held:
                return False
        # The owner may have published and gone between the look and the probe.
        if self._reach_header() == claim:
            self._offset += (claim & _LENGTH) + 15 & ~7
        return True

    def _is_frame_start(self, offset: int) -> bool:
        """Whether a frame begins there, or the tail is there (docs/FORMAT.md, section 11).

        A whole frame is there, or the walk from the checkpoint meets it, or the walk from the segment's first byte, or the one
        before. The last one ends at damage below the checkpoint.
        """
        first = self._files.log_start()
        if offset < first or offset % 8 or offset > OFFSET_MAX:
            return False
        if offset == first:
            return True
        start = offset - offset % self.segment_length
        start -= self.segment_length if offset == start else 0
        return (self._has_frame(offset) or (start < self._checkpoint <= offset and self._walk_meets(self._checkpoint, offset))
                or self._walk_meets(start, offset))

    def _has_frame(self, offset: int) -> bool:
        """Whether a whole frame is there, which is no claim."""
        place = self._other_place(offset)
        try:
            header = place._reach_header()
            if place._segment is None or not place._is_plausible(header) or header >> 28 & 7 == _CLAIMED:
                return False
            place._check_frame(place._segment, header, True)
        except (CorruptError, OutOfRangeError):
            return False
        return True

    def _walk_meets(self, start: int, offset: int) -> bool:
        """Whether the frames from a start on lead to the offset."""
        walk = self._other_place(start)
        try:
            while walk._offset < offset:
                header = walk._reach_header()
                if header == 0 or not walk._is_plausible(header):
                    break
                walk._offset += (header & _LENGTH) + 15 & ~7
        except (CorruptError, OutOfRangeError):
            return False
        return walk._offset == offset

    def _other_place(self, offset: int) -> Reader:
        """Another place in the same store, for a walk."""
        other = object.__new__(Reader)
        other.__dict__.update(self.__dict__, _segment=None, _offset=offset, _in_hand=0, _is_walk=True)
        return other

    def _find(self, start: int) -> int:
        files, start = self._files, operator.index(start)
        if start == EARLIEST:
            return files.log_start()
        if start == LATEST:
            walk = self._other_place(max(files.log_start(), self._checkpoint, files.confirmed()))
            while (message := walk._find_message()) is not None:
                walk._offset = message.next_offset
            return walk._offset
        if start < 0:
            raise ValueError("An offset is not negative")
        if self._is_frame_start(start):
            return start
        raise OutOfRangeError(f"The offset is neither a frame's start nor the tail: offset={start}, path={files.path}.", start)

    # -- cuts: a recovery may remove the end of the log under a reader that is not attached

    def _epoch_now(self) -> int:
        control = self._files.control
        if control is None or control[EPOCH] == self._epoch or not self._files.has_valid_control():
            return self._epoch
        return control[EPOCH]

    def _was_cut(self) -> bool:
        return not self._files.is_attached and self._epoch_now() != self._epoch

    def _continue_after_cut(self) -> None:
        epoch, lowest = self._epoch_now(), OFFSET_MAX
        for name in self._files._list("salvage"):
            match = re.fullmatch(r"[0-9]+-from-([0-9]{1,20})-epoch-([0-9]{1,18})\.cut", name)
            if match and int(match[2]) > self._epoch:
                lowest = min(lowest, int(match[1]))
        self._checkpoint = self._files.checkpoint().offset
        if self._offset > lowest or not self._is_frame_start(self._offset):
            raise OutOfRangeError(
                f"A recovery has cut the log below the reader: offset={self._offset}, path={self._files.path}.", self._offset)
        self._epoch = epoch
        self._segment = None

    # -- waiting

    def _control_for_waiting(self) -> Control | None:
        """The control page, when the waiters' flag in it can be raised."""
        files = self._files
        if not self._has_tried_to_wait:
            self._has_tried_to_wait = True
            if files.control is not None and not files.control.writable and _system.has_atomics():
                files.control = Control.open(files.directory, writable=True) or files.control
        control = files.control
        return control if control is not None and control.writable and _system.has_atomics() else None

    def _prepare_sleep(self, control: Control) -> tuple[int, float]:
        """The waiter's steps 1 to 3: the sequence, the flag above it, the fence. Gives how long one sleep may last, too."""
        sequence = control[SEQUENCE]
        while (flag := control[FLAG]) & ~POISON < sequence + 1:
            if _system.compare_exchange(control.address + FLAG, flag, flag & POISON | sequence + 1):
                break
        if not _system.fence() and control[FENCE] != 0:
            return sequence, 0.001
        # An opener that is alone may take away the flag of a reader that is not attached.
        return sequence, 0.1 if not self._files.is_attached or control[POLLERS] != 0 else 1.0
