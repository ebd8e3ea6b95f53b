namespace MappedFileQueues.Tool.Produce;

/// <summary>
/// Whether readers will come to what is appended now. A producer never reads the log, so it would append behind damage without a
/// word, and consumers that stop at the damage would never see it.
/// </summary>
internal static class DamageLook
{
    /// <summary>So much is read at most before the first append: some tenths of a second.</summary>
    public const long LengthMax = 256L * 1024 * 1024;

    /// <summary>
    /// The first damage that stands between the slowest consumer, or where there is none the first message, and the tail; null
    /// where there is none in the last <see cref="LengthMax"/> bytes and the segment in which they begin.
    /// </summary>
    public static QueueCorruptException? Find(string storePath)
    {
        MappedFileQueueInfo info = StoreLook.Info(storePath);
        long needed = info.Consumers.Select(consumer => consumer.Offset).DefaultIfEmpty(info.OldestOffset).Min();
        long from = Math.Max(needed, info.TailOffset - LengthMax);
        // A segment begins with a frame; what a consumer has stored is believed by that consumer only.
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
