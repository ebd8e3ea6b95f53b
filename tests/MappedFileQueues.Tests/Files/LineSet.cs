using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tests.Files;

/// <summary>Checks the lines of <see cref="LineMaker"/>.</summary>
internal static class LineSet
{
    /// <summary>Every thread's lines are there, in their order, and no byte beside them.</summary>
    public static void Check(ReadOnlySpan<byte> bytes, int threadCount, int lineCount) =>
        Check(bytes, [.. Enumerable.Repeat(lineCount, threadCount)]);

    /// <summary>The same, each thread with a count of its own.</summary>
    public static void Check(ReadOnlySpan<byte> bytes, int[] counts) => Assert.Equal(counts, Count(bytes, counts.Length));

    /// <summary>How many lines each thread has, all of them whole and in its order.</summary>
    public static int[] Count(ReadOnlySpan<byte> bytes, int threadCount)
    {
        int[] next = new int[threadCount];
        while (!bytes.IsEmpty)
        {
            int length = bytes.IndexOf((byte)'\n') + 1;
            Assert.True(length > 0, $"The last line has no end: {Encoding.ASCII.GetString(bytes[..Math.Min(80, bytes.Length)])}");
            ReadOnlySpan<byte> line = bytes[..length];
            int colon = line.IndexOf((byte)':');
            int thread = colon > 0 && int.TryParse(line[..colon], CultureInfo.InvariantCulture, out int number) ? number : -1;
            Assert.InRange(thread, 0, threadCount - 1);
            ReadOnlySpan<byte> expected = LineMaker.Line(thread, next[thread]);
            if (!line.SequenceEqual(expected))
                Assert.Equal(Encoding.ASCII.GetString(expected), Encoding.ASCII.GetString(line));
            next[thread]++;
            bytes = bytes[length..];
        }

        return next;
    }
}
