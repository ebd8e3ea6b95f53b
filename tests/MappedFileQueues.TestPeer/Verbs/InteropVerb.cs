using System.Globalization;
using System.Text;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// What the test programs in C and Python do, with the same arguments and the same lines:
/// `interop produce STORE MODE WORD FIRST COUNT` and `interop consume STORE NAME COUNT MS`; see interop/c/test_vectors.c.
/// </summary>
internal static class InteropVerb
{
    public static int Run(string[] arguments)
    {
        using var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = arguments[1],
            SegmentSize = 64 * 1024,
            LockTimeout = TimeSpan.FromSeconds(10),
            ProducerMode = arguments[2].StartsWith("exclusive", StringComparison.Ordinal)
                ? ProducerMode.Exclusive : ProducerMode.Shared,
            Durability = arguments[2].Contains("-group", StringComparison.Ordinal)
                ? DurabilityLevel.Group : DurabilityLevel.PageCache,
        });
        if (arguments[0] == "produce")
            Produce(queue, arguments[2], arguments[3], Number(arguments[4]), Number(arguments[5]));
        else
            Consume(queue, arguments[2], Number(arguments[3]), TimeSpan.FromMilliseconds(Number(arguments[4])));
        return 0;
    }

    private static void Produce(MappedFileQueue queue, string mode, string word, int first, int count)
    {
        using MappedFileProducer producer = queue.OpenProducer();
        Console.WriteLine("opened");
        for (int i = first; i < first + count; i++)
        {
            producer.Produce(Encoding.UTF8.GetBytes(
                string.Create(CultureInfo.InvariantCulture, $"{word} {i} {new string('.', i % 50)}!")));
            if (mode.Contains("-flush", StringComparison.Ordinal) && i % 100 == 99)
                queue.Flush();
            Console.WriteLine(i);
            if (mode.Contains("-bursts", StringComparison.Ordinal) && i % 16 == 15)
                Thread.Sleep(2);
        }
    }

    private static void Consume(MappedFileQueue queue, string name, int count, TimeSpan patience)
    {
        using MappedFileConsumer consumer = queue.OpenConsumer(name);
        Console.WriteLine("opened");
        for (int i = 0; i < count; i++)
        {
            if (!consumer.TryConsume(out ReadOnlySpan<byte> message, patience))
                throw new TimeoutException("No message came.");
            Console.WriteLine(Encoding.UTF8.GetString(message));
            consumer.Commit();
        }
    }

    private static int Number(string text) => int.Parse(text, CultureInfo.InvariantCulture);
}
