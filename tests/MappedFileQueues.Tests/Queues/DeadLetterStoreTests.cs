namespace MappedFileQueues.Tests.Queues;

/// <summary>Who settles dead letters gets each message into the queue once, however the calls are cut and chosen.</summary>
public sealed class DeadLetterStoreTests : IDisposable
{
    private const int Count = 40;

    private readonly TempStore _store = new();

    public void Dispose() => _store.Dispose();

    private DeadLetterStore Letters => new(new MappedFileQueueOptions { StorePath = LettersPath });

    private string LettersPath => _store.StorePath + "-dead-letters";

    /// <summary>An exception of a handler whose text throws made the letter fail, and stopped the consumer.</summary>
    [Fact]
    public void Describe_TextThrows_SaysSo() =>
        Assert.Equal(
            (typeof(TextThrows).FullName, "Its text cannot be had: System.InvalidOperationException."),
            DeadLetter.Describe(new TextThrows()));

    [Fact]
    public void Read_EnumeratedTwice_GivesTheSameLetters()
    {
        Fill(Numbers);
        IEnumerable<DeadLetter> letters = Letters.Read();

        Assert.Equal(Numbers, letters.Select(NumberOf));
        Assert.Equal(Numbers, letters.Select(NumberOf));
    }

    /// <summary>The second letter of a message is not shown beside the first one, so it goes with it.</summary>
    [Fact]
    public void Retry_OneOfTwoLettersOfAMessage_SettlesBoth()
    {
        Fill([0, 1, 0, 2, 0, 1]);
        using MappedFileQueue queue = Open();

        Assert.Equal(1, Letters.Retry(queue, letter => letter.LetterOffset == 0, fromAnyStore: true));
        Assert.Equal([2, 1], Letters.Read().Select(NumberOf).OrderDescending());
        Letters.Retry(queue, fromAnyStore: true);

        Assert.Equal([0, 1, 2], Messages().Order());
    }

    /// <summary>A queue that takes no more, and then other choices: what it has got is settled.</summary>
    [Theory]
    [InlineData(FullMode.Throw, false)]
    [InlineData(FullMode.Wait, false)]
    [InlineData(FullMode.Throw, true)]
    public async Task Retry_QueueIsFull_WhatItHasGotIsSettled(FullMode fullMode, bool hasTwins)
    {
        int[] numbers = hasTwins ? [.. Numbers[..5], .. Numbers, .. Numbers[..30]] : Numbers;
        Fill(numbers);
        using (MappedFileQueue queue = Open(options => (options.MaxUnconsumedBytes, options.FullMode) = (600, fullMode)))
        using (queue.OpenConsumer("slow", new ConsumerOptions { Start = QueueStart.Earliest }))
        using (CancellationTokenSource stop = new())
        {
            if (fullMode == FullMode.Throw)
            {
                Assert.Throws<QueueFullException>(() => Letters.Retry(queue, fromAnyStore: true));
            }
            else
            {
                Task stopping = Task.Run(() =>
                {
                    Eventually.True(() => Messages().Count > 0, "it has begun");
                    stop.Cancel();
                });
                Assert.Throws<OperationCanceledException>(
                    () => Letters.Retry(queue, fromAnyStore: true, cancellationToken: stop.Token));
                await stopping;
            }
        }

        List<int> got = Messages();
        Assert.InRange(got.Count, 1, Count - 2);
        if (!hasTwins)
        {
            Assert.Equal(Numbers[got.Count..], Letters.Read().Select(NumberOf));
            Assert.Equal(1, Letters.Delete(letter => NumberOf(letter) == Count - 1));
        }

        using (MappedFileQueue queue = Open())
            Letters.Retry(queue, fromAnyStore: true);

        Assert.Equal(hasTwins ? Numbers : Numbers[..^1], Messages().Order());
        Assert.Empty(Letters.Read());
    }

    private static int[] Numbers => [.. Enumerable.Range(0, Count)];

    private static int NumberOf(DeadLetter letter) => BitConverter.ToInt32(letter.Message.Span);

    private void Fill(int[] numbers)
    {
        Guid storeId = Guid.NewGuid();
        using (Open())
        using (MappedFileQueue letters = new(new MappedFileQueueOptions { StorePath = LettersPath }))
        {
            foreach (int number in numbers)
            {
                letters.Producer.Produce(new DeadLetter
                {
                    StoreId = storeId,
                    Offset = number * 8,
                    Message = BitConverter.GetBytes(number),
                    MessageLength = sizeof(int),
                }.ToBytes());
            }
        }
    }

    private MappedFileQueue Open(Action<MappedFileQueueOptions>? configure = null)
    {
        MappedFileQueueOptions options = new() { StorePath = _store.StorePath, Durability = DurabilityLevel.PageCache };
        configure?.Invoke(options);
        return new MappedFileQueue(options);
    }

    private List<int> Messages()
    {
        using var reader = MappedFileReader.Open(_store.StorePath);
        List<int> messages = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            messages.Add(BitConverter.ToInt32(message));
        return messages;
    }
}
