using System.Globalization;
using System.Text;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Files;

namespace MappedFileQueues.Bench.Files;

/// <summary>Lines of 100 bytes, numbered, from one thread or several, with the closing; then a look at each.</summary>
internal static class LineRun
{
    public const int LineLength = 100;

    /// <summary>The width of the number that a line begins with; its thread is before it.</summary>
    private const int Digits = 10;

    /// <summary>So many lines lie ready: a power of ten, whose digits are left out in counting.</summary>
    private const int LinesAhead = 100;

    /// <summary>How the lines get into the file: each is told to write one, by any of the threads.</summary>
    public delegate void LineWriter(ReadOnlySpan<byte> line);

    /// <summary>Opens a file, which gets so many bytes.</summary>
    public delegate (LineWriter Write, IDisposable File) LineOpener(string path, long length);

    /// <summary>Nanoseconds for each line from the first write to the end of the closing; checked, the file deleted.</summary>
    public static double Write(string path, long count, int threadCount, LineOpener open)
    {
        (LineWriter write, IDisposable file) = open(path, count * LineLength);
        long each = count / threadCount;
        double nanoseconds;
        if (threadCount == 1)
        {
            long start = Clock.Now;
            WriteLines(write, 0, each);
            file.Dispose();
            nanoseconds = Clock.NanosecondsEach(start, each);
        }
        else
        {
            using Barrier begin = new(threadCount + 1);
            Thread[] threads = [.. Enumerable.Range(0, threadCount).Select(thread => new Thread(() =>
            {
                begin.SignalAndWait();
                WriteLines(write, thread, each);
            }))];
            foreach (Thread thread in threads)
                thread.Start();
            begin.SignalAndWait();
            long start = Clock.Now;
            foreach (Thread thread in threads)
                thread.Join();
            file.Dispose();
            nanoseconds = Clock.NanosecondsEach(start, each * threadCount);
        }

        Check(path, each, threadCount);
        BlockRun.Delete(path);
        return nanoseconds;
    }

    /// <summary>Opens a FileStream; with a lock where more than one thread writes.</summary>
    public static LineOpener FileStreamOf(LineFile kind, int bufferLength, bool isLocked) => (path, length) =>
    {
        if (!kind.IsNew)
            FileRoom.Reused.Make(path, length);
        FileStream stream = new(
            path, kind.IsNew ? FileMode.CreateNew : FileMode.Open, FileAccess.Write, FileShare.Read, bufferLength);
        IDisposable file = kind.IsFlushed ? new FlushedAtClose(stream) : stream;
        if (!isLocked)
            return (stream.Write, file);
        Lock gate = new();
        return (line =>
        {
            lock (gate)
                stream.Write(line);
        }, file);
    };

    /// <summary>Opens ours. Over written blocks it writes the room before the first line.</summary>
    public static LineOpener OursOf(LineFile kind) => (path, length) =>
    {
        AppendFileStream stream = new(path, kind.OptionsFor(length));
        return (stream.Write, stream);
    };

    /// <summary>
    /// The lines lie ready in one piece of memory: a number is written into one long before its copy is made, because a byte that
    /// was stored just before holds up the load that reads it among others (6 ns a line, on every side).
    /// </summary>
    private static void WriteLines(LineWriter write, int thread, long count)
    {
        byte[] lines = Encoding.ASCII.GetBytes(string.Concat(Enumerable.Range(1, LinesAhead).Select(number =>
            $"{thread}{number.ToString($"D{Digits}", CultureInfo.InvariantCulture)}".PadRight(LineLength - 1, '.') + "\n")));
        for (int start = 0; count > 0; count--)
        {
            write(lines.AsSpan(start, LineLength));

            // Counting up by a hundred in place: making the text of a number would cost as much as writing the line.
            for (int digit = start + Digits - 2; lines[digit]++ == '9'; digit--)
                lines[digit] = (byte)'0';
            start += LineLength;
            if (start == lines.Length)
                start = 0;
        }
    }

    private static void Check(string path, long each, int threadCount)
    {
        long[] last = new long[threadCount];
        byte[] chunk = new byte[LineLength << 14];
        using FileStream file = new(path, FileMode.Open, FileAccess.Read, FileShare.Read, bufferSize: 0);
        for (int count; (count = file.ReadAtLeast(chunk, chunk.Length, throwOnEndOfStream: false)) > 0;)
        {
            for (int i = 0; i < count; i += LineLength)
            {
                int thread = chunk[i] - '0';
                long number = long.Parse(chunk.AsSpan(i + 1, Digits), CultureInfo.InvariantCulture);
                if (chunk[i + LineLength - 1] != '\n' || number != ++last[thread])
                    throw new ToolException($"A line was not written as it should be: thread={thread}, number={number}.");
            }
        }

        if (last.Any(number => number != each))
            throw new ToolException($"Lines are missing: written by each thread={each}, found={string.Join(", ", last)}.");
    }

    private sealed class FlushedAtClose(FileStream stream) : IDisposable
    {
        public void Dispose()
        {
            stream.Flush(flushToDisk: true);
            stream.Dispose();
        }
    }
}
