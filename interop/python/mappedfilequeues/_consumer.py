"""Named consumers: attaching to a store, the name's lock, the mapped cursor."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import random
import stat
import time

from . import _system
from ._reader import _IN_BATCH, EARLIEST, Message, Reader
from ._store import (ALLOCATED, BOOT, CONFIRMED, CONSUMERS, CORRUPT, CURSOR_NEW, EPOCH, EXCLUSIVE, FLAG, FLUSHED, LOG_START,
                     MAY_WAIT, META_BIRTH, META_INODE, OFFSET_MAX, PAGE, POISON, ROOM_FLAG, ROOM_SEQUENCE, STAGE, TAIL, Control,
                     Files, cursor_offset, cursor_word)
from .errors import CorruptError, DeletedError, FormatError, InUseError, OutOfRangeError, QueueError, RecoveryNeededError

_WALK_SECONDS = 10

#: Locks between machines, and mappings of them, are not dependable there.
_UNSAFE = {0x6969, 0x517B, 0xFF534D42, 0xFE534D42, 0x65735546, 0x01021997, 0x00C36400, 0x5346414F, 0x6B414653, 0x73757245,
           0x564C, 0x01161970, 0x7461636F, 0x0BD00BD0, 0x47504653, 0x19830326, 0x786F4256, 0xBACBACBC}


class Consumer(Reader):
    """Reads a store as a named consumer, and stores how far it is. The name is held against every process in any language.

    A new consumer begins at `start`; others where they stopped last. Works beside processes that have the store open; alone, only
    where nothing has to be repaired.
    """

    def __init__(self, path: str | os.PathLike[str], name: str = "", start: int = EARLIEST, *, verify: bool = True) -> None:
        """Takes the name ("" is the default consumer). Raises InUseError when another consumer holds it."""
        self._cursor_name = Files.cursor_name(name)
        self.name = name.lower()
        self._attached = self._meta_lock = self._name_lock = self._cursor_fd = -1
        self._cursor_page: mmap.mmap | None = None
        super().__init__(path, start, verify=verify)

    # -- what a consumer does

    def commit(self) -> None:
        """Everything read so far is done, the last message included. Survives the death of every process."""
        self._check_open()
        control, offset, before = self._control, self._offset + self._in_hand, cursor_offset(self._cursor[0])
        if offset < before:
            # After a seek back: a removal may not have seen the consumer there.
            if not self._store(offset):
                self._store(before)
                raise self._removed(offset)
            return
        self._cursor[0] = cursor_word(offset)
        if control[MAY_WAIT] != 0:
            self._wake_producers()
        if offset < control[LOG_START]:
            raise self._removed(offset)

    def flush(self) -> None:
        """What was committed survives a power loss too."""
        self._check_open()
        files = self._files
        try:
            os.fdatasync(self._cursor_fd)
        except OSError:
            # The system takes the page for clean now; a store of what is there makes it dirty again.
            self._cursor[0] = self._cursor[0]
            raise
        files.check_replaced()
        folder = os.open(os.path.dirname(self._cursor_name), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=files.directory)
        try:
            os.fsync(folder)
        except OSError as error:
            # Where a file system has no sync of folders, there is nothing better to do.
            if error.errno != errno.EINVAL:
                raise
        finally:
            os.close(folder)

    def committed(self) -> int | None:
        """The stored offset."""
        self._check_open()
        return self._files.parse_cursor(self._cursor[0], self.name)

    def seek(self, start: int) -> None:
        """Moves to an offset, EARLIEST or LATEST. The stored offset moves with the next commit."""
        super().seek(start)

    def close(self) -> None:
        """Releases everything; the name last."""
        self._segment = None
        self._cursor_page = None
        self.__dict__.pop("_cursor", None)
        self.__dict__.pop("_control", None)
        if self._cursor_fd >= 0 and self._files.is_own():
            _system.try_range_lock(self._cursor_fd, fcntl.F_UNLCK)
        self._files.release(self._cursor_fd, self._name_lock, self._attached, self._meta_lock)
        self._attached = self._meta_lock = self._name_lock = self._cursor_fd = -1
        super().close()

    def _check_open(self) -> None:
        if self._cursor_page is None:
            raise ValueError("The consumer is closed.")
        if not self._files.is_own():
            raise ValueError("The consumer is the parent's: open one after the fork.")

    # -- attaching, by the rules of docs/DESIGN.md, section 3

    def _attach(self) -> None:
        files = self._files
        if _system.file_system(files.directory) in _UNSAFE:
            raise FormatError(f"Locks and shared mappings are not dependable on this file system: path={files.path}.")
        if files.meta_stat.st_nlink > 1 and not any(
                _system.exists(files.directory, name)
                and _system.is_same(os.stat(name, dir_fd=files.directory), files.meta_stat)
                for name in ("queue.meta.tmp", "queue.meta.snapshot")):
            raise FormatError(f"The store shares its files with another one, as `cp -al` makes them: path={files.path}.")
        try:
            os.mkdir("locks", 0o700, dir_fd=files.directory)
            try:
                folder = os.open("locks", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=files.directory)
            except OSError:
                os.rmdir("locks", dir_fd=files.directory)  # Whoever finds it takes it as it is.
                raise
            self._adopt(folder)
            os.close(folder)
        except FileExistsError:
            pass
        opening = self._lock("locks/open", fcntl.LOCK_EX, 30)
        try:
            second = self._try_lock("locks/open", fcntl.LOCK_EX)
            if second >= 0:
                _system.unlock_and_close(second)
                raise FormatError(f"File locks do not work here: path={files.path}.")
            self._attach_locked()
        finally:
            _system.unlock_and_close(opening)

    def _attach_locked(self) -> None:
        files = self._files
        is_alone = self._take_attached()
        self._take_meta_lock(is_alone)
        self._map_control()
        self._checkpoint = files.checkpoint().offset
        self._epoch = self._control[EPOCH]
        if is_alone and self._needs_recovery():
            raise RecoveryNeededError(f"The store needs a recovery: open it once from C#, path={files.path}.")
        files.is_attached = True
        if is_alone:
            # Never waits long: it is taken exclusively under `open` only, and a probe releases it at once.
            fcntl.flock(self._meta_lock, fcntl.LOCK_SH)
            fcntl.flock(self._attached, fcntl.LOCK_SH)
        # A cleaner of temporary files leaves a locked folder alone.
        _system.try_flock(files.directory, fcntl.LOCK_SH)

    def _take_attached(self) -> bool:
        """True when nobody else is here."""
        files, end = self._files, time.monotonic() + 30
        was_shared = False
        while True:
            self._attached = self._try_lock("locks/attached", fcntl.LOCK_EX)
            if self._attached >= 0:
                return True
            self._attached = self._lock("locks/attached", fcntl.LOCK_SH, max(0.0, end - time.monotonic()))
            if was_shared:
                # Whoever is here may be about to make the control page.
                with contextlib.suppress(RecoveryNeededError):
                    self._map_control()
                control = files.control
                if control is not None and control.writable and control[STAGE] == 1 and (
                        _system.is_this_boot(control.page[BOOT:BOOT + 16])
                        or _system.is_locked(files.directory, "queue.meta", fcntl.LOCK_EX)):
                    return False
                if time.monotonic() >= end:
                    raise InUseError(f"The store is attached, but was not recovered: path={files.path}.")
            _system.unlock_and_close(self._attached)
            self._attached = -1
            if was_shared:
                time.sleep(0.001)
            was_shared = True

    def _take_meta_lock(self, is_alone: bool) -> None:
        """A lock file may have been removed while it was held, so the meta page carries the same lock."""
        files, patience = self._files, _system.Patience(5)
        while True:
            try:
                fd = _system.open_file(files.directory, "queue.meta")
            except FileNotFoundError as error:
                raise DeletedError(f"The store was deleted while it was being opened: path={files.path}.") from error
            taken = _system.try_flock(fd, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
            if taken and _system.is_same(os.fstat(fd), files.meta_stat):
                self._meta_lock = fd
                return
            _system.unlock_and_close(fd)
            if taken:
                raise DeletedError(f"The store was deleted while it was being opened: path={files.path}.")
            if patience.is_over():
                raise InUseError(f"Lock files were removed while others have the store open: path={files.path}.")

    def _map_control(self) -> None:
        control = Control.open(self._files.directory, writable=True)
        if control is None:
            raise RecoveryNeededError(f"The control page is missing or cannot be written: path={self._files.path}.")
        self._control = self._files.control = control

    def _needs_recovery(self) -> bool:
        """Nobody else is here. This process may join only where a recovery, which is left to C#, would change nothing.

        The boot is the one in which the store was recovered last, no flush has failed, no claim is open, no Exclusive producer
        died at work, and nothing says that memory was lost.
        """
        files, control = self._files, self._control
        inode, birth, own_birth = control[META_INODE], control[META_BIRTH], _system.birth(files.meta_fd)
        if (not files.has_valid_control() or control[STAGE] != 1 or not _system.is_this_boot(control.page[BOOT:BOOT + 16])
                or control[EXCLUSIVE] != 0 or control[CORRUPT] != 0 or control[FLAG] & POISON
                or _system.exists(files.directory, "poison") or inode not in (0, files.meta_stat.st_ino)
                or (birth != own_birth and birth != 0 and own_birth != 0)
                # Made by an opener that is alone, before anybody takes them.
                or not _system.exists(files.directory, "locks/slots")
                or not _system.exists(files.directory, "locks/producers")):
            return True
        walk = self._other_place(max(files.log_start(), self._checkpoint))
        is_open_batch = False
        deadline = time.monotonic() + _WALK_SECONDS
        try:
            while (message := walk._find_message(stops_at_claims=True)) is not None:
                # Others wait for `open` meanwhile.
                if time.monotonic() > deadline:
                    return True
                is_open_batch = walk._reach_header() >> 28 & 7 == _IN_BATCH
                walk._offset = message.next_offset
            end, allocated = walk._offset, control[ALLOCATED]
            if walk._is_at_claim or is_open_batch or walk._is_passed() or not self._is_frame_start(control[TAIL]):
                return True
            if end < max(control[TAIL], control[CONFIRMED], control[FLUSHED]) or allocated > OFFSET_MAX:
                return True
            if files.has_reader_beyond(end):
                return True
        except (QueueError, OSError) as error:
            if isinstance(error, InUseError) or getattr(error, "errno", 0) in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
                raise
            return True
        # Nothing is after the end, as far as there are blocks.
        while end < allocated:
            start = end - end % self.segment_length
            if files.has_data(start, end - start, min(allocated - start, self.segment_length)):
                return True
            if not _system.exists(files.directory, files.segment_name(start)):
                return False
            end = start + self.segment_length
        return False

    # -- locks

    def _open_or_make(self, name: str) -> int:
        files = self._files
        while True:
            try:
                return _system.open_file(files.directory, name, os.O_RDWR)
            except FileNotFoundError:
                pass
            try:
                fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=files.directory)
            except FileExistsError:
                continue
            self._adopt(fd)
            return fd

    def _adopt(self, fd: int) -> None:
        """What this process makes has the mode that queue.meta has now, and its owner and group where the process may give them.

        A folder may be entered by those who may read or write.
        """
        try:
            meta = os.fstat(self._files.meta_fd)
            mode = meta.st_mode & 0o666
            if stat.S_ISDIR(os.fstat(fd).st_mode):
                mode |= ((mode | mode >> 1) & 0o222) >> 1
            # Not allowed, or without a number in this user namespace; the mode is what counts.
            with contextlib.suppress(OSError):
                os.fchown(fd, meta.st_uid if os.geteuid() == 0 else -1, meta.st_gid)
            os.fchmod(fd, mode)
        except OSError:
            os.close(fd)
            raise

    def _try_lock(self, name: str, kind: int) -> int:
        """A descriptor that holds the lock; -1 when another open holds it."""
        for _ in range(1000):
            fd = self._open_or_make(name)
            if not _system.try_flock(fd, kind):
                os.close(fd)
                return -1
            # Between open and flock the name may have come to mean another file.
            if _system.is_in_place(self._files.directory, name, fd):
                return fd
            _system.unlock_and_close(fd)
        raise OSError(errno.EAGAIN, "The file is replaced each time", name)

    def _lock(self, name: str, kind: int, seconds: float) -> int:
        patience = _system.Patience(seconds)
        while (fd := self._try_lock(name, kind)) < 0:
            if patience.is_over():
                raise InUseError(f"Another process holds the lock: file={name}, path={self._files.path}.")
        return fd

    # -- the cursor

    def _begin(self, start: int) -> None:
        self._open_cursor()
        self._place(start)
        # It holds retention back, after a power loss too.
        self.flush()

    def _open_cursor(self) -> None:
        files, name = self._files, self._cursor_name
        # `info` probes it for a moment, and a killed process releases its locks one by one.
        self._name_lock = self._lock(f"locks/consumer-{self.name}", fcntl.LOCK_EX, 1)
        # With the name held: its lock may be a new file.
        if not _system.is_in_place(files.directory, "locks/attached", self._attached):
            raise DeletedError(f"Lock files were removed while the store was open: path={files.path}.")
        if not _system.exists(files.directory, name):
            self._make_cursor()
        self._cursor_fd = fd = _system.open_file(files.directory, name, os.O_RDWR)
        length = os.fstat(fd).st_size
        if length < PAGE:
            os.pwrite(fd, bytes(PAGE - length), length)
        # The cursor itself, in case the file of its name's lock was removed under another holder.
        patience = _system.Patience(5)
        while not _system.try_range_lock(fd):
            if patience.is_over():
                raise InUseError(f"Another consumer holds the cursor: file={name}, path={files.path}.")
        self._note_change()
        self._cursor_page = mmap.mmap(fd, PAGE, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._cursor = memoryview(self._cursor_page).cast("Q")

    def _make_cursor(self) -> None:
        """Under another name first, so that it is never seen half-made; the name's lock is held."""
        directory, temporary = self._files.directory, f"{self._cursor_name}.tmp"
        try:
            os.unlink(temporary, dir_fd=directory)
        except FileNotFoundError:
            pass
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=directory)
        self._adopt(fd)
        try:
            page = CURSOR_NEW.to_bytes(8, "little") + bytes(PAGE - 8)
            if os.pwrite(fd, page, 0) != PAGE:
                raise OSError(errno.ENOSPC, "No space left on device", temporary)
            os.fsync(fd)
            os.rename(temporary, self._cursor_name, src_dir_fd=directory, dst_dir_fd=directory)
        finally:
            os.close(fd)

    def _note_change(self) -> None:
        """Before an offset is stored: producers with a limit list the cursors again when this word has changed."""
        if _system.has_atomics():
            _system.add(self._control.address + CONSUMERS, 1)
            return
        # Whatever another process stores at the same time, the word ends as one that nobody has seen before.
        words = self._control.words
        words[CONSUMERS >> 3] = words[CONSUMERS >> 3] + random.getrandbits(40) + 2 & 0xFFFFFFFFFFFFFFFF

    def _wake_producers(self) -> None:
        """The waker's steps, for producers that wait until consumers are further."""
        _system.fence()
        control = self._control
        flag = control[ROOM_FLAG]
        if flag & ~POISON == 0:
            return
        if _system.has_atomics():
            _system.add(control.address + ROOM_SEQUENCE, 1)
            _system.futex_wake(control.address + ROOM_SEQUENCE)
            _system.compare_exchange(control.address + ROOM_FLAG, flag, flag & POISON)
        else:
            # The flag stays, which costs a needless wake each time.
            control.words[ROOM_SEQUENCE >> 3] = control[ROOM_SEQUENCE] + random.getrandbits(20) + 1
            _system.futex_wake(control.address + ROOM_SEQUENCE)

    def _store(self, offset: int) -> bool:
        """Stores an offset that may be below the one before; False when what is there is removed, or may be.

        A removal of segments raises the log start, then reads the cursors again; this stores the cursor, then reads the log
        start. So one of the two sees the other.
        """
        self._cursor[0] = cursor_word(offset)
        self._wake_producers()
        return offset >= self._files.log_start()

    def _removed(self, offset: int) -> OutOfRangeError:
        return OutOfRangeError(
            f"The messages here were removed: offset={offset}, consumer={self.name!r}, path={self._files.path}.", offset)

    def _place(self, start: int) -> None:
        """A stored offset is believed if it is the tail, or the walk from its segment's first byte meets it."""
        stored = self._files.parse_cursor(self._cursor[0], self.name)
        for _ in range(100):
            offset = self._find(start) if stored is None else stored
            if stored is not None:
                is_start = stored == self._control[TAIL] or self._is_frame_start(stored)
                # After the walk, under which the segment may have been removed.
                if stored < self._files.log_start():
                    raise self._removed(stored)
                if not is_start:
                    raise CorruptError(
                        f"The stored offset is not a frame's start: offset={stored}, consumer={self.name!r}.", stored)
            self._move(offset)
            if self._store(offset):
                return
            if stored is not None:
                break
            # Segments were removed meanwhile: where a new consumer starts is another place now.
        raise self._removed(offset)


__all__ = ["Consumer", "Message"]
