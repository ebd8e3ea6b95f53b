namespace MappedFileQueues.Tests.Log.Reading;

/// <summary>
/// A batch whose taking throws in the middle is taken by nobody. The messages before the damage were counted as read once, the
/// caller never got them, and the next commit passed them.
/// </summary>
public sealed class BatchErrorTests : IDisposable
{
    private const int DamagedNumber = 10;
    private const int Count = 20;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void ConsumeBatch_DamageInTheMiddle_ThrowsAndTakesNone()
    {
        using MappedFileQueue<long> queue = Open(CorruptionPolicy.Throw);
        long[] taken = new long[2 * Count];
        for (int attempt = 0; attempt < 2; attempt++)
        {
            Assert.Throws<QueueCorruptException>(() => queue.Consumer.ConsumeBatch(taken));
            Assert.Equal(0, queue.Consumer.Offset);
        }

        queue.Consumer.Commit();
        Assert.Equal(0, queue.Consumer.CommittedOffset);
        Assert.Equal(DamagedNumber, queue.Consumer.ConsumeBatch(taken.AsSpan(0, DamagedNumber)));
        Assert.Equal(Enumerable.Range(0, DamagedNumber).Select(i => (long)i), taken[..DamagedNumber]);
    }

    /// <summary>
    /// A message is copied before its checksum is compared. The copy of a damaged one stayed where the caller had asked for it.
    /// </summary>
    [Theory]
    [InlineData("Consumer.ConsumeBatch")]
    [InlineData("Consumer.TryConsume")]
    [InlineData("Consumer.TryConsume timed")]
    [InlineData("Member.ConsumeBatch")]
    [InlineData("Member.TryConsume")]
    public void Consume_Damage_HandsOutNothingOfIt(string call)
    {
        using MappedFileQueue<long> queue = Open(CorruptionPolicy.Throw);
        using MappedFileConsumer<long> consumer = queue.OpenConsumer("one");
        using MappedFileGroupMember<long> member = queue.OpenGroupMember("group");
        long[] taken = new long[Count];
        Array.Fill(taken, -1);
        if (!call.EndsWith("Batch", StringComparison.Ordinal))
        {
            Assert.Equal(DamagedNumber, consumer.ConsumeBatch(taken.AsSpan(0, DamagedNumber)));
            Assert.Equal(DamagedNumber, member.ConsumeBatch(taken.AsSpan(0, DamagedNumber), new long[DamagedNumber]));
        }

        Assert.Throws<QueueCorruptException>(() => _ = call switch
        {
            "Consumer.ConsumeBatch" => consumer.ConsumeBatch(taken) > 0,
            "Consumer.TryConsume" => consumer.TryConsume(out taken[DamagedNumber]),
            "Consumer.TryConsume timed" => consumer.TryConsume(out taken[DamagedNumber], TimeSpan.FromSeconds(1)),
            "Member.ConsumeBatch" => member.ConsumeBatch(taken, new long[Count]) > 0,
            _ => member.TryConsume(out taken[DamagedNumber]),
        });

        Assert.Contains(taken[DamagedNumber], new long[] { 0, -1 });
    }

    [Fact]
    public void ConsumeBatch_HandlerThrows_TheRepeatedCallGivesAll()
    {
        using MappedFileQueue<long> queue = Open(CorruptionPolicy.SkipMessage);
        bool isFirst = true;
        queue.CorruptionSkipped += (_, _) =>
        {
            if (isFirst)
            {
                isFirst = false;
                throw new TimeoutException("the handler's own");
            }
        };
        long[] taken = new long[2 * Count];

        Assert.Throws<TimeoutException>(() => queue.Consumer.ConsumeBatch(taken));
        int count = queue.Consumer.ConsumeBatch(taken);

        Assert.Equal(Enumerable.Range(0, Count).Where(i => i != DamagedNumber).Select(i => (long)i), taken[..count]);
    }

    [Fact]
    public void ConsumeBatch_HandlerDisposes_EndsAsADisposedOne()
    {
        using MappedFileQueue<long> queue = Open(CorruptionPolicy.SkipMessage);
        MappedFileConsumer<long> consumer = queue.OpenConsumer("ends");
        queue.CorruptionSkipped += (_, _) => consumer.Dispose();

        Assert.Throws<ObjectDisposedException>(() => consumer.ConsumeBatch(new long[Count]));
        using MappedFileConsumer<long> next = queue.OpenConsumer("ends");
        Assert.Equal(0, next.Offset);
    }

    /// <summary>Twenty numbers, of which one is damaged.</summary>
    private MappedFileQueue<long> Open(CorruptionPolicy policy)
    {
        var options = new MappedFileQueueOptions { StorePath = _temp.StorePath, Corruption = policy };
        var queue = new MappedFileQueue<long>(options);
        long[] offsets = [.. Enumerable.Range(0, Count).Select(i => queue.Producer.Produce(i))];
        using var words = new Crash.StoreWords(_temp.StorePath);
        words.WriteAt(offsets[DamagedNumber] + 8, 0xFF);
        return queue;
    }
}
