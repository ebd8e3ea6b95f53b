using System.Buffers.Binary;
using System.Runtime.CompilerServices;
using System.Text;

namespace MappedFileQueues.Platform.Linux.Calls;

/// <summary>
/// Reads the names in an open directory (getdents64(2); a record is inode 8, offset 8, record length 2, type 1, name, zero).
/// </summary>
internal static unsafe class LinuxEntries
{
    private const int RecordLengthAt = 16;
    private const int NameAt = 19;
    private const int BufferLength = 8 * 1024;

    /// <summary>All names but "." and "..", in ordinal order.</summary>
    [SkipLocalsInit]
    public static List<string> Read(LinuxHandle directory, string path)
    {
        byte* buffer = stackalloc byte[BufferLength];
        List<string> names = [];
        while (true)
        {
            nint length = LinuxNative.getdents64(LinuxNative.SYS_getdents64, directory, buffer, BufferLength);
            int errno = LinuxErrors.Last;
            // A directory that was removed while open gives ENOENT: nothing is in it.
            if (length == 0 || (length < 0 && errno == DiskErrors.ENOENT))
                break;
            if (length < 0)
                throw LinuxErrors.Make("Cannot list the directory", path, errno);
            AddNames(new ReadOnlySpan<byte>(buffer, (int)length), names);
        }

        names.Sort(StringComparer.Ordinal);
        return names;
    }

    private static void AddNames(ReadOnlySpan<byte> records, List<string> names)
    {
        while (records.Length > NameAt)
        {
            int recordLength = BinaryPrimitives.ReadUInt16LittleEndian(records[RecordLengthAt..]);
            ReadOnlySpan<byte> name = records[NameAt..recordLength];
            name = name[..name.IndexOf((byte)0)];
            if (!name.SequenceEqual("."u8) && !name.SequenceEqual(".."u8))
                names.Add(Encoding.UTF8.GetString(name));
            records = records[recordLength..];
        }
    }
}
