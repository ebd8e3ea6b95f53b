using System.Globalization;
using System.IO.MemoryMappedFiles;
using System.Text;
using MappedFileQueues.Files;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `read-lines FILE LENGTH`: prints `READY`, then reads the file's lines again and again until standard input ends, while
/// another process truncates it and lets it grow again. Each line tells its own place in 20 digits; only the last may be cut
/// short, and one may hold zeros: Linux lets a read overlap with a truncation, which zeroes what it cuts off in memory that the
/// read is copying from, and with the growing again (seen in 2 of 30 runs of all tests on a busy machine, each time from a
/// page's border on; no file of lines holds zeros here, so such a line can be told). Prints `ENDED` and `TRUNCATED` when each
/// has happened once, and at the end `DONE count truncated`: how often the file was read to its end, and how often it was found
/// truncated.
/// `read-lines FILE mapped` reads a mapping of the file instead, until that ends this process.
/// </summary>
internal static class ReadLinesVerb
{
    private const int PlaceDigits = 20;

    public static int Run(string[] arguments)
    {
        if (arguments[1] == "mapped")
            return ReadMapped(arguments[0]);
        int lineLength = int.Parse(arguments[1], CultureInfo.InvariantCulture);
        Task ends = Task.Run(Console.In.ReadToEnd);
        Console.WriteLine("READY");
        int ended = 0;
        int truncated = 0;
        while (!ends.IsCompleted)
        {
            try
            {
                ReadAll(arguments[0], lineLength);
                if (++ended == 1)
                    Console.WriteLine("ENDED");
            }
            catch (FileTruncatedException)
            {
                if (++truncated == 1)
                    Console.WriteLine("TRUNCATED");
            }
        }

        Console.WriteLine($"DONE {ended} {truncated}");
        return 0;
    }

    private static int ReadMapped(string path)
    {
        Task ends = Task.Run(Console.In.ReadToEnd);
        Console.WriteLine("READY");
        byte[] copy = new byte[64 * 1024];
        while (!ends.IsCompleted)
        {
            using FileStream file = File.Open(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite);
            if (file.Length == 0)
                continue;
            using MemoryMappedFile mapped = MemoryMappedFile.CreateFromFile(
                file, null, 0, MemoryMappedFileAccess.Read, HandleInheritability.None, leaveOpen: true);
            using MemoryMappedViewAccessor view = mapped.CreateViewAccessor(0, 0, MemoryMappedFileAccess.Read);
            for (long position = 0; position < view.Capacity; position += copy.Length)
                view.ReadArray(position, copy, 0, (int)Math.Min(copy.Length, view.Capacity - position));
        }

        return 0;
    }

    private static void ReadAll(string path, int lineLength)
    {
        using MappedFileLines lines = MappedFileLines.Open(path, new MappedFileLinesOptions { BlockSize = 64 * 1024 });
        long position = 0;
        while (lines.TryRead(out ReadOnlySpan<byte> line))
        {
            if (line.Contains((byte)0))
                return;
            bool isWhole = line.Length == lineLength - 1;
            bool isRight = isWhole
                ? long.Parse(line[..PlaceDigits], CultureInfo.InvariantCulture) == position && line[^1] == 'x'
                : line.Length < lineLength - 1 && lines.Position == position + line.Length;
            if (!isRight)
                throw new InvalidDataException($"A wrong line at {position}: {Encoding.UTF8.GetString(line)}");

            // What is appended to a line without an end comes as a line of its own.
            if (!isWhole)
                return;
            position = lines.Position;
        }
    }
}
