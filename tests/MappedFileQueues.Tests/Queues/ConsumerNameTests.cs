using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tests.Queues;

/// <summary>Who may have a consumer's name.</summary>
public sealed class ConsumerNameTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// `info` looks whether a consumer is attached by a shared lock on its name. A consumer that was opened in that moment was
    /// refused, with an unknown holder: once in 40,000 opens beside a loop of GetInfo.
    /// </summary>
    [Fact]
    public async Task OpenConsumer_SomebodyOnlyAsksForTheName_WaitsAndGetsIt()
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        queue.OpenConsumer("a").Dispose();
        using HeldDirectory directory =
            CurrentPlatform.Services.OpenDirectory(_temp.StorePath, create: false, mode: null)!;

        Task<MappedFileConsumer> opening;
        using (directory.Probe(StoreNames.ConsumerLock("a")))
        {
            opening = Task.Run(() => queue.OpenConsumer("a"), TestContext.Current.CancellationToken);
            Task first = await Task.WhenAny(opening, Task.Delay(100, TestContext.Current.CancellationToken));
            Assert.False(first == opening, $"Not to be decided yet: {opening.Exception}");
        }

        using MappedFileConsumer consumer =
            await opening.WaitAsync(Eventually.DefaultDeadline, TestContext.Current.CancellationToken);
        Assert.Equal("a", consumer.Name);
    }

    /// <summary>Both properties were made under one lock, and a producer stood still for as long as the name was held.</summary>
    [Fact]
    public async Task Producer_WhileConsumerWaitsForItsName_IsNotHeldUp()
    {
        using MappedFileQueue holder = new(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        MappedFileConsumer held = holder.Consumer;
        using MappedFileQueue queue = new(
            new MappedFileQueueOptions { StorePath = _temp.StorePath, LockTimeout = Timeout.InfiniteTimeSpan });
        Task<MappedFileConsumer> waiting = Task.Run(() => queue.Consumer, TestContext.Current.CancellationToken);
        await Task.Delay(50, TestContext.Current.CancellationToken);

        await Task.Run(() => queue.Producer.Produce([1]), TestContext.Current.CancellationToken)
            .WaitAsync(Eventually.DefaultDeadline, TestContext.Current.CancellationToken);
        Assert.False(waiting.IsCompleted);
        held.Dispose();
        using MappedFileConsumer consumer =
            await waiting.WaitAsync(Eventually.DefaultDeadline, TestContext.Current.CancellationToken);
        Assert.Equal([1], consumer.Consume().ToArray());
    }

    [Fact]
    public void OpenConsumer_AnotherHoldsTheName_ThrowsAtOnce()
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        using MappedFileConsumer holder = queue.OpenConsumer("a");

        QueueInUseException refused = Assert.Throws<QueueInUseException>(() => queue.OpenConsumer("A"));

        Assert.Contains("consumer=\"A\"", refused.Message, StringComparison.Ordinal);
    }
}
