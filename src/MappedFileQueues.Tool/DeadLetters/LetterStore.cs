namespace MappedFileQueues.Tool.DeadLetters;

/// <summary>A letter and where it is in the store of the letters.</summary>
internal sealed record Letter(long Offset, DeadLetter Content);

/// <summary>
/// Reads a store of dead letters without leaving a trace. A log removes nothing from its middle, so one consumer of that store
/// says which letters are settled: all before its offset.
/// </summary>
internal static class LetterStore
{
    /// <summary>The consumer of the letters that operators move by settling them.</summary>
    public const string Consumer = "operator";

    /// <summary>The letters that nobody has settled, up to the end of now.</summary>
    public static IEnumerable<Letter> Read(string storePath)
    {
        long end = StoreInspector.Inspect(storePath).PublishedOffset;
        using MessageSource source =
            new ConsumePlan(storePath) { Consumer = Consumer, OnOutOfRange = OutOfRangePolicy.Earliest }.Open();
        while (source.TryRead(TimeSpan.Zero, out ReadOnlySpan<byte> message) && source.MessageOffset < end)
            yield return new Letter(source.MessageOffset, Parse(message, storePath, source.MessageOffset));
    }

    /// <summary>How many letters nobody has settled.</summary>
    public static long Count(string storePath)
    {
        MappedFileQueueInfo info = StoreInspector.Inspect(storePath, countsMessages: true);
        return (ConsumerName.Find(info, Consumer) is { } settled ? settled.LagMessages : info.MessageCount) ?? 0;
    }

    /// <summary>Whether the first message of a store is a letter.</summary>
    public static bool HoldsLetters(string storePath)
    {
        using var reader = MappedFileReader.Open(storePath, QueueStart.Earliest, CorruptionPolicy.SkipMessage);
        try
        {
            return reader.TryRead(out ReadOnlySpan<byte> message) && DeadLetter.Parse(message) is { Queue.Length: > 0 };
        }
        catch (FormatException)
        {
            return false;
        }
    }

    public static DeadLetter Parse(ReadOnlySpan<byte> message, string storePath, long offset)
    {
        try
        {
            return DeadLetter.Parse(message);
        }
        catch (FormatException error)
        {
            throw new ToolException($"{error.Message} path={Path.GetFullPath(storePath)}, offset={offset}. Name the store of an "
                + "application's or a bridge's dead letters; `mfq tail` shows any other store. To step over a message that is "
                + $"none, run `mfq consumers reset LETTERS {Consumer} --to OFFSET` with the next offset.");
        }
    }
}
