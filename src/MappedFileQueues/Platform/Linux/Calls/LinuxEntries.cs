using System.Buffers.Binary;
using System.Text;

namespace MappedFileQueues.Platform.Linux.Calls;

/// <summary>
/// Reads the names in an open directory (getdents64(2); a record is inode 8, offset 8, record length 2, type 1, name, zero).
/// </summary>
internal static unsafe class LinuxEntries
{
    private const int RecordLengthAt = 16;
    private const int NameAt = 19;

    /// <summary>All names but "." and "..", in ordinal order.</summary>
    public static List<string> Read(LinuxHandle directory, string path)
    {
        byte[] buffer = new byte[16 * 1024];
        List<string> names = [];
        while (true)
        {
            nint length;
            int errno;
            fixed (byte* start = buffer)
            {
                length = LinuxNative.getdents64(LinuxNative.SYS_getdents64, directory, start, buffer.Length);
                errno = LinuxErrors.Last;
            }

            // A directory that was removed while open gives ENOENT: nothing is in it.
            if (length == 0 || (length < 0 && errno == DiskErrors.ENOENT))
                break;
            if (length < 0)
                throw LinuxErrors.Make("Cannot list the directory", path, errno);
            AddNames(buffer.AsSpan(0, (int)length), names);
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
