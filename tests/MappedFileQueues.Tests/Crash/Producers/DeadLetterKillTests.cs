namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>
/// A retry of dead letters that dies at any of its steps, and is repeated with other letters chosen: it used to append messages,
/// and letters, twice.
/// </summary>
[Trait("Category", "Slow")]
public sealed class DeadLetterKillTests : IDisposable
{
    private const int Count = 12;

    private readonly TempStore _temp = new();
    private int _runs;

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("Claimed")]
    [InlineData("Published")]
    [InlineData("FlushSynced")]
    [InlineData("CursorStored")]
    public void Retry_DiedAtAStep_TheRepetitionDoesNothingTwice(string step)
    {
        int kills = 0;
        while (DiesAt(step, kills + 1))
            kills++;

        Assert.InRange(kills, 1, 100);
    }

    /// <summary>A consumer that is killed after its letter and before it continues sends the letter twice.</summary>
    [Fact]
    public void Retry_LetterIsThereTwice_AppendsItsMessageOnce()
    {
        (string queuePath, DeadLetterStore letters) = Fill("twice", Guid.NewGuid(), repeats: 2);
        using MappedFileQueue queue = Open(queuePath);

        Assert.Equal(Count, letters.Read().Count());
        Assert.Equal(Count, letters.Retry(queue, fromAnyStore: true));

        Assert.Equal(Enumerable.Range(0, Count), Messages(queuePath));
        Assert.Empty(letters.Read());
    }

    /// <summary>Kills a retry of the even letters at the N-th time of a step, then retries the odd ones, then all.</summary>
    /// <returns>False when it ended before that.</returns>
    private bool DiesAt(string step, int hit)
    {
        (string queuePath, DeadLetterStore letters) = Fill($"{_runs++}", Guid.Empty);
        bool dies;
        using (PeerAgent agent = PeerAgent.Start())
        {
            agent.Ask($"open path={queuePath}");
            agent.Trap(step, hit);
            agent.Send($"retry error=even letters={queuePath}-dead-letters");
            while (!agent.HasExited && agent.After("ok").Count == 0)
                Thread.Sleep(1);
            dies = agent.After("ok").Count == 0;
        }

        long chosen = Messages(queuePath).Count(message => message % 2 == 0);
        using MappedFileQueue queue = Open(queuePath);
        Assert.Equal(Count / 2, letters.Read().Count(letter => letter.ErrorType == "odd"));
        long odd = letters.Retry(queue, letter => letter.ErrorType == "odd", fromAnyStore: true);
        // Those that the queue had got from the dead call count as settled by this one.
        Assert.InRange(odd, Count / 2, (Count / 2) + chosen);
        letters.Retry(queue, fromAnyStore: true);

        Assert.Equal(Enumerable.Range(0, Count), Messages(queuePath).Order());
        Assert.Empty(letters.Read());
        return dies;
    }

    /// <summary>A queue, and beside it the letters of twelve messages, each with its number as the key of its headers.</summary>
    private (string Queue, DeadLetterStore Letters) Fill(string name, Guid storeId, int repeats = 1)
    {
        string path = Path.Combine(_temp.Root, name);
        using (Open(path))
        using (MappedFileQueue letters = Open(path + "-dead-letters"))
        {
            for (int i = 0; i < Count * repeats; i++)
            {
                int number = i / repeats;
                letters.Producer.Produce(
                    new DeadLetter
                    {
                        StoreId = storeId,
                        Offset = number,
                        ErrorType = number % 2 == 0 ? "even" : "odd",
                        Message = BitConverter.GetBytes(number),
                    }.ToBytes(),
                    new ProduceOptions { Headers = new MessageHeaders { Key = BitConverter.GetBytes(number) } });
            }
        }

        return (path, new DeadLetterStore(new MappedFileQueueOptions { StorePath = path + "-dead-letters" }));
    }

    private static MappedFileQueue Open(string path) => new(new MappedFileQueueOptions
    {
        StorePath = path,
        ProducerMode = ProducerMode.Shared,
        Durability = DurabilityLevel.PageCache,
    });

    private static List<int> Messages(string path)
    {
        using var reader = MappedFileReader.Open(path);
        List<int> messages = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
        {
            messages.Add(BitConverter.ToInt32(message));
            Assert.Equal(messages[^1], BitConverter.ToInt32(reader.HeadersInPlace.Key));
        }

        return messages;
    }
}
