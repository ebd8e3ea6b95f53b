using System.Globalization;
using MappedFileQueues.Engine;
using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Crash;

/// <summary>A store that processes of these tests die in, and the looks that each of them takes afterwards.</summary>
internal sealed class CrashStore(long segmentSize = 1 << 20, ProducerMode mode = ProducerMode.Shared) : IDisposable
{
    private readonly TempStore _folder = new();

    public string Path => _folder.StorePath;

    public ProducerMode Mode => mode;

    /// <summary>The command that opens the store in a child.</summary>
    public string OpenCommand => string.Create(
        CultureInfo.InvariantCulture, $"open path={Path} segment={segmentSize} mode={mode}");

    public MappedFileQueue Open(ProducerMode? otherMode = null, TimeSpan lockTimeout = default) => new(new MappedFileQueueOptions
    {
        StorePath = Path,
        SegmentSize = segmentSize,
        ProducerMode = otherMode ?? mode,
        LockTimeout = lockTimeout,
        // Nothing happens here that the test did not ask for.
        Durability = DurabilityLevel.PageCache,
    });

    /// <summary>What fences members, as `mfq consumers fence` does.</summary>
    public StoreEngine OpenEngine() => new(new MappedFileQueueOptions { StorePath = Path }, StoreKind.Messages, 0, 0);

    /// <summary>Starts a child that has the store open.</summary>
    public PeerAgent StartAttached(Guid? bootId = null, int unread = 0) => PeerAgent.StartAt(
        agent => agent.Ask(string.Create(CultureInfo.InvariantCulture, $"{OpenCommand} unread={unread}")), bootId);

    /// <summary>Appends messages of one text each, by a producer that is closed again.</summary>
    public static void Append(MappedFileQueue queue, params IEnumerable<string> texts)
    {
        using MappedFileProducer producer = queue.OpenProducer();
        foreach (string text in texts)
            producer.Produce(CrashMessage.Make(text, 64));
    }

    /// <summary>Everything that a new consumer of an attached queue reads; it repairs what is dead on its way.</summary>
    public static List<string> ReadAll(MappedFileQueue queue, string consumerName)
    {
        using MappedFileConsumer consumer = queue.OpenConsumer(consumerName);
        List<string> texts = [];
        while (consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            texts.Add(CrashMessage.Read(message));
            consumer.Advance();
        }

        return texts;
    }

    /// <summary>Everything that a reader which leaves no trace sees.</summary>
    public List<string> Peek()
    {
        using MappedFileReader reader = MappedFileReader.Open(Path);
        List<string> texts = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            texts.Add(CrashMessage.Read(message));
        return texts;
    }

    /// <summary>
    /// What every opener after a crash must find: exactly these messages, a log that takes more, nothing half made.
    /// </summary>
    public void ExpectHealthy(IReadOnlyList<string> expected)
    {
        List<string> all = [.. expected];
        for (int round = 0; round < 2; round++)
        {
            using MappedFileQueue queue = Open();
            string name = string.Create(CultureInfo.InvariantCulture, $"healthy-{round}");
            Assert.Equal(all, ReadAll(queue, name));
            string last = string.Create(CultureInfo.InvariantCulture, $"last-{Guid.NewGuid():N}-{round}");
            Append(queue, last);
            all.Add(last);
            Assert.Equal(all, ReadAll(queue, name + "-again"));
            Assert.Equal(all, Peek());
            Assert.Empty(queue.GetInfo().OpenClaims);
        }

        ExpectNoTemporaries();
    }

    public void ExpectNoTemporaries() =>
        Assert.Empty(Directory.EnumerateFiles(Path, "*.tmp", SearchOption.AllDirectories).Select(System.IO.Path.GetFileName));

    public void Dispose() => _folder.Dispose();
}
