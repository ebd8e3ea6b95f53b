using System.Diagnostics;
using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.Store;

namespace MappedFileQueues.Inspection;

/// <summary>
/// Reads a store without attaching to it: marks its calls, continues after a recovery, starts where it is told. One thread at a
/// time may use it; Dispose may come from any thread.
/// </summary>
internal sealed unsafe class StoreReader : IDisposable
{
    private readonly ReadOnlyStore _store;
    private readonly LogReader _reader;
    private readonly CorruptionPolicy _corruption;
    private readonly Lock _waiting = new();
    private ReaderWait? _wait;
    private bool _hasTriedToWait;
    private int _disposed;
    private long _checkedPlaceAt;

    /// <summary>Takes ownership of the store, unless it throws.</summary>
    public StoreReader(
        ReadOnlyStore store,
        QueueStart start,
        CorruptionPolicy corruption,
        OutOfRangePolicy onOutOfRange,
        Action<QueueCorruptException, long, long> onSkipped,
        Action<long, long> onGap)
    {
        _store = store;
        _corruption = corruption;
        DamageSkipper? skipper = corruption == CorruptionPolicy.Throw ? null : new DamageSkipper(store, corruption, onSkipped);
        GapSkipper? gaps = onOutOfRange == OutOfRangePolicy.Throw
            ? null
            : new GapSkipper(
                () => onOutOfRange == OutOfRangePolicy.Latest ? store.FindLatest() : store.LogStart, static _ => true, onGap);
        _reader = new LogReader(store, skipper: skipper, gaps: gaps);
        _reader.MoveTo(Find(start));
    }

    public string Path => _store.Path;

    public StoreMeta Meta => _store.Meta;

    public long Offset => _reader.Offset;

    public long NextOffset => _reader.NextOffset;

    public long MessageOffset => _reader.MessageOffset;

    public QueueCorruptException? DamageAhead => _reader.DamageAhead;

    /// <summary>The header block of the last message, in the mapping; empty when there is none.</summary>
    public ReadOnlySpan<byte> GetHeaderBlock() => _reader.GetHeaderBlock(PublicNames.Reader);

    /// <summary>A copy of the last message's headers; null when there are none.</summary>
    public MessageHeaders? CopyHeaders() => _reader.CopyHeaders(PublicNames.Reader);

    /// <summary>Reads the message after the last one, if there is one.</summary>
    [SkipLocalsInit]
    public bool TryRead(out byte* payload, out int length)
    {
        LogReader reader = _reader;
        byte here;
        if (!reader.TryBegin(&here, out _))
        {
            reader.TakeOverHere(&here);
            return ReadSlowly(takes: true, out payload, out length);
        }

        reader.Advance();
        // The epoch after the look: a message appended after a recovery becomes visible only together with its epoch.
        bool found = reader.TryReadInPlace(out payload, out length) && !_store.WasCut;
        if (found)
        {
            reader.EndSpan();
            reader.NoteSpan();
        }
        else
        {
            reader.PutBack();
        }

        reader.EndCall();
        return found || ReadSlowly(takes: true, out payload, out length);
    }

    /// <summary>
    /// Whether <see cref="TryRead(out byte*, out int)"/> would find a message now; ends the last one's span, as it does.
    /// </summary>
    public bool HasNext() => ReadSlowly(takes: false, out _, out _);

    /// <summary>What an asynchronous call waits with; null where it can only poll.</summary>
    public ReaderWait? FindWait()
    {
        lock (_waiting)
        {
            PublicNames.ThrowIfDisposed(_disposed != 0, PublicNames.Reader);
            if (!_hasTriedToWait)
                _wait = ReaderWait.TryOpen(_store.Directory);
            _hasTriedToWait = true;
            return _wait;
        }
    }

    private bool ReadSlowly(bool takes, out byte* payload, out int length)
    {
        using LogReader.Call call = _reader.EnterLongCall();
        ThrowIfDisposed();
        _reader.NoteSpan();
        _reader.Advance();
        while (true)
        {
            ReadStatus status = _reader.TryRead(out payload, out length);
            if (status == ReadStatus.Claim && _reader.TryRepairClaim())
                continue;
            // After the look, as above.
            if (_store.WasCut)
            {
                ContinueAfterCut();
                continue;
            }

            if (status == ReadStatus.Message)
                _reader.EndSpan();
            else
                ThrowIfReplacedOnceASecond();
            if (!takes)
                _reader.PutBack();
            return status == ReadStatus.Message;
        }
    }

    /// <summary>Moves to a frame's start, the tail, the oldest message or the end of the published messages.</summary>
    public void Seek(QueueStart start)
    {
        using LogReader.Call call = _reader.EnterCall();
        ThrowIfDisposed();
        long epoch = _store.NotedEpoch;
        if (_store.WasCut)
            _store.NoteCut();
        long offset;
        try
        {
            offset = Find(start);
        }
        catch
        {
            // It stays where it was, which may be cut off: the next read looks.
            _store.NotedEpoch = epoch;
            throw;
        }

        _reader.MoveTo(offset);
    }

    /// <summary>Where a start is; the reader stays where it is.</summary>
    public long FindOffset(QueueStart start) => Look(() => Find(start));

    /// <summary>How many messages begin before an offset, since number 0.</summary>
    public long FindNumber(long offset) => Look(() =>
    {
        using var search = new MessageSearch(_store);
        return search.NumberAt(offset, FindEnd());
    });

    private long Look(Func<long> find)
    {
        using LogReader.Call call = _reader.EnterCall();
        ThrowIfDisposed();
        return find();
    }

    public MappedFileQueueInfo GatherInfo(bool countsMessages)
    {
        using LogReader.Call call = _reader.EnterCall();
        ThrowIfDisposed();
        _store.ThrowIfReplaced();
        return _store.GatherInfo(countsMessages);
    }

    /// <summary>Waits for the running call. A span that another thread still uses stays readable until its next call.</summary>
    public void Dispose()
    {
        if (Interlocked.Exchange(ref _disposed, 1) != 0)
            return;
        lock (_waiting)
            _wait?.Dispose();
        _reader.Close(static () => { });
        _reader.ReleaseOrphan();
        _store.Dispose();
    }

    /// <summary>
    /// A recovery has cut the store: continues at the same offset if nothing below it was cut off. Above the cut, the offset may
    /// be a frame's start again, with other messages before it.
    /// </summary>
    private void ContinueAfterCut()
    {
        _reader.PutBack();
        long offset = _reader.Offset;
        if (offset > _store.FindCut() || !_store.IsFrameStart(offset))
            throw new OffsetOutOfRangeException($"A recovery has cut the log off below the reader: offset={offset}, "
                + $"path={_store.Path}. Move the reader with Seek.");
        _store.NoteCut();
        _reader.EndSpan();
        _reader.MoveTo(offset);
    }

    /// <summary>Throws when the store or its files were deleted or replaced. Call it where nothing was found to read.</summary>
    private void ThrowIfReplacedOnceASecond()
    {
        if (!LogView.IsLookDue(ref _checkedPlaceAt, Stopwatch.GetTimestamp()))
            return;
        _store.ThrowIfReplaced();
        _reader.ThrowIfLeftBehind();
    }

    private void ThrowIfDisposed() => _reader.ThrowIfBarred(PublicNames.Reader);

    private long Find(QueueStart start)
    {
        if (start.IsLatest)
            return FindEnd();
        if (start.CountFromEnd is { } count)
            return new MessageCounter(_store.Directory, _store.Meta).FindFromEnd(count, FindEnd(), _store);
        if (start.Time is not null || start.MessageNumber is not null)
        {
            using var search = new MessageSearch(_store);
            return start.Time is { } time
                ? search.OffsetOf(time, FindEnd(), DateTimeOffset.UtcNow)
                : search.OffsetOf(start.MessageNumber!.Value, FindEnd());
        }

        if (start.ExactOffset is not { } offset)
            return _store.LogStart;
        // Where its messages were removed, the first read steps over them, and tells.
        if (!_store.IsFrameStart(offset) && !FrameStarts.IsReached(_store, null, _corruption, offset)
            && !(_reader.SkipsGaps && offset < _store.LogStart))
            throw LogErrors.NoStart(_store, offset);
        return offset;
    }

    private long FindEnd()
    {
        long end = _store.FindLatest();
        return _corruption == CorruptionPolicy.Throw ? end : FrameStarts.FindEndAfterDamage(_store, null, _corruption, end);
    }
}
