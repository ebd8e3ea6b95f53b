using MappedFileQueues.Format;
using MappedFileQueues.Hosting;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Hosting.Consumers;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting.Queues;

/// <summary>What the log of an application says of what happens to its queues in silence.</summary>
[Trait("Category", "Slow")]
public sealed class QueueLogTests
{
    private const string Name = "orders";

    /// <summary>A message of 8 bytes and its header.</summary>
    private const int FrameLength = 16;

    private readonly Script _script = new();
    private readonly FaultyDisk _disk = new();

    [Fact]
    public async Task Log_ProducerDiesInAClaim_IsToldOnceAConsumerHasPassedIt()
    {
        await using TestHost host = MakeHost(isConsumed: true);
        await host.StartAsync();
        DieInAClaim(host.StorePath);
        host.Get<MappedFileQueue>(Name).Producer.Produce("behind"u8);

        Expect(host, 103, LogLevel.Warning, "Queue orders: 1 messages that dead producers had begun were given up");
        // A look may come between the repair and the call of the handler.
        Eventually.Equal(1, () => _script.Seen.Count);
        Assert.Equal(["behind"], _script.Messages);
    }

    [Fact]
    public async Task Log_ProducerDiedBeforeTheStart_IsToldAtOpening()
    {
        await using TestHost host = MakeHost();
        DieInAClaim(host.StorePath);
        await host.StartAsync();

        Expect(host, 103, LogLevel.Warning, "Queue orders: 1 messages that dead producers had begun were given up");
    }

    [Fact]
    public async Task Log_FlushesFailForAWhile_BothEndsAreTold()
    {
        await using TestHost host = MakeHost(o => o.FlushInterval = TimeSpan.FromMilliseconds(20));
        await host.StartAsync();
        _disk.Before = (call, name) =>
        {
            if (call == DiskCall.Lock && name == StoreNames.FlushLock)
                throw new QueueDiskException("No descriptor left.", DiskErrors.EMFILE, name);
        };
        host.Get<MappedFileQueue>(Name).Producer.Produce("unflushed"u8);

        string text = Expect(host, 105, LogLevel.Error, "Queue orders: flushes fail since ");
        Assert.EndsWith($" in process {Environment.ProcessId}: No descriptor left.", text, StringComparison.Ordinal);
        Assert.Equal(0, host.Log.CountOf(106));
        _disk.Before = null;

        Expect(host, 106, LogLevel.Information, "Queue orders: flushes succeed again");
        Assert.Equal(1, host.Log.CountOf(105));
    }

    [Fact]
    public async Task Log_RetentionFailsForAWhile_BothEndsAreTold()
    {
        await using TestHost host = MakeHost();
        await host.StartAsync();
        MappedFileQueue queue = host.Get<MappedFileQueue>(Name);
        var policy = new RetentionOptions { MaxBytes = 1 };
        queue.SetRetention(policy);
        File.WriteAllText(Path.Combine(host.StorePath, StoreNames.Retention), "not a policy");

        string text = Expect(host, 115, LogLevel.Error, "Queue orders: retention fails since ");
        Assert.Contains($" in process {Environment.ProcessId}: The retention policy is damaged", text, StringComparison.Ordinal);
        queue.SetRetention(policy);

        Expect(host, 116, LogLevel.Information, "Queue orders: retention succeeds again");
        Assert.Equal(1, host.Log.CountOf(115));
    }

    [Fact]
    public async Task Log_ConsumerStepsOverDamage_IsTold()
    {
        await using TestHost host = MakeHost(o => o.Corruption = CorruptionPolicy.SkipMessage, isConsumed: true);
        Fill(host, 3);
        using (var words = new StoreWords(host.StorePath))
            words.WriteAt(FrameLength + FrameHeader.Size, 0xFF);
        await host.StartAsync();

        string text = Expect(
            host, 107, LogLevel.Error, "Queue orders, consumer \"\": stepped over damage in ");
        Assert.EndsWith(": offset=16, next=32, length=16", text, StringComparison.Ordinal);
        Eventually.Equal(2, () => _script.Messages.Length);
    }

    [Fact]
    public async Task Log_MessagesWereRemovedBeforeTheConsumer_IsTold()
    {
        await using TestHost host = MakeHost();
        host.Services.AddMappedFileConsumer<ByteHandler>(
            Name, o => o.OnOutOfRange = OutOfRangePolicy.Earliest, consumer: "audit");
        using (MappedFileQueue queue = Open(host, segmentLength: 4096))
        {
            queue.OpenConsumer("audit").Dispose();
            queue.SetRetention(new RetentionOptions { KeepUnconsumed = false });
            for (int i = 0; i < 1000; i++)
                queue.Producer.Produce(new byte[8]);
            Assert.Equal(8192, queue.Trim(8192));
        }

        await host.StartAsync();

        Expect(
            host, 108, LogLevel.Warning,
            "Queue orders, consumer \"audit\": messages were removed before it read them: offset=0, next=8192, length=8192");
    }

    [Fact]
    public async Task Log_LongWaitForALock_NamesTheLock()
    {
        await using TestHost host = MakeHost(o => o.LockTimeout = TimeSpan.FromSeconds(1.2));
        await host.StartAsync();
        using MappedFileQueue other = Open(host);
        using MappedFileConsumer holder = other.OpenConsumer("audit");

        Assert.Throws<QueueInUseException>(() => host.Get<MappedFileQueue>(Name).OpenConsumer("audit"));

        string text = Expect(host, 110, LogLevel.Warning, "Queue orders waited long for the lock ");
        Assert.Contains("audit", text, StringComparison.Ordinal);
        // A machine that stands still for a second makes one more.
        Assert.Matches("waits=[1-3]$", text);
    }

    /// <summary>An error that is none of the queue's own ended the service that looks, and with it the application.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Log_StoreCannotBeLookedAt_IsToldOnce(bool isForeign)
    {
        await using TestHost host = MakeHost();
        await host.StartAsync();
        int looks = 0;
        _disk.Before = (call, name) =>
        {
            // Only a look lists anything here.
            if (call == DiskCall.List && ++looks > 0)
                throw isForeign ? new FileNotFoundException(name) : FaultyDisk.Broken(name);
        };

        Expect(host, 114, LogLevel.Warning, "Queue orders cannot be looked at");
        Eventually.True(() => looks > 3, "the store is looked at again");
        Assert.Equal(1, host.Log.CountOf(114));
        _disk.Before = null;
    }

    private TestHost MakeHost(Action<HostedQueueOptions>? configure = null, bool isConsumed = false)
    {
        TestHost host = new();
        host.Services.AddSingleton(_script);
        host.Services.AddMappedFileQueue(Name, options =>
        {
            options.StorePath = host.StorePath;
            options.WatchInterval = TimeSpan.FromMilliseconds(100);
            options.Platform = _disk;
            configure?.Invoke(options);
        });
        if (isConsumed)
            host.Services.AddMappedFileConsumer<ByteHandler>(Name);
        return host;
    }

    private static MappedFileQueue Open(TestHost host, long segmentLength = 1 << 20) =>
        new(new MappedFileQueueOptions { StorePath = host.StorePath, SegmentSize = segmentLength });

    private static void Fill(TestHost host, int count)
    {
        using MappedFileQueue queue = Open(host);
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(new byte[8]);
    }

    /// <summary>A process that has claimed its place and has not published: one message more that nobody will finish.</summary>
    private static void DieInAClaim(string storePath)
    {
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask($"open path={storePath}");
        agent.Trap("Claimed", hit: 1);
        agent.Send("append prefix=x size=64 count=1");
        agent.ExpectKilled();
    }

    private static string Expect(TestHost host, int id, LogLevel level, string start)
    {
        string text = host.Log.WaitFor(id);
        Assert.StartsWith(start, text, StringComparison.Ordinal);
        Assert.Equal(level, host.Log.Entries.First(entry => entry.Id == id).Level);
        return text;
    }
}
