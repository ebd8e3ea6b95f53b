"""A store's files: the meta page, the control page, records of two slots, the log start, cursors."""

from __future__ import annotations

import errno
import mmap
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from . import _crc, _system
from .errors import CorruptError, DeletedError, FormatError, NotFoundError

PAGE = 4096
OFFSET_MAX = (1 << 57) - (1 << 42)
POISON = 1 << 63
#: Windows takes such a name for a device, whatever follows its first dot.
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
CURSOR_NEW = int.from_bytes(b"MFQ-NONE", "little")

# Words of the control page.
BOOT, EPOCH, STAGE, FLUSHED, TAIL, CONFIRMED, ALLOCATED = 24, 40, 56, 64, 128, 256, 384
SEQUENCE, FLAG, LOG_START, MAY_WAIT, EXCLUSIVE, FENCE = 512, 640, 768, 776, 1024, 1280
POLLERS, CORRUPT, ROOM_SEQUENCE, ROOM_FLAG, CONSUMERS, META_INODE, META_BIRTH = 1792, 1920, 3072, 3200, 3328, 3968, 3976


@dataclass(frozen=True)
class Meta:
    """Identity and geometry, written once."""

    is_struct: bool
    struct_size: int
    segment_length: int
    fingerprint: int
    store_id: bytes
    log_id: bytes


@dataclass(frozen=True)
class Record:
    """The newer valid slot of a checkpoint or a log start."""

    offset: int
    epoch: int
    boot: bytes


class Control:
    """The control page, mapped. Loads and stores of its words are single instructions."""

    def __init__(self, fd: int, writable: bool) -> None:
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self.page = mmap.mmap(fd, PAGE, flags=mmap.MAP_SHARED, prot=access)
        self.words = memoryview(self.page).cast("Q")
        self.writable = writable
        self.address = 0
        if writable:
            import ctypes

            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.page))

    @classmethod
    def open(cls, directory: int, writable: bool) -> Control | None:
        """None when the page is missing or too short, and when it cannot be written."""
        try:
            fd = _system.open_file(directory, "control", os.O_RDWR if writable else os.O_RDONLY)
        except FileNotFoundError:
            return None
        except OSError as error:
            if writable and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
                return None
            raise
        try:
            # The read finds a bad sector, which a load would meet as a signal.
            if os.fstat(fd).st_size < PAGE or len(os.pread(fd, 8, 0)) < 8:
                return None
            return cls(fd, writable)
        finally:
            os.close(fd)

    def __getitem__(self, at: int) -> int:
        return self.words[at >> 3]

    def is_valid(self, store_id: bytes) -> bool:
        """Whether the cold block is what somebody sealed for this store."""
        page = self.page
        covered = page[:48] + page[768:776] + page[1024:1032] + page[1920:1928] + page[64:72]
        now, coming = struct.unpack_from("<II", page, 48)
        actual = _crc.page_crc(covered)
        return covered[:8] == b"MFQCTRL2" and covered[8:24] == store_id and (actual == now or (coming != 0 and actual == coming))


class Files:
    """An open folder of a store, and what its files say."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not os.fsdecode(path):
            raise ValueError("A path is needed.")
        self.path = os.path.realpath(os.fsdecode(path))
        try:
            self._directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise NotFoundError(f"There is no store: path={self.path}.") from error
        self._owner = os.getpid()
        self.meta_fd = -1
        self.control: Control | None = None
        self.is_attached = False
        try:
            self.meta = self._read_meta()
        except BaseException:
            self.close()
            raise

    @property
    def directory(self) -> int:
        """The folder's descriptor, by which all files are opened."""
        if self._directory < 0:
            raise ValueError("The reader is closed.")
        return self._directory

    def is_own(self) -> bool:
        """Whether this process opened it. A child of fork has a copy, which it may only close."""
        return self._owner == os.getpid()

    def close(self) -> None:
        """Closes what is open; mappings end with their last user."""
        self.control = None
        self.release(self.meta_fd, self._directory)
        self.meta_fd = self._directory = -1

    def release(self, *descriptors: int) -> None:
        """Closes those that are open. The locks of a child's copies are the parent's, too, which still needs them."""
        for fd in descriptors:
            if fd >= 0 and self.is_own():
                _system.unlock_and_close(fd)
            elif fd >= 0:
                os.close(fd)

    def _read_meta(self) -> Meta:
        try:
            self.meta_fd = _system.open_file(self.directory, "queue.meta")
        except FileNotFoundError as error:
            raise NotFoundError(f"There is no store: path={self.path}.") from error
        self.meta_stat = os.fstat(self.meta_fd)
        page = os.pread(self.meta_fd, PAGE + 1, 0)
        if len(page) != PAGE or page[:8] != b"MFQSTORE":
            raise FormatError(f"This is not the meta page of a store: path={self.path}.")
        version, kind, _, features, length, size, _, fingerprint, store_id, _, log_id = struct.unpack_from(
            "<IIQQQiIQ16sQ16s", page, 8)
        if struct.unpack_from("<I", page, 4092)[0] != _crc.page_crc(page[:4092]):
            raise FormatError(f"The meta page is damaged: path={self.path}.")
        if version != 2:
            raise FormatError(f"Unknown format version: version={version}, path={self.path}.")
        if features & ~3:
            raise FormatError(f"The store uses features that are not known: features=0x{features:x}, path={self.path}.")
        if kind not in (1, 2) or not PAGE <= length <= 1 << 40 or length % PAGE or size < 0:
            raise FormatError(f"The meta page holds impossible values: path={self.path}.")
        return Meta(kind == 1, size, length, fingerprint, store_id, log_id if features & 1 else store_id)

    def check_replaced(self) -> None:
        """Raises when the store under the handle is another one by now."""
        try:
            if (_system.is_same(os.stat("queue.meta", dir_fd=self.directory), self.meta_stat)
                    and _system.is_same(os.fstat(self.directory), os.stat(self.path))):
                return
        except (FileNotFoundError, NotADirectoryError):
            pass
        raise DeletedError(f"The store was deleted or replaced: path={self.path}.")

    def read_record(self, name: str) -> Record | None:
        """The newer valid record of a file of two slots."""
        newest: Record | None = None
        highest = 0
        for slot in (0, PAGE):
            data = _system.read_file(self.directory, name, 64, slot)
            if data is None or len(data) < 64 or struct.unpack_from("<I", data, 60)[0] != _crc.page_crc(data[:60]):
                continue
            offset, epoch, sequence, boot, store_id = struct.unpack_from("<qqq16s16s", data)
            if store_id == self.meta.store_id and 0 <= offset <= OFFSET_MAX and offset % 8 == 0:
                if newest is None or sequence > highest:
                    newest, highest = Record(offset, epoch, boot), sequence
        return newest

    def checkpoint(self) -> Record:
        """The newest checkpoint; one at 0 when there is none."""
        return self.read_record("offset/producer.checkpoint") or Record(0, 0, bytes(16))

    # -- the control page

    def has_valid_control(self) -> bool:
        return self.control is not None and self.control.is_valid(self.meta.store_id)

    def is_recovered(self) -> bool:
        """Memory is whole, and the words of the control page speak of it."""
        control = self.control
        return self.is_attached or (control is not None and self.has_valid_control() and control[STAGE] == 1
                                    and _system.is_this_boot(control.page[BOOT:BOOT + 16]))

    def plausible(self, at: int) -> int:
        """A word without a checksum: an offset above what has blocks is damage, and counts as 0."""
        assert self.control is not None
        value = self.control[at]
        return value if value <= self.control[ALLOCATED] and value <= OFFSET_MAX and value % 8 == 0 else 0

    def confirmed(self) -> int:
        return self.plausible(CONFIRMED) if self.is_recovered() else 0

    # -- segments

    @staticmethod
    def segment_name(start: int) -> str:
        return f"commitlog/{start:020}.log"

    def _segments(self) -> Iterator[int]:
        for name in self._list("commitlog"):
            if re.fullmatch(r"[0-9]{20}\.log", name):
                start = int(name[:20])
                if start % self.meta.segment_length == 0 and start <= OFFSET_MAX:
                    yield start

    def has_data(self, start: int, begin: int, end: int, short: bool = False) -> bool:
        """Whether anything but zeros is between two positions of a segment; with `short` also where no header has room."""
        try:
            fd = _system.open_file(self.directory, self.segment_name(start))
        except FileNotFoundError:
            return False
        try:
            if short and os.fstat(fd).st_size < 8:
                return True
            while begin < end:
                try:
                    begin = max(begin, os.lseek(fd, begin, os.SEEK_DATA))
                except OSError as error:
                    # ENXIO: nothing but a hole.
                    return error.errno != errno.ENXIO
                data = os.pread(fd, min(1 << 16, end - begin), begin) if begin < end else b""
                if not data or data.count(0) != len(data):
                    return bool(data)
                begin += len(data)
            return False
        finally:
            os.close(fd)

    def log_start(self) -> int:
        """Where the log starts: as the control page says, or else the start of the run of segments at the checkpoint."""
        control, length = self.control, self.meta.segment_length
        if control is not None and (self.is_attached or self.has_valid_control()):
            start = control[LOG_START]
            return start if start <= OFFSET_MAX and start % 8 == 0 else 0
        segments = set(self._segments())
        removed = self.read_record("offset/log-start")
        least = removed.offset if removed and removed.offset % length == 0 else 0
        checkpoint = self.read_record("offset/producer.checkpoint")
        at = max(least, checkpoint.offset if checkpoint else min(segments, default=0))
        start = at - at % length
        if start not in segments and start - length in segments:
            start -= length
        while start - length in segments and self.has_data(start - length, 0, length, short=True):
            start -= length
        return max(start, least)

    # -- cursors

    @staticmethod
    def cursor_name(name: str) -> str:
        """The file of a consumer's cursor."""
        if not isinstance(name, str):
            raise TypeError(f"A consumer's name is a str: name={name!r}")
        if _DEVICE.fullmatch(name) or not re.fullmatch(r"[A-Za-z0-9._-]{0,100}", name):
            raise ValueError(
                "A consumer's name is up to 100 characters of A-Z a-z 0-9 . _ -, and no device of Windows such as nul: "
                f"name={name!r}")
        return f"offset/consumers/{name.lower()}.cursor" if name else "offset/consumer.cursor"

    def stored_offset(self, name: str) -> int | None:
        """What a consumer has committed; None when there is no such consumer, or it has no offset yet."""
        return self._read_cursor(self.cursor_name(name), name)

    def _read_cursor(self, file: str, name: str) -> int | None:
        data = _system.read_file(self.directory, file, 8)
        return None if data is None else self.parse_cursor(int.from_bytes(data, "little") if len(data) == 8 else 0, name)

    def _read_group(self, file: str) -> int:
        """The end of a group's last hand-out (docs/FORMAT.md, section 15)."""
        page = _system.read_file(self.directory, file, 136) or b""
        last = _system.read_file(self.directory, file, 8, PAGE + 16384 * 64 - 8) or b""
        if len(page) == 136 and len(last) == 8:
            magic, version, kind, store_id = struct.unpack_from("<8sII16s", page)
            record = struct.unpack_from("<H", page, 128)[0]
            data = _system.read_file(self.directory, file, 8, PAGE + 64 * record + 24) or b""
            end = int.from_bytes(data, "little")
            if (magic == b"MFQGROUP" and version == 1 and kind == 1 and store_id == self.meta.store_id and record < 8192
                    and struct.unpack_from("<I", page, 60)[0] == _crc.page_crc(page[:60])
                    and len(data) == 8 and end <= OFFSET_MAX and end % 8 == 0):
                return end
        raise CorruptError(f"A group is damaged: file={file}, path={self.path}.")

    def has_reader_beyond(self, end: int) -> bool:
        """Whether a consumer, or a group's last hand-out, is beyond the end: what is appended there would count as read.

        By the names of the files: one may be of a consumer that nobody can open. Raises CorruptError at a damaged one.
        """
        cursors = ["offset/consumer.cursor"] + [
            f"offset/consumers/{name}" for name in self._list("offset/consumers") if name.endswith(".cursor")]
        groups = [f"offset/groups/{name}" for name in self._list("offset/groups") if name.endswith(".group")]
        return any((self._read_cursor(file, file) or 0) > end for file in cursors) or any(
            self._read_group(file) > end for file in groups)

    def _list(self, folder: str) -> list[str]:
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.directory)
        except FileNotFoundError:
            return []
        try:
            return os.listdir(fd)
        finally:
            os.close(fd)

    def parse_cursor(self, word: int, name: str) -> int | None:
        if word == CURSOR_NEW:
            return None
        offset = cursor_offset(word)
        if offset % 8 == 0 and word == cursor_word(offset):
            return offset
        raise CorruptError(f"The stored offset is damaged: consumer={name!r}, word=0x{word:016x}, path={self.path}.")

    def consumers(self) -> list[str]:
        """The names of all consumers that have a cursor and that can be opened; "" is the default one."""
        names = [""] if _system.exists(self.directory, "offset/consumer.cursor") else []
        found = [name[:-7] for name in self._list("offset/consumers") if re.fullmatch(r"[a-z0-9._-]{1,100}\.cursor", name)]
        return names + sorted(name for name in found if not _DEVICE.fullmatch(name))


def cursor_offset(word: int) -> int:
    """The offset that the word of a cursor file holds, whether or not the word is whole."""
    return word & (1 << 57) - 2


def cursor_word(offset: int) -> int:
    """The word of a cursor file: the offset, a mark, and seven check bits."""
    word = offset | 1
    return word | (word * 0xD5029C1D890D25FB & 0xFE00000000000000)
