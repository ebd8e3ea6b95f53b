// A round trip between two threads over two queues, with code that is compiled, room that is there, consumers that spin, and
// threads that stay on their processors.
// Run it with: dotnet run samples/low-latency.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using System.Diagnostics;
using System.Runtime.InteropServices;
using MappedFileQueues;

const int WarmUp = 20_000;
const int Measured = 50_000;
string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    using MappedFileQueue<Tick> requests = Open("requests");
    using MappedFileQueue<Tick> answers = Open("answers");
    var echo = new Thread(() => Echo(requests.Consumer, answers.Producer));
    echo.Start();
    Pin(0);

    Trips(requests.Producer, answers.Consumer, WarmUp);   // compiled in the background, then again with what was learnt
    Thread.Sleep(500);                                    // that takes a moment of quiet
    Trips(requests.Producer, answers.Consumer, WarmUp);
    long[] took = Trips(requests.Producer, answers.Consumer, Measured);
    requests.Producer.Produce(new Tick(-1, 0));
    echo.Join();

    Array.Sort(took);
    double microseconds = took[Measured / 2] * 1e6 / Stopwatch.Frequency;
    Console.WriteLine($"round trip, median: {microseconds:F2} us");
    return microseconds > 0 ? 0 : 1;
}
finally
{
    Directory.Delete(folder, recursive: true);
}

MappedFileQueue<Tick> Open(string name)
{
    var queue = new MappedFileQueue<Tick>(new MappedFileQueueOptions
    {
        StorePath = Path.Combine(folder, name),
        ProducerMode = ProducerMode.Exclusive,                      // one producer
        Durability = DurabilityLevel.PageCache,                     // no flush beside the hot path
        ConsumerSpinWaitDuration = Timeout.InfiniteTimeSpan,        // never sleeps: takes a whole processor
    });
    queue.Producer.Prepare(64L << 20);                              // allocated and touched before the first message
    return queue;
}

static long[] Trips(MappedFileProducer<Tick> producer, MappedFileConsumer<Tick> consumer, int count)
{
    var took = new long[count];
    for (int i = 0; i < count; i++)
    {
        long start = Stopwatch.GetTimestamp();
        producer.Produce(new Tick(i, start));
        consumer.Consume(out Tick answer);
        consumer.Commit();
        took[i] = Stopwatch.GetTimestamp() - answer.Time;
    }

    return took;
}

static void Echo(MappedFileConsumer<Tick> consumer, MappedFileProducer<Tick> producer)
{
    Pin(1);
    while (true)
    {
        consumer.Consume(out Tick tick);
        consumer.Commit();
        if (tick.Number < 0)
            return;
        producer.Produce(tick);
    }
}

// The calling thread alone. The queue's own threads stay where the system puts them; they do their work ahead of the producer.
static void Pin(int processor)
{
    ulong mask = 1UL << processor;
    if (OperatingSystem.IsLinux() && Environment.ProcessorCount > 1)
        _ = sched_setaffinity(0, sizeof(ulong), ref mask);   // refused where the processor is not ours: then it runs as before
}

[DllImport("libc")]
static extern int sched_setaffinity(int threadId, nint length, ref ulong mask);

internal readonly record struct Tick(int Number, long Time);
