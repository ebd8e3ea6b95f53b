using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>
/// What every refused opening owes its caller: an exception of its own type that names the path, gives values and a remedy,
/// and a folder that is as it was.
/// </summary>
internal static class Refusal
{
    /// <summary>Opens, and checks the refusal; returns the exception.</summary>
    public static T Of<T>(TempStore temp, string path, Action open, params ReadOnlySpan<string> inMessage)
        where T : MappedFileQueueException
    {
        string[] before = StoreSnapshot.Of(temp.Root);
        T error = Assert.Throws<T>(open);
        CheckMessage(error.Message, path, inMessage);
        Assert.Equal(before, StoreSnapshot.Of(temp.Root));
        return error;
    }

    /// <summary>Says the path, at least one value, the remedy in a sentence of its own, and what the test asks for.</summary>
    public static void CheckMessage(string message, string path, params ReadOnlySpan<string> inMessage)
    {
        Assert.Contains(path, message, StringComparison.Ordinal);
        Assert.Matches(@"\w+=\S+", message);
        Assert.Matches(@"\. [A-Z][^.]{10,}", message);
        foreach (string part in inMessage)
            Assert.Contains(part, message, StringComparison.Ordinal);
    }

    public static MappedFileQueueOptions Options(string path, bool createIfMissing = true) => new()
    {
        StorePath = path,
        CreateIfMissing = createIfMissing,
        SegmentSize = 64 * 1024,
    };

    public static void Attach(string path, bool createIfMissing = true) =>
        new MappedFileQueue(Options(path, createIfMissing)).Dispose();

    public static void Read(string path) => MappedFileReader.Open(path).Dispose();

    /// <summary>Makes a store of messages with a few messages in it.</summary>
    public static void MakeStore(string path, int count = 3)
    {
        using MappedFileQueue queue = new(Options(path));
        for (int i = 0; i < count; i++)
            queue.Producer.Produce([1, 2, 3, (byte)i]);
    }

    /// <summary>How many messages a reader that leaves no trace finds.</summary>
    public static int CountMessages(string path)
    {
        using MappedFileReader reader = MappedFileReader.Open(path);
        int count = 0;
        while (reader.TryRead(out ReadOnlySpan<byte> message))
        {
            Assert.Equal([1, 2, 3, (byte)count], message.ToArray());
            count++;
        }

        return count;
    }
}
