using System.Runtime.InteropServices;

namespace MappedFileQueues.Platform.Linux.Calls;

/// <summary>
/// The C library's functions, as they are. Functions that old C libraries lack (renameat2, statx, membarrier, futex) go through
/// syscall(2); the numbers differ between x64 and arm64, the layouts used here do not.
/// </summary>
internal static unsafe partial class LinuxNative
{
    public const int O_RDONLY = 0;
    public const int O_RDWR = 2;
    public const int O_CREAT = 0x40;
    public const int O_EXCL = 0x80;
    public const int O_NOCTTY = 0x100;
    public const int O_NONBLOCK = 0x800;
    public const int O_CLOEXEC = 0x80000;

    public const int AT_FDCWD = -100;
    public const int AT_EMPTY_PATH = 0x1000;
    public const int AT_SYMLINK_FOLLOW = 0x400;

    public const int RLIMIT_FSIZE = 1;

    /// <summary>_IOW(0x94, 9, int), for ioctl(2): the file becomes a clone of another one.</summary>
    public const nuint FICLONE = 0x40049409;

    /// <summary>_IOR('f', 1, long), for ioctl(2): the flags of chattr(1), which are an int all the same.</summary>
    public const nuint FS_IOC_GETFLAGS = 0x80086601;

    /// <summary>_IOW('f', 2, long).</summary>
    public const nuint FS_IOC_SETFLAGS = 0x40086602;

    /// <summary>Blocks are overwritten in place; files and directories inherit it from their directory.</summary>
    public const int FS_NOCOW_FL = 0x0080_0000;

    /// <summary>FS_COMPR_FL and FS_NOCOMP_FL.</summary>
    public const int CompressionFlags = 0x404;

    public const int F_OFD_SETLK = 37;
    public const short F_WRLCK = 1;
    public const short F_UNLCK = 2;

    public const int LOCK_SH = 1;
    public const int LOCK_EX = 2;
    public const int LOCK_NB = 4;
    public const int LOCK_UN = 8;

    public const int FALLOC_FL_KEEP_SIZE = 1;
    public const int FALLOC_FL_ZERO_RANGE = 0x10;
    public const int SEEK_DATA = 3;
    public const int SEEK_HOLE = 4;
    public const uint SYNC_FILE_RANGE_WAIT_BEFORE = 1;
    public const uint SYNC_FILE_RANGE_WRITE = 2;

    public const int PROT_READ = 1;
    public const int PROT_WRITE = 2;
    public const int MAP_SHARED = 1;
    public const int MADV_RANDOM = 1;
    public const int MADV_DONTNEED = 4;
    public const int MADV_POPULATE_READ = 22;
    public const int MADV_POPULATE_WRITE = 23;

    public const int POSIX_FADV_SEQUENTIAL = 2;
    public const int POSIX_FADV_WILLNEED = 3;

    /// <summary>For preadv2(2): EAGAIN instead of waiting for a disk.</summary>
    public const int RWF_NOWAIT = 8;

    public const int RENAME_NOREPLACE = 1;

    public const int FUTEX_WAIT = 0;
    public const int FUTEX_WAKE = 1;
    public const int FUTEX_WAITV_MAX = 128;

    public const int CLOCK_MONOTONIC = 1;

    public const int MFD_CLOEXEC = 1;
    public const int MFD_NOEXEC_SEAL = 8;

    public const int MEMBARRIER_CMD_QUERY = 0;
    public const int MEMBARRIER_CMD_GLOBAL = 1 << 0;
    public const int MEMBARRIER_CMD_GLOBAL_EXPEDITED = 1 << 1;
    public const int MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED = 1 << 2;

    private const string Libc = "libc";

    private static readonly bool s_arm64 = RuntimeInformation.ProcessArchitecture == Architecture.Arm64;

    /// <summary>It differs between the two architectures.</summary>
    public static int O_DIRECTORY => s_arm64 ? 0x4000 : 0x10000;

    public static nint SYS_futex => s_arm64 ? 98 : 202;

    /// <summary>Since Linux 5.16; the same number everywhere.</summary>
    public static nint SYS_futex_waitv => 449;

    public static nint SYS_membarrier => s_arm64 ? 283 : 324;

    public static nint SYS_preadv2 => s_arm64 ? 286 : 327;

    public static nint SYS_renameat2 => s_arm64 ? 276 : 316;

    public static nint SYS_statx => s_arm64 ? 291 : 332;

    public static nint SYS_memfd_create => s_arm64 ? 279 : 319;

    public static nint SYS_newfstatat => s_arm64 ? 79 : 262;

    public static nint SYS_getdents64 => s_arm64 ? 61 : 217;

    [LibraryImport(Libc, SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    public static partial int openat(int directory, string path, int flags, uint mode);

    [LibraryImport(Libc, SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    public static partial int openat(LinuxHandle directory, string path, int flags, uint mode);

    [LibraryImport(Libc)]
    public static partial int close(int descriptor);

    [LibraryImport(Libc, SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    public static partial int mkdir(string path, uint mode);

    [LibraryImport(Libc, SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    public static partial int mkdirat(LinuxHandle directory, string path, uint mode);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int fchmod(LinuxHandle file, uint mode);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int fchown(LinuxHandle file, uint user, uint group);

    /// <summary>The soft limit comes first, then the hard one.</summary>
    [LibraryImport(Libc)]
    public static partial int getrlimit(int resource, ulong* limits);

    [LibraryImport(Libc, SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    public static partial int renameat(LinuxHandle fromDirectory, string from, LinuxHandle toDirectory, string to);

    [LibraryImport(Libc, SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    public static partial int linkat(LinuxHandle fromDirectory, string from, LinuxHandle toDirectory, string to, int flags);

    [LibraryImport(Libc, SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    public static partial int unlinkat(LinuxHandle directory, string path, int flags);

    [LibraryImport(Libc, EntryPoint = "syscall", SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    public static partial nint renameat2(
        nint number, LinuxHandle fromDirectory, string from, LinuxHandle toDirectory, string to, nint flags);

    [LibraryImport(Libc, EntryPoint = "syscall", SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    public static partial nint statx(nint number, LinuxHandle directory, string path, nint flags, nint mask, LinuxStatx* result);

    [LibraryImport(Libc, EntryPoint = "syscall", SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    public static partial nint memfd_create(nint number, string name, nint flags);

    [LibraryImport(Libc, EntryPoint = "syscall", SetLastError = true, StringMarshalling = StringMarshalling.Utf8)]
    public static partial nint newfstatat(nint number, LinuxHandle directory, string path, byte* result, nint flags);

    [LibraryImport(Libc, EntryPoint = "syscall", SetLastError = true)]
    public static partial nint getdents64(nint number, LinuxHandle directory, byte* buffer, nint length);

    [LibraryImport(Libc, EntryPoint = "syscall", SetLastError = true)]
    public static partial nint futex(nint number, uint* word, nint operation, nint value, LinuxTimespec* timeout);

    [LibraryImport(Libc, EntryPoint = "syscall", SetLastError = true)]
    public static partial nint futex_waitv(
        nint number, WordWait* words, nint count, nint flags, LinuxTimespec* timeout, nint clock);

    [LibraryImport(Libc, EntryPoint = "syscall", SetLastError = true)]
    public static partial nint membarrier(nint number, nint command, nint flags, nint cpu);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int fstatfs(LinuxHandle file, byte* buffer);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int flock(LinuxHandle file, int operation);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int fcntl(LinuxHandle file, int command, LinuxRangeLock* range);

    /// <summary>With <see cref="FICLONE"/>, which takes a descriptor.</summary>
    [LibraryImport(Libc, SetLastError = true)]
    public static partial int ioctl(LinuxHandle file, nuint command, LinuxHandle source);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int ioctl(LinuxHandle file, nuint command, int* flags);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int ftruncate(LinuxHandle file, long length);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int fallocate(LinuxHandle file, int mode, long offset, long length);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial long lseek(LinuxHandle file, long offset, int whence);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial nint pread(LinuxHandle file, byte* buffer, nint count, long position);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial nint pwrite(LinuxHandle file, byte* buffer, nint count, long position);

    /// <summary>The position is in the low word; the high one counts only on 32-bit systems.</summary>
    [LibraryImport(Libc, EntryPoint = "syscall", SetLastError = true)]
    public static partial nint preadv2(
        nint number, LinuxHandle file, LinuxIoVector* vectors, nint count, nint position, nint positionHigh, nint flags);

    /// <summary>Returns the error number itself; errno stays as it was.</summary>
    [LibraryImport(Libc)]
    public static partial int posix_fadvise(LinuxHandle file, long offset, long length, int advice);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int fsync(LinuxHandle file);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int fdatasync(LinuxHandle file);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int syncfs(LinuxHandle file);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int futimens(LinuxHandle file, void* times);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int sync_file_range(LinuxHandle file, long offset, long length, uint flags);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial nint mmap(nint address, nint length, int protection, int flags, LinuxHandle file, long offset);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int munmap(byte* address, nint length);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int madvise(byte* address, nint length, int advice);

    [LibraryImport(Libc, SetLastError = true)]
    public static partial int mincore(byte* address, nint length, byte* pages);
}

/// <summary>struct timespec of 64-bit Linux.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct LinuxTimespec
{
    public long Seconds;
    public long Nanoseconds;
}

/// <summary>struct flock of 64-bit Linux.</summary>
[StructLayout(LayoutKind.Sequential)]
internal struct LinuxRangeLock
{
    public short Type;
    public short Whence;
    public long Start;
    public long Length;
    public int ProcessId;
}

/// <summary>struct iovec.</summary>
[StructLayout(LayoutKind.Sequential)]
internal unsafe struct LinuxIoVector
{
    public byte* Start;
    public nuint Length;
}

/// <summary>struct statx, the fields used here; the layout is the same on all architectures (statx(2)).</summary>
[StructLayout(LayoutKind.Explicit, Size = 256)]
internal struct LinuxStatx
{
    /// <summary>STATX_TYPE, MODE, NLINK, UID, GID, MTIME, INO, SIZE, BLOCKS, BTIME.</summary>
    public const int Wanted = 0xF5F;

    private const uint HasBirth = 0x800;
    private const long NanosecondsPerSecond = 1_000_000_000;

    [FieldOffset(0)]
    public uint Mask;

    [FieldOffset(16)]
    public uint LinkCount;

    [FieldOffset(20)]
    public uint UserId;

    [FieldOffset(24)]
    public uint GroupId;

    [FieldOffset(28)]
    public ushort Mode;

    [FieldOffset(32)]
    public ulong Inode;

    [FieldOffset(40)]
    public ulong Size;

    [FieldOffset(48)]
    public ulong Blocks;

    [FieldOffset(80)]
    public long BirthSeconds;

    [FieldOffset(88)]
    public uint BirthNanoseconds;

    [FieldOffset(112)]
    public long ModifiedSeconds;

    [FieldOffset(120)]
    public uint ModifiedNanoseconds;

    [FieldOffset(136)]
    public uint DeviceMajor;

    [FieldOffset(140)]
    public uint DeviceMinor;

    /// <summary>The device and the inode together.</summary>
    public readonly FileIdentity Identity => new(((ulong)DeviceMajor << 32) | DeviceMinor, Inode);

    /// <summary>The creation time, in nanoseconds since 1970; 0 where the file system does not know.</summary>
    public readonly long Birth => (Mask & HasBirth) == 0 ? 0 : BirthSeconds * NanosecondsPerSecond + BirthNanoseconds;

    /// <summary>
    /// The time of the last write, in nanoseconds since 1970; for a time after 2262, which files may have, the last that fits.
    /// </summary>
    public readonly long Modified => (long)Int128.Clamp(
        (Int128)ModifiedSeconds * NanosecondsPerSecond + ModifiedNanoseconds, long.MinValue, long.MaxValue);

    /// <summary>The same as a date.</summary>
    public readonly DateTimeOffset LastWritten => DateTimeOffset.UnixEpoch.AddTicks(Modified / TimeSpan.NanosecondsPerTick);

    /// <summary>The type bits say "regular file".</summary>
    public readonly bool IsRegularFile => (Mode & 0xF000) == 0x8000;

    /// <summary>The type bits say "directory".</summary>
    public readonly bool IsDirectory => (Mode & 0xF000) == 0x4000;
}
