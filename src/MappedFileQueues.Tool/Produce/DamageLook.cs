namespace MappedFileQueues.Tool.Produce;

/// <summary>
/// Checks whether readers will reach what is appended now. A producer never reads the log, so it would append after damage
/// without a warning, and consumers that stop at the damage would never see it.
/// </summary>
internal static class DamageLook
{
    /// <summary>How much is read at most before the first append: this takes some tenths of a second.</summary>
    public const long LengthMax = 256L * 1024 * 1024;

    /// <summary>
    /// The first damage between the slowest consumer, or the first message if there is no consumer, and the tail; null if there
    /// is none in the last <see cref="LengthMax"/> bytes and the segment in which they begin.
    /// </summary>
    public static QueueCorruptException? Find(string storePath)
    {
        MappedFileQueueInfo info = StoreLook.Info(storePath);
        long needed = info.Consumers.Select(consumer => consumer.Offset).DefaultIfEmpty(info.OldestOffset).Min();
        long from = Math.Max(needed, info.TailOffset - LengthMax);
        // A segment begins with a frame; only the consumer itself trusts an offset that it has stored.
        long start = Math.Max(info.OldestOffset, from / info.SegmentSize * info.SegmentSize);

        QueueCorruptException? found = null;
        using var reader = MappedFileReader.Open(storePath, QueueStart.FromOffset(start), CorruptionPolicy.SkipMessage);
        reader.CorruptionSkipped += (_, skipped) => found ??= skipped.NextOffset > needed ? skipped.Error : null;
        while (found is null && reader.TryRead(out _) && reader.MessageOffset < info.TailOffset)
        {
        }

        return found ?? reader.DamageAhead;
    }
}
