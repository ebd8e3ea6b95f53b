using System.Globalization;
using System.Text;

namespace MappedFileQueues.Tests.Interop;

/// <summary>The store that processes of several languages share, and its messages.</summary>
internal static class InteropStore
{
    public static MappedFileQueue Open(TempStore store, long maxUnconsumedBytes = 0) => new(new MappedFileQueueOptions
    {
        StorePath = store.StorePath,
        SegmentSize = 64 * 1024,
        Durability = DurabilityLevel.PageCache,
        MaxUnconsumedBytes = maxUnconsumedBytes,
        LockTimeout = TimeSpan.FromSeconds(2),
    });

    public static byte[] Message(int i) => Encoding.UTF8.GetBytes(Text(i));

    /// <summary>Gives a test program a line, and expects its answer.</summary>
    public static void Ask(ChildProcess process, string line, string answer)
    {
        int before = process.Lines.Count;
        process.Input.WriteLine(line);
        process.Input.Flush();
        Assert.Equal(answer, process.WaitForLine(_ => true, fromIndex: before));
    }

    /// <summary>All that is there, as text.</summary>
    public static List<string> ReadAll(TempStore store)
    {
        List<string> messages = [];
        using MappedFileReader reader = MappedFileReader.Open(store.StorePath);
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            messages.Add(Encoding.UTF8.GetString(message));
        return messages;
    }

    /// <summary>How many messages there are of each word; their numbers must be 0, 1, 2 and so on.</summary>
    public static Dictionary<string, int> CountOfEach(List<string> messages, string context = "")
    {
        var counts = new Dictionary<string, int>(StringComparer.Ordinal);
        foreach (string message in messages)
        {
            string[] parts = message.Split(' ', '-');
            int next = counts.GetValueOrDefault(parts[0]);
            Assert.True(next == int.Parse(parts[1], CultureInfo.InvariantCulture), $"{context}: {message} after {next - 1}");
            counts[parts[0]] = next + 1;
        }

        return counts;
    }

    public static string Text(int i) => string.Create(CultureInfo.InvariantCulture, $"message {i}");
}
