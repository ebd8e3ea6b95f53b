using System.Buffers.Binary;
using System.Runtime.InteropServices;
using System.Text;

namespace MappedFileQueues.Tests.Crash;

/// <summary>
/// A message that can be told whole from torn: a length, a sum, a text, then words that each look like the header of a short
/// message. Wherever the engine would read a stale byte as a header, the checksum does not fit.
/// </summary>
internal static class CrashMessage
{
    private const int TextAt = 8;

    /// <summary>State 2 (published), 8 bytes of payload: after it follows the next such header.</summary>
    private const ulong LooksLikeHeader = 0x2000_0008;

    /// <summary>A message of this size, or of as many bytes as the text needs.</summary>
    public static byte[] Make(string text, int size)
    {
        byte[] utf8 = Encoding.UTF8.GetBytes(text);
        byte[] bytes = new byte[Math.Max(size, TextAt + utf8.Length)];
        BinaryPrimitives.WriteInt32LittleEndian(bytes, utf8.Length);
        utf8.CopyTo(bytes.AsSpan(TextAt));
        int fillAt = (TextAt + utf8.Length + 7) & ~7;
        if (fillAt < bytes.Length)
        {
            Span<byte> rest = bytes.AsSpan(fillAt);
            MemoryMarshal.Cast<byte, ulong>(rest).Fill(LooksLikeHeader);
        }

        BinaryPrimitives.WriteInt32LittleEndian(bytes.AsSpan(4), Sum(bytes));
        return bytes;
    }

    /// <summary>
    /// The text; a message that was not made by <see cref="Make"/> as it is is an <see cref="InvalidDataException"/>.
    /// </summary>
    public static string Read(ReadOnlySpan<byte> bytes)
    {
        int length = bytes.Length < TextAt ? -1 : BinaryPrimitives.ReadInt32LittleEndian(bytes);
        if (length < 0 || length > bytes.Length - TextAt || BinaryPrimitives.ReadInt32LittleEndian(bytes[4..]) != Sum(bytes))
            throw new InvalidDataException($"A message that nobody wrote: length={bytes.Length}, "
                + $"bytes={Convert.ToHexString(bytes[..Math.Min(32, bytes.Length)])}.");
        return Encoding.UTF8.GetString(bytes.Slice(TextAt, length));
    }

    /// <summary>FNV-1a over all but the sum itself: the runtime's own hashes differ between processes.</summary>
    private static int Sum(ReadOnlySpan<byte> bytes)
    {
        uint sum = 2166136261;
        for (int i = 0; i < bytes.Length; i++)
        {
            if (i is < 4 or >= TextAt)
                sum = (sum ^ bytes[i]) * 16777619;
        }

        return (int)sum;
    }
}

/// <summary>What the tests' processes append at once.</summary>
internal static class CrashUnits
{
    private const int BatchCount = 4;

    /// <summary>The texts of the messages of a batch.</summary>
    public static IEnumerable<string> OfBatch(string unit) => Enumerable.Range(0, BatchCount).Select(i => $"{unit}.{i}");

    /// <summary>The messages themselves.</summary>
    public static ReadOnlyMemory<byte>[] MakeBatch(string unit, int size) =>
        [.. OfBatch(unit).Select(text => (ReadOnlyMemory<byte>)CrashMessage.Make(text, size))];
}
