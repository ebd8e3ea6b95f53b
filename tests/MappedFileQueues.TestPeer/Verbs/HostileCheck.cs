using MappedFileQueues.Format;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// What a damage may and may not do. Each check returns the complaint, or null.
/// <list type="bullet">
/// <item>Every message that is wholly before the damage is read exactly, then comes the end or an exception of the
/// library.</item>
/// <item>Damage in free space, in `control`, in the checkpoint or in a lock file loses no message.</item>
/// <item>Whoever verifies reads only what was written at that offset.</item>
/// </list>
/// </summary>
internal sealed class HostileCheck(HostileStore store)
{
    private readonly Dictionary<long, HostileMessage> _byOffset = store.Messages.ToDictionary(message => message.Offset);

    private HashSet<long> _mustBeRead = [];

    /// <summary>
    /// Looks at the damaged files: with SkipMessage every message that is whole is read, as long as nothing is hit but what was
    /// flushed. Behind the checkpoint a damaged header may end the log for whoever opens it.
    /// </summary>
    public void Look(HostileDamage damage)
    {
        _mustBeRead = [];
        bool isSegment = damage.File.StartsWith(StoreNames.CommitLog, StringComparison.Ordinal);
        if (store.Policy != CorruptionPolicy.SkipMessage || !store.Verifies || !isSegment
            || damage.Kind is HostileKind.Directory or HostileKind.Loop
            || !StoreNames.TryParseSegment(Path.GetFileName(damage.File), out long start)
            || start + HostileStore.SegmentLength > store.FlushedOffset)
            return;
        string path = Path.Combine(store.Path, damage.File);
        byte[] before = store.Files[damage.File];
        byte[] now = File.Exists(path) ? File.ReadAllBytes(path) : [];
        _mustBeRead =
            [.. store.Messages.Where(message => IsWhole(message, start, before, now)).Select(message => message.Offset)];
    }

    /// <summary>A reader that leaves no trace, from the oldest message on.</summary>
    public string? Reader(HostileDamage damage, HostileReading reading) => Judge(damage, reading, 0, isAttached: false);

    /// <summary>A new consumer begins at the oldest message; so does a reader after it, after the store was recovered.</summary>
    public string? NewConsumer(HostileDamage damage, HostileReading reading) => Judge(damage, reading, 0, isAttached: true);

    /// <summary>
    /// A known consumer begins where it had committed; a damaged cursor may name another frame's start, or nothing.
    /// </summary>
    public string? KnownConsumer(HostileDamage damage, HostileReading reading)
    {
        bool isCursor = damage.File == StoreNames.Cursor(HostileStore.ConsumerName);
        long start = store.CommittedOffset;
        if (isCursor)
            start = reading.Messages.Count > 0 ? reading.Messages[0].Offset : store.TailOffset;
        return Judge(damage, reading, start, isAttached: true, mayRefuse: isCursor);
    }

    /// <summary>An append that did not throw is there for whoever asks for its offset.</summary>
    public string? Appended(HostileReading reading, long offset, byte[] bytes)
    {
        if (reading.Failure is not null && reading.Messages.Count == 0)
            return null;
        if (reading.Messages.Count > 0
            && reading.Messages[0].Offset == offset
            && reading.Messages[0].Bytes.AsSpan().SequenceEqual(bytes))
            return null;
        return !store.Verifies ? null : $"the message appended at {offset} is not there";
    }

    private bool IsWhole(HostileMessage message, long start, byte[] before, byte[] now)
    {
        if (message.Offset < start || message.Offset >= start + HostileStore.SegmentLength)
            return !store.IsCut || IsCertain(message, long.MaxValue);
        int at = (int)(message.Offset - start);
        int length = (int)(message.End - message.Offset);
        // A frame ends on 8 bytes: in a file that is cut before that it is cut as well.
        int frameLength = (length + 7) & ~7;
        return at + frameLength <= now.Length && before.AsSpan(at, length).SequenceEqual(now.AsSpan(at, length));
    }

    private string? Judge(HostileDamage damage, HostileReading reading, long start, bool isAttached, bool mayRefuse = false)
    {
        if (reading.Failure is not null && (reading.Failure.Message.Length < 20 || !reading.Failure.Message.Contains('=')))
            return $"the exception says too little: {reading.Failure.Message}";
        if ((mayRefuse || MayRefuse(damage, isAttached)) && reading.Messages.Count == 0 && reading.Failure is not null)
            return null;
        long firstBad = isAttached && IsSecondBlow(damage) ? 0 : FirstBadByte(damage);
        List<HostileMessage> certain =
            [.. store.Messages.Where(message => message.Offset >= start && IsCertain(message, firstBad))];
        for (int i = 0; i < certain.Count; i++)
        {
            if (i >= reading.Messages.Count)
                return $"read {reading.Messages.Count} of {certain.Count} before the damage, then {Describe(reading.Failure)}";
            if (reading.Messages[i].Offset != certain[i].Offset
                || !reading.Messages[i].Bytes.AsSpan().SequenceEqual(certain[i].Payload))
                return $"message {i}: read one at {reading.Messages[i].Offset} instead of the one at {certain[i].Offset}";
        }

        if (!store.Verifies)
            return null;
        HashSet<long> read = [.. reading.Messages.Select(message => message.Offset)];
        long lost = _mustBeRead.FirstOrDefault(at => at >= start && !read.Contains(at), -1);
        if (lost >= 0 && !(isAttached && IsSecondBlow(damage)))
            return $"the message at {lost} is whole and was not read; it ended with {Describe(reading.Failure)}";
        for (int i = certain.Count; i < reading.Messages.Count; i++)
        {
            (long offset, byte[] bytes) = reading.Messages[i];
            if (!_byOffset.TryGetValue(offset, out HostileMessage? expected) || !expected.Payload.AsSpan().SequenceEqual(bytes))
                return $"a wrong message was read at {offset}";
            if (i > 0 && offset <= reading.Messages[i - 1].Offset)
                return $"the message at {offset} was read behind the one at {reading.Messages[i - 1].Offset}";
        }

        return null;
    }

    /// <summary>
    /// After a power loss half a batch is none, so a batch is before the damage as a whole or not at all.
    /// </summary>
    private bool IsCertain(HostileMessage message, long firstBad) =>
        (store.IsCut ? message.UnitEnd : message.End) <= firstBad;

    /// <summary>The offset of the first byte of the log that may be wrong; the largest number when none is.</summary>
    private static long FirstBadByte(HostileDamage damage)
    {
        string prefix = StoreNames.CommitLog + "/";
        if (!damage.File.StartsWith(prefix, StringComparison.Ordinal)
            || !StoreNames.TryParseSegment(damage.File[prefix.Length..], out long start))
            return long.MaxValue;
        return damage.Kind switch
        {
            HostileKind.Lengthen => long.MaxValue,
            HostileKind.Remove or HostileKind.Directory or HostileKind.Loop => start,
            // A file is used as far as whole words go.
            HostileKind.Truncate => start + (damage.Position & ~7),
            _ => start + damage.Position,
        };
    }

    /// <summary>
    /// A power loss leaves no witness for which of the segments before a gap retention had removed: only the run up to the
    /// checkpoint counts.
    /// </summary>
    private bool IsSecondBlow(HostileDamage damage) =>
        store.IsCut && damage.Kind == HostileKind.Remove && FirstBadByte(damage) < store.FlushedOffset;

    /// <summary>
    /// Without its meta page a store is none, and what cannot be opened as a file cannot be used. Who attaches also refuses a
    /// store whose flushed part is gone; a reader that leaves no trace still reads what is there.
    /// </summary>
    private bool MayRefuse(HostileDamage damage, bool isAttached)
    {
        if (damage.File == StoreNames.Meta)
            return true;
        bool isSegment = damage.File.StartsWith(StoreNames.CommitLog, StringComparison.Ordinal);
        if (damage.Kind is HostileKind.Directory or HostileKind.Loop)
            return isAttached || !isSegment;
        if (isAttached && IsSecondBlow(damage))
            return true;
        string checkpointed = StoreNames.Segment(store.FlushedOffset - (store.FlushedOffset % HostileStore.SegmentLength));
        return isAttached && damage.Kind == HostileKind.Remove && damage.File == checkpointed;
    }

    private static string Describe(Exception? failure) =>
        failure is null ? "the end" : $"{failure.GetType().Name}: {failure.Message}";
}
