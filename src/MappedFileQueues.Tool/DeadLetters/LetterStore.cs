namespace MappedFileQueues.Tool.DeadLetters;

/// <summary>What commands ask about a store of dead letters, or a store that may be one.</summary>
internal static class LetterStore
{
    /// <summary>The letters of a store that must be there.</summary>
    public static DeadLetterStore Existing(MappedFileQueueOptions options) =>
        AttachedStore.FindMeta(options.StorePath) is null
            ? throw AttachedStore.Missing(options.StorePath)
            : new DeadLetterStore(options);

    /// <summary>The letters that nobody has settled, without a trace.</summary>
    public static IEnumerable<DeadLetter> Read(string path) => Existing(new MappedFileQueueOptions { StorePath = path }).Read();

    /// <summary>
    /// How many letters nobody has settled. A crash leaves some of them twice, which only a reading tells; where they cannot be
    /// read, all count.
    /// </summary>
    public static long Count(string path)
    {
        try
        {
            return Read(path).LongCount();
        }
        catch (MappedFileQueueException)
        {
            MappedFileQueueInfo info = StoreInspector.Inspect(path, countsMessages: true);
            MappedFileConsumerInfo? settled = ConsumerName.Find(info, DeadLetterStore.ConsumerName);
            return (settled is null ? info.MessageCount : settled.LagMessages) ?? 0;
        }
    }

    /// <summary>Whether the first message of a store is a letter.</summary>
    public static bool HoldsLetters(string path)
    {
        using var reader = MappedFileReader.Open(path, QueueStart.Earliest, CorruptionPolicy.SkipMessage);
        try
        {
            return reader.TryRead(out ReadOnlySpan<byte> message) && DeadLetter.Parse(message) is { Queue.Length: > 0 };
        }
        catch (FormatException)
        {
            return false;
        }
    }
}
