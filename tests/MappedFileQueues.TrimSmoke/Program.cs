using System.Text;

namespace MappedFileQueues.TrimSmoke;

/// <summary>
/// Produces and consumes through both kinds of queue, reopens each store, and checks what comes out. Published trimmed and as
/// a single file, it shows that the library needs nothing that trimming takes away.
/// </summary>
internal static class Program
{
    private const int MessageCount = 10_000;

    private static int Main(string[] arguments)
    {
        string root = arguments.Length > 0 ? arguments[0] : Directory.CreateTempSubdirectory("mfq-trim-").FullName;
        try
        {
            RunStructs(Path.Combine(root, "structs"));
            RunMessages(Path.Combine(root, "messages"));
        }
        finally
        {
            if (arguments.Length == 0)
                Directory.Delete(root, recursive: true);
        }

        Console.WriteLine($"{MessageCount} structs and {MessageCount} messages went through.");
        return 0;
    }

    private static void RunStructs(string storePath)
    {
        using (MappedFileQueue<Tick> queue = MappedFileQueue.Create<Tick>(new MappedFileQueueOptions { StorePath = storePath }))
        {
            for (int index = 0; index < MessageCount; index++)
                queue.Producer.Produce(new Tick { Sequence = index, Price = index * 0.5, Side = (byte)(index & 1) });
        }

        using MappedFileQueue<Tick> reopened = new(new MappedFileQueueOptions { StorePath = storePath });
        for (int index = 0; index < MessageCount; index++)
        {
            reopened.Consumer.Consume(out Tick tick);
            bool isSame = tick.Sequence == index && tick.Price == index * 0.5 && tick.Side == (index & 1);
            Check(isSame, $"struct {index} came out wrong");
            reopened.Consumer.Commit();
        }

        Check(!reopened.Consumer.TryConsume(out Tick _), "a struct more came out than went in");
    }

    private static void RunMessages(string storePath)
    {
        using (MappedFileQueue queue = MappedFileQueue.Create(new MappedFileQueueOptions { StorePath = storePath }))
        {
            for (int index = 0; index < MessageCount; index++)
                queue.Producer.Produce(Encoding.UTF8.GetBytes($"message {index}"));
        }

        using MappedFileQueue reopened = new(new MappedFileQueueOptions { StorePath = storePath });
        for (int index = 0; index < MessageCount; index++)
        {
            string message = Encoding.UTF8.GetString(reopened.Consumer.Consume());
            Check(message == $"message {index}", $"message {index} came out as '{message}'");
            reopened.Consumer.Commit();
        }

        Check(!reopened.Consumer.TryConsume(out ReadOnlySpan<byte> _), "a message more came out than went in");
    }

    private static void Check(bool holds, string otherwise)
    {
        if (!holds)
            throw new InvalidOperationException($"Trimmed program: {otherwise}.");
    }

    /// <summary>A message of the struct queue.</summary>
    private struct Tick
    {
        public long Sequence;
        public double Price;
        public byte Side;
    }
}
