using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.Retention;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Engine;

/// <summary>
/// Finds where a consumer starts: at its stored offset or, if it is new, where the caller says. A stored offset is trusted only
/// after a check: a valid frame is there, it is the tail, or a walk from its segment's first byte reaches it.
/// </summary>
internal static unsafe class ConsumerStart
{
    /// <summary>The offset that the consumer has stored, checked; one below the log's first is returned as it is.</summary>
    public static long FindStored(
        LogStore store, RetentionThread retention, CursorFile cursor, string name, CorruptionPolicy policy)
    {
        long offset = cursor.Offset;
        if (retention.IsRemoved(offset))
            return offset;
        // P14 acquire: a walker reached it; pairs with P14 full in SegmentRoller.
        if (offset == SharedWord.ReadAcquire(store.Control.TailHint)
            || IsWholeFrame(store, offset) || FrameStarts.Contains(store, retention, policy, offset))
            return offset;
        // Its frame is damaged: start at the damage, step over it and report it.
        long damage = FrameStarts.FindDamageOver(store, retention, policy, offset);
        if (damage >= 0)
            return damage;
        // Removed since the first look.
        if (offset < store.LogStart)
            return offset;
        throw new QueueCorruptException($"The consumer's stored offset is not a frame's start: consumer=\"{name}\", "
            + $"offset={offset}, file={StoreNames.Cursor(name)}, path={store.Path}. "
            + "Move the consumer with ResetConsumer.",
            StoreNames.Cursor(name), 0);
    }

    /// <summary>The error for a consumer whose messages were removed.</summary>
    public static OffsetOutOfRangeException Removed(LogStore store, string name, long offset) => new(
        $"The messages at the consumer's offset were removed: consumer=\"{name}\", offset={offset}, logStart={store.LogStart}, "
        + $"path={store.Path}. Open it with OnOutOfRange, or reset the consumer.");

    /// <summary>Finds where a new consumer or reader starts.</summary>
    /// <param name="store">The store.</param>
    /// <param name="retention">The queue's retention.</param>
    /// <param name="start">Where the caller says.</param>
    /// <param name="policy">What the consumer does where the log is damaged.</param>
    /// <param name="skipsGaps">True if its first read steps over what was removed, and tells.</param>
    public static long FindNew(
        LogStore store, RetentionThread retention, QueueStart start, CorruptionPolicy policy, bool skipsGaps = false)
    {
        if (start.IsLatest)
            return FrameStarts.FindEnd(store, retention, policy, SafeWalkStart(store));
        if (start.CountFromEnd is { } count)
            return new MessageCounter(store.Directory, store.Meta)
                .FindFromEnd(count, FrameStarts.FindEnd(store, retention, policy, SafeWalkStart(store)), store);

        if (start.Time is not null || start.MessageNumber is not null)
        {
            // The index first: what it speaks of is before the end.
            using var search = new MessageSearch(store);
            long end = FrameStarts.FindEnd(store, retention, policy, SafeWalkStart(store));
            return start.Time is { } time
                ? search.OffsetOf(time, end, store.Settings.TimeProvider.GetUtcNow())
                : search.OffsetOf(start.MessageNumber!.Value, end);
        }

        if (start.ExactOffset is not { } offset)
            return store.LogStart;
        if (skipsGaps && offset % FrameHeader.Size == 0 && retention.IsRemoved(offset))
            return offset;
        if (offset < store.LogStart || offset % FrameHeader.Size != 0 || !FrameStarts.Contains(store, retention, policy, offset))
            throw LogErrors.NoStart(store, offset);
        return offset;
    }

    /// <summary>How many messages begin before an offset, since number 0.</summary>
    public static long FindNumber(LogStore store, RetentionThread retention, long offset, CorruptionPolicy policy)
    {
        using var search = new MessageSearch(store);
        return search.NumberAt(offset, FrameStarts.FindEnd(store, retention, policy, SafeWalkStart(store)));
    }

    /// <summary>The tail hint may be above a claim; the durable offset is not.</summary>
    private static long SafeWalkStart(LogStore store) => store.ConfirmedOffset;

    /// <summary>The checksum of a frame covers its offset, so no other bytes pass for the frame.</summary>
    private static bool IsWholeFrame(LogStore store, long offset)
    {
        if (offset % FrameHeader.Size != 0 || offset > LogLimits.OffsetMax)
            return false;
        long start = store.Window.StartOf(offset);
        using Segments.SegmentWindow.Use use = store.Window.BeginUse(start);
        if (use.Segment is not { } segment)
            return false;
        long position = offset - start;
        if (position + FrameHeader.Size > segment.Usable || offset + FrameHeader.Size > store.Allocated
            || !IsThere(segment, position, FrameHeader.Size))
            return false;
        // P1 acquire: pairs with P1 release in ExclusiveAppender.
        ulong header = SharedWord.ReadAcquire(segment.HeaderAt(position));
        return header != 0
            && FrameHeader.IsPlausible(header, segment.Usable - position)
            && FrameHeader.State(header) != FrameState.Claimed
            && IsThere(segment, position, FrameHeader.FrameLength(FrameHeader.Length(header)))
            && store.Checksum.Matches(header, offset, ref segment.Pointer[position + FrameHeader.Size]);
    }

    private static bool IsThere(Segments.SegmentMapping segment, long position, long length) =>
        segment.MakeReadable(position, position + length, position + length) >= position + length;
}
