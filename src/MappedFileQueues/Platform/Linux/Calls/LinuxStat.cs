using System.Buffers.Binary;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Platform.Linux.Calls;

/// <summary>
/// What the system knows about a file: by statx(2), or by its predecessor where a sandbox denies statx. Profiles of seccomp that
/// are older than the call answer it with EPERM (Docker before 18.04, libseccomp before 2.3.3), others with ENOSYS.
/// </summary>
internal static unsafe class LinuxStat
{
    /// <summary>The length of struct stat: 144 on x64, 128 on arm64.</summary>
    private const int OldLength = 144;

    /// <summary>Like statx: 0, or an error that is this thread's last P/Invoke error.</summary>
    public static nint Read(LinuxHandle directory, string path, int flags, LinuxStatx* result)
    {
        nint code = LinuxNative.statx(LinuxNative.SYS_statx, directory, path, flags, LinuxStatx.Wanted, result);
        if (code == 0 || !IsDenied(LinuxErrors.Last))
            return code;
        byte* old = stackalloc byte[OldLength];
        code = LinuxNative.newfstatat(LinuxNative.SYS_newfstatat, directory, path, old, flags);
        Convert(new ReadOnlySpan<byte>(old, OldLength), result);
        return code;
    }

    private static bool IsDenied(int errno) => errno is DiskErrors.EPERM or DiskErrors.ENOSYS;

    /// <summary>
    /// From struct stat of asm/stat.h, which has no time of birth. The two architectures differ in the fields' order.
    /// </summary>
    private static void Convert(ReadOnlySpan<byte> old, LinuxStatx* result)
    {
        bool isArm64 = RuntimeInformation.ProcessArchitecture == Architecture.Arm64;
        ulong device = LongAt(old, 0);
        *result = new LinuxStatx
        {
            // As makedev(3) has put them together.
            DeviceMajor = (uint)((device >> 8) & 0xFFF),
            DeviceMinor = (uint)((device & 0xFF) | ((device >> 12) & 0xFFF00)),
            Inode = LongAt(old, 8),
            LinkCount = WordAt(old, isArm64 ? 20 : 16),
            Mode = (ushort)WordAt(old, isArm64 ? 16 : 24),
            UserId = WordAt(old, isArm64 ? 24 : 28),
            GroupId = WordAt(old, isArm64 ? 28 : 32),
            Size = LongAt(old, 48),
            Blocks = LongAt(old, 64),
            ModifiedSeconds = (long)LongAt(old, 88),
            ModifiedNanoseconds = (uint)LongAt(old, 96),
        };
    }

    private static uint WordAt(ReadOnlySpan<byte> bytes, int position) =>
        BinaryPrimitives.ReadUInt32LittleEndian(bytes[position..]);

    private static ulong LongAt(ReadOnlySpan<byte> bytes, int position) =>
        BinaryPrimitives.ReadUInt64LittleEndian(bytes[position..]);
}
