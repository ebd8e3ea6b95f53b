using System.Globalization;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `idle FOLDER COUNT`: opens so many queues with default options, produces, flushes and consumes a message on each, and says
/// `idle` when a consumer waits on every one. It waits to be killed.
/// </summary>
internal static class IdleVerb
{
    public static int Run(string[] arguments)
    {
        int count = int.Parse(arguments[1], CultureInfo.InvariantCulture);
        for (int i = 0; i < count; i++)
        {
            string path = Path.Combine(arguments[0], i.ToString(CultureInfo.InvariantCulture));
            var queue = new MappedFileQueue<long>(new MappedFileQueueOptions { StorePath = path });
            long message = i;
            queue.Producer.Produce(ref message);
            queue.Consumer.Consume(out _);
            queue.Consumer.Commit();
            queue.Flush();
            new Thread(() => queue.Consumer.Consume(out _)).Start();
        }

        Console.WriteLine("idle");
        Thread.Sleep(Timeout.Infinite);
        return 0;
    }
}
