"""What Linux offers beyond the standard library: futex, membarrier, one atomic operation, locks by name."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import stat
import struct
import sys
import time
from functools import cache

MADV_POPULATE_READ = 22

_NUMBERS = {"x86_64": (202, 324, 319), "aarch64": (98, 283, 279)}
_F_OFD_SETLK = 37
_AT_EMPTY_PATH, _STATX_BTIME = 0x1000, 0x800
_FUTEX_WAIT, _FUTEX_WAKE = 0, 1
_GLOBAL_EXPEDITED, _REGISTER_GLOBAL_EXPEDITED = 1 << 1, 1 << 2

if sys.platform != "linux" or sys.byteorder != "little" or platform.machine() not in _NUMBERS:
    raise ImportError("mappedfilequeues needs 64-bit little-endian Linux (x64, arm64)")

_SYS_FUTEX, _SYS_MEMBARRIER, _SYS_MEMFD_CREATE = _NUMBERS[platform.machine()]
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


def futex_wait(address: int, expected: int, seconds: float) -> None:
    """Sleeps while the word of 32 bits is as expected. Other threads of Python run meanwhile."""
    limit = _Timespec(int(seconds), int(seconds % 1 * 1e9))
    _libc.syscall(ctypes.c_long(_SYS_FUTEX), ctypes.c_void_p(address), _FUTEX_WAIT, ctypes.c_uint32(expected & 0xFFFFFFFF),
                  ctypes.byref(limit), None, 0)


def futex_wake(address: int) -> None:
    """Wakes all that sleep on the word, in every process."""
    _libc.syscall(ctypes.c_long(_SYS_FUTEX), ctypes.c_void_p(address), _FUTEX_WAKE, 0x7FFFFFFF, None, None, 0)


@cache
def _is_registered() -> bool:
    return bool(_libc.syscall(ctypes.c_long(_SYS_MEMBARRIER), _REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0)


def fence() -> bool:
    """A full barrier here, and in the running threads of registered processes; False where the system has none."""
    return _is_registered() and _libc.syscall(ctypes.c_long(_SYS_MEMBARRIER), _GLOBAL_EXPEDITED, 0, 0) == 0


@cache
def _atomics() -> ctypes.CDLL | None:
    """Python has no compare-and-swap; the compiler's own library does."""
    try:
        library = ctypes.CDLL("libatomic.so.1")
        library.__atomic_compare_exchange_8.restype = ctypes.c_bool
        library.__atomic_fetch_add_8.restype = ctypes.c_uint64
    except (OSError, AttributeError):
        return None
    return library


def has_atomics() -> bool:
    """Whether words that others write too can be changed from here. Without it, waiting polls."""
    return _atomics() is not None


def compare_exchange(address: int, expected: int, desired: int) -> bool:
    """One compare-and-swap of 64 bits, with a full barrier."""
    value = ctypes.c_uint64(expected)
    return bool(getattr(_atomics(), "__atomic_compare_exchange_8")(
        ctypes.c_void_p(address), ctypes.byref(value), ctypes.c_uint64(desired), 5, 5))


def add(address: int, value: int) -> None:
    """Adds to a word of 64 bits, with a full barrier."""
    getattr(_atomics(), "__atomic_fetch_add_8")(ctypes.c_void_p(address), ctypes.c_uint64(value), 5)


def open_file(directory: int, name: str, flags: int = os.O_RDONLY) -> int:
    """Opens a regular file; never waits at a named pipe."""
    fd = os.open(name, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=directory)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EINVAL, "Not a regular file", name)


def read_file(directory: int, name: str, length: int, position: int = 0) -> bytes | None:
    """Up to so many bytes; None when there is no file."""
    try:
        fd = open_file(directory, name)
    except FileNotFoundError:
        return None
    try:
        return os.pread(fd, length, position)
    finally:
        os.close(fd)


def exists(directory: int, name: str) -> bool:
    """Whether there is anything of that name."""
    try:
        os.stat(name, dir_fd=directory)
    except FileNotFoundError:
        return False
    return True


def is_same(a: os.stat_result, b: os.stat_result) -> bool:
    """Whether both are one file."""
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)


def is_in_place(directory: int, name: str, fd: int) -> bool:
    """Whether the name still means the open file."""
    try:
        return is_same(os.stat(name, dir_fd=directory), os.fstat(fd))
    except FileNotFoundError:
        return False


def try_flock(fd: int, kind: int) -> bool:
    """Takes the lock without waiting."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock_and_close(fd: int) -> None:
    """Explicitly: a child that is just being started holds a copy of the descriptor until its exec."""
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def is_locked(directory: int, name: str, kind: int) -> bool | None:
    """Whether another open holds the file's lock; None when there is no file."""
    for _ in range(1000):
        try:
            fd = open_file(directory, name)
        except FileNotFoundError:
            return None
        try:
            if not try_flock(fd, kind):
                return True
            if is_in_place(directory, name, fd):
                return False
        finally:
            unlock_and_close(fd)
    raise OSError(errno.EAGAIN, "The file is replaced each time", name)


def try_range_lock(fd: int, kind: int = fcntl.F_WRLCK) -> bool:
    """The lock that a consumer holds on its cursor's file itself, at the place that the format names; F_UNLCK ends it."""
    lock = struct.pack("hhqqi4x", kind, os.SEEK_SET, (1 << 63) - 2, 1, 0)
    try:
        fcntl.fcntl(fd, _F_OFD_SETLK, lock)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK):
            raise
    return True


@cache
def boot_ids() -> tuple[bytes, bytes]:
    """The present boot as files hold it, and its boot id; zeros for what is unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            raw = bytes.fromhex(file.read().strip().replace("-", ""))
        # The order in which .NET gives the bytes of an identity.
        boot_id = raw[3::-1] + raw[5:3:-1] + raw[7:5:-1] + raw[8:]
    except (OSError, ValueError):
        boot_id = bytes(16)
    memory = _memory_id()
    return (memory + boot_id[8:] if memory else boot_id), boot_id


def _memory_id() -> bytes:
    """Memory without a name is in a tmpfs of the kernel's own, whose id is random and as old as the boot."""
    fd = -1
    for flags in (1 | 8, 1):
        fd = _libc.syscall(ctypes.c_long(_SYS_MEMFD_CREATE), b"mfq", ctypes.c_uint(flags))
        if fd >= 0:
            break
    if fd < 0:
        return b""
    try:
        state = ctypes.create_string_buffer(256)
        if _libc.fstatfs(fd, state) != 0 or struct.unpack_from("<I", state)[0] != 0x01021994:
            return b""
        low, high = struct.unpack_from("<II", state, 56)
        return state.raw[56:64] if low and high else b""
    finally:
        os.close(fd)


def is_this_boot(stored: bytes) -> bool:
    """Whether memory is what it was when the identity was written; False when nobody can know."""
    boot, boot_id = boot_ids()
    if stored == bytes(16):
        return False
    if stored in (boot, boot_id):
        return True
    return stored[:8] == boot[:8] if boot[:8] != boot_id[:8] else boot_id != bytes(16) and stored[8:] == boot_id[8:]


def birth(fd: int) -> int:
    """When the file was made, as the control page has it: 100 ns since 0001-01-01 UTC; 0 where the system does not tell."""
    state = ctypes.create_string_buffer(256)
    if (not hasattr(_libc, "statx") or _libc.statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, state) != 0
            or not struct.unpack_from("<I", state)[0] & _STATX_BTIME):
        return 0
    seconds, nanoseconds = struct.unpack_from("<qI", state, 80)
    return int((seconds + 62135596800) * 10_000_000 + nanoseconds // 100)


def file_system(fd: int) -> int:
    """The number of the file system's type."""
    state = ctypes.create_string_buffer(256)
    if _libc.fstatfs(fd, state) != 0:
        raise OSError(ctypes.get_errno(), "Cannot ask for the file system")
    return int(struct.unpack_from("<I", state)[0])


class Patience:
    """Repeats an attempt, a millisecond apart, for so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def is_over(self) -> bool:
        """True when the time is up; otherwise a pause."""
        if time.monotonic() >= self._end:
            return True
        time.sleep(0.001)
        return False
