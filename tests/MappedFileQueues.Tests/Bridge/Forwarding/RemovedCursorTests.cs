using MappedFileQueues.RabbitMQ;
using MappedFileQueues.RabbitMQ.Forwarding;

namespace MappedFileQueues.Tests.Bridge.Forwarding;

/// <summary>Stores whose retention holds nothing back, and passes the forwarder's cursor.</summary>
[Collection(SecondBrokerCollection.Name)]
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class RemovedCursorTests(BrokerFixture broker) : IDisposable
{
    private const int SegmentSize = 65536;

    private readonly BridgeScene _scene = new(broker) { SegmentSize = SegmentSize };

    public void Dispose() => _scene.Dispose();

    /// <summary>
    /// Between a look at the oldest message and the move there, retention removed that one too. The forwarder failed for good,
    /// with a word about the consumer, though it had been told to continue.
    /// </summary>
    [Fact]
    public async Task Run_RetentionIsQuickerThanTheMove_GoesOnOnceItCan()
    {
        _scene.Produce("one");
        await BridgeScene.OnceAsync(_scene.Forward());
        using MappedFileQueue queue = Open();
        using CancellationTokenSource enough = new();
        Task producing = Task.Run(() =>
        {
            byte[] message = new byte[2000];
            while (!enough.IsCancellationRequested)
                queue.Producer.Produce(message);
        });
        Eventually.True(() => queue.GetInfo().LogStart > SegmentSize, "segments are removed", BridgeScene.Deadline);
        StreamForwarderOptions options = _scene.Forward();
        options.OnSourceChange = SourceChangePolicy.Continue;
        using CancellationTokenSource stop = new(BridgeScene.Deadline);
        StreamForwarder forwarder = new(options);
        Task forwarding = forwarder.RunAsync(stop.Token);

        await Task.WhenAny(forwarding, Task.Delay(TimeSpan.FromSeconds(4)));
        await enough.CancelAsync();
        await producing;
        queue.Producer.Produce("last"u8);

        Eventually.True(
            () => forwarder.GetStatus() is { State: BridgeState.Running, LagBytes: 0, Messages: > 0 } || forwarding.IsCompleted,
            "it has forwarded what is left", BridgeScene.Deadline);
        await stop.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => forwarding);
    }

    /// <summary>
    /// While the forwarder waited for its broker, somebody reset the consumer; it continued from where that had been.
    /// </summary>
    [Fact]
    public void Cursor_ResetWhileNothingIsOpen_IsTheNewOne()
    {
        _scene.Produce("one");
        using MappedFileQueue queue = Open();
        queue.ResetConsumer("bridge", QueueStart.Earliest);
        for (int count = 0; count < 300; count++)
            queue.Producer.Produce(new byte[1000]);
        Eventually.True(() => queue.GetInfo().LogStart > SegmentSize, "segments are removed", BridgeScene.Deadline);

        using SourceStore source = SourceStore.Open(_scene.Forward());
        Assert.Equal(0, source.Cursor);
        queue.ResetConsumer("bridge", QueueStart.Latest);
        Assert.Equal(queue.GetInfo().PublishedOffset, source.Cursor);
        source.Move(source.Cursor);
        Assert.Equal(source.Cursor, source.Consumer.CommittedOffset);
        Assert.Throws<QueueInUseException>(() => queue.ResetConsumer("bridge", QueueStart.Earliest));
    }

    private MappedFileQueue Open()
    {
        MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _scene.SourcePath, SegmentSize = SegmentSize });
        queue.SetRetention(new RetentionOptions { MaxBytes = SegmentSize, KeepUnconsumed = false });
        return queue;
    }
}
