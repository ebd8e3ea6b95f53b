using System.Runtime.InteropServices;

namespace MappedFileQueues.Platform.Linux.Calls;

/// <summary>
/// What statfs(2) tells: file systems on which mappings or locks between processes are not dependable; btrfs; free room.
/// </summary>
internal static unsafe class LinuxFileSystems
{
    /// <summary>struct statfs has 120 bytes on x64 and arm64.</summary>
    public const int StatfsRoom = 256;

    private const int BlockLengthAt = 8;
    private const int BlocksAvailableAt = 32;

    /// <summary>The name, or null for any other file system.</summary>
    public static string? UnsafeName(LinuxHandle directory, string path) => UnsafeName(TypeOf(directory, path));

    /// <summary>The bytes that a user without privileges may still fill.</summary>
    public static long FreeBytes(LinuxHandle directory, string path)
    {
        byte* buffer = stackalloc byte[StatfsRoom];
        Ask(directory, path, buffer);
        return *(long*)(buffer + BlocksAvailableAt) * *(long*)(buffer + BlockLengthAt);
    }

    /// <summary>True for btrfs.</summary>
    public static bool IsBtrfs(LinuxHandle directory, string path)
    {
        const uint Btrfs = 0x9123_683E;
        return TypeOf(directory, path) == Btrfs;
    }

    /// <summary>True for tmpfs; false where the system does not say.</summary>
    public static bool IsTmpfs(LinuxHandle file)
    {
        const uint Tmpfs = 0x0102_1994;
        byte* buffer = stackalloc byte[StatfsRoom];
        return LinuxNative.fstatfs(file, buffer) == 0 && *(uint*)buffer == Tmpfs;
    }

    /// <summary>The name for a type number, or null.</summary>
    internal static string? UnsafeName(uint type) => type switch
    {
        0x0000_6969 => "NFS",
        0x0000_517B => "SMB",
        0xFF53_4D42 => "CIFS",
        0xFE53_4D42 => "SMB2",
        0x6573_5546 => "FUSE",
        0x0102_1997 => "9P",
        0x00C3_6400 => "CEPH",
        0x5346_414F or 0x6B41_4653 => "AFS",
        0x7375_7245 => "CODA",
        0x0000_564C => "NCP",
        0x0116_1970 => "GFS2",
        0x7461_636F => "OCFS2",
        0x0BD0_0BD0 => "LUSTRE",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BEEGFS",
        0x786F_4256 => "VBOXSF",
        0xBACB_ACBC => "VMHGFS",
        _ => null,
    };

    private static uint TypeOf(LinuxHandle directory, string path)
    {
        byte* buffer = stackalloc byte[StatfsRoom];
        Ask(directory, path, buffer);
        return MemoryMarshal.Read<uint>(new ReadOnlySpan<byte>(buffer, sizeof(uint)));
    }

    private static void Ask(LinuxHandle directory, string path, byte* buffer)
    {
        while (LinuxNative.fstatfs(directory, buffer) != 0)
        {
            int errno = LinuxErrors.Last;
            if (errno != DiskErrors.EINTR)
                throw LinuxErrors.Make("Cannot ask for the state of the file system", path, errno);
        }
    }
}
