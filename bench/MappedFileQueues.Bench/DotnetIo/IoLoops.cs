using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Bench.DotnetIo;

/// <summary>The loops that the ways share; each moves a whole file and checks that it did.</summary>
internal static class IoLoops
{
    public const int Small = 512;
    public const int Page = 4096;
    public const int Medium = 64 * 1024;
    public const int Large = 1024 * 1024;

    public static string NameOf(int bufferLength) => bufferLength switch
    {
        >= Large => $"{bufferLength / Large} MiB",
        >= 1024 => $"{bufferLength / 1024} KiB",
        _ => $"{bufferLength} B",
    };

    public static void ReadAll(IoFiles files, Stream stream, byte[] buffer, long length)
    {
        long sum = 0;
        for (int count; (count = stream.Read(buffer)) > 0; sum += count)
            files.CheckRead(buffer.AsSpan(0, count), sum);
        Check(sum, length);
    }

    public static void ReadAll(IoFiles files, SafeFileHandle file, byte[] buffer, long length)
    {
        long sum = 0;
        for (int count; (count = RandomAccess.Read(file, buffer, sum)) > 0; sum += count)
            files.CheckRead(buffer.AsSpan(0, count), sum);
        Check(sum, length);
    }

    public static async Task ReadAllAsync(IoFiles files, Stream stream, byte[] buffer, long length)
    {
        long sum = 0;
        for (int count; (count = await stream.ReadAsync(buffer).ConfigureAwait(false)) > 0; sum += count)
            files.CheckRead(buffer.AsSpan(0, count), sum);
        Check(sum, length);
    }

    public static async Task ReadAllAsync(IoFiles files, SafeFileHandle file, byte[] buffer, long length)
    {
        long sum = 0;
        for (int count; (count = await RandomAccess.ReadAsync(file, buffer, sum).ConfigureAwait(false)) > 0; sum += count)
            files.CheckRead(buffer.AsSpan(0, count), sum);
        Check(sum, length);
    }

    /// <summary>Whether all of the source, or of the small file, was read at once.</summary>
    public static void CheckWhole(IoFiles files, byte[] whole, long length)
    {
        Check(whole.Length, length);
        files.CheckRead(whole, 0);
    }

    public static void WriteAll(Stream stream, byte[] buffer, long length)
    {
        for (long position = 0; position < length; position += buffer.Length)
            stream.Write(buffer.AsSpan(0, Part(buffer, length - position)));
    }

    public static void WriteAll(SafeFileHandle file, byte[] buffer, long length)
    {
        for (long position = 0; position < length; position += buffer.Length)
            RandomAccess.Write(file, buffer.AsSpan(0, Part(buffer, length - position)), position);
    }

    public static async Task WriteAllAsync(Stream stream, byte[] buffer, long length)
    {
        for (long position = 0; position < length; position += buffer.Length)
            await stream.WriteAsync(buffer.AsMemory(0, Part(buffer, length - position))).ConfigureAwait(false);
    }

    public static async Task WriteAllAsync(SafeFileHandle file, byte[] buffer, long length)
    {
        for (long position = 0; position < length; position += buffer.Length)
        {
            await RandomAccess.WriteAsync(file, buffer.AsMemory(0, Part(buffer, length - position)), position)
                .ConfigureAwait(false);
        }
    }

    public static void Check(long moved, long length)
    {
        if (moved != length)
            throw new ToolException($"Not the whole file was moved: moved={moved}, length={length}.");
    }

    private static int Part(byte[] buffer, long left) => (int)Math.Min(buffer.Length, left);
}
