namespace MappedFileQueues.Tool.Consume;

/// <summary>
/// Finds where the last messages of a given count begin. A log can only be read forwards, but each segment begins with a frame.
/// So the messages are counted segment by segment, from the last one back, until there are enough.
/// </summary>
internal static class LastMessages
{
    /// <summary>
    /// The offset, among the messages that exist now; the first message if there are fewer. What retention removes meanwhile does
    /// not count. Damage among the counted messages is an error, unless the policy steps over it.
    /// </summary>
    public static QueueStart Find(string storePath, long count, CorruptionPolicy policy)
    {
        MappedFileQueueInfo info = StoreInspector.Inspect(storePath);
        using var reader = MappedFileReader.Open(
            storePath, QueueStart.Latest, CorruptionPolicy.SkipMessage, OutOfRangePolicy.Earliest);
        QueueCorruptException? damage = null;
        reader.CorruptionSkipped += (_, skipped) => damage = skipped.Error;

        long end = reader.Offset;
        long start = end;
        long found = 0;
        while (found < count && start > info.LogStart)
        {
            long stop = start;
            start = Math.Max(info.LogStart, (stop - 1) / info.SegmentSize * info.SegmentSize);
            reader.Seek(QueueStart.FromOffset(start));
            while (reader.TryRead(out _) && reader.MessageOffset < stop)
                found++;
            damage ??= reader.DamageAhead;
            if (damage is not null && policy == CorruptionPolicy.Throw)
                throw damage;
        }

        if (found <= count)
            return QueueStart.FromOffset(count == 0 ? end : start);
        reader.Seek(QueueStart.FromOffset(start));
        for (long toSkip = found - count; toSkip >= 0 && reader.TryRead(out _); toSkip--)
        {
        }

        return QueueStart.FromOffset(reader.MessageOffset < 0 ? reader.Offset : reader.MessageOffset);
    }
}
