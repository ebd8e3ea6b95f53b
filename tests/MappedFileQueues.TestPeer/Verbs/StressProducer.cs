using System.Globalization;

namespace MappedFileQueues.TestPeer;

/// <summary>
/// `stress-produce STORE FIRST-ID THREADS COUNT`: the producers of the stress tests that live in another process.
/// </summary>
internal static class StressProducer
{
    public static int Run(string[] arguments)
    {
        int firstId = int.Parse(arguments[1], CultureInfo.InvariantCulture);
        int threadCount = int.Parse(arguments[2], CultureInfo.InvariantCulture);
        int count = int.Parse(arguments[3], CultureInfo.InvariantCulture);
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = arguments[0] });
        MappedFileProducer producer = queue.Producer;
        List<Thread> threads = [];
        for (int i = 0; i < threadCount; i++)
        {
            int id = firstId + i;
            threads.Add(new Thread(() => StressMessage.Produce(producer, id, count)));
        }

        Console.WriteLine("ready");
        Console.ReadLine();
        threads.ForEach(thread => thread.Start());
        threads.ForEach(thread => thread.Join());
        return 0;
    }
}
