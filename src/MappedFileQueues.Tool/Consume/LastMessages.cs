namespace MappedFileQueues.Tool.Consume;

/// <summary>
/// Where the last so many messages begin. A log is read forwards only, but each segment begins with a frame: so they are counted
/// segment by segment from the last one back, until there are enough.
/// </summary>
internal static class LastMessages
{
    /// <summary>
    /// The place, among the messages that are there now; the first message where there are fewer. Damage among those that are
    /// counted is an error, unless the policy steps over it.
    /// </summary>
    public static QueueStart Find(string storePath, long count, CorruptionPolicy policy)
    {
        MappedFileQueueInfo info = StoreLook.Info(storePath);
        using var reader = MappedFileReader.Open(storePath, QueueStart.Latest, CorruptionPolicy.SkipMessage);
        QueueCorruptException? damage = null;
        reader.CorruptionSkipped += (_, skipped) => damage = skipped.Error;

        long end = reader.Offset;
        long start = end;
        long found = 0;
        while (found < count && start > info.OldestOffset)
        {
            long stop = start;
            start = Math.Max(info.OldestOffset, (stop - 1) / info.SegmentSize * info.SegmentSize);
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

        return QueueStart.FromOffset(reader.MessageOffset);
    }
}
