using MappedFileQueues.Format;
using MappedFileQueues.Log.Reading;

namespace MappedFileQueues.Inspection;

/// <summary>
/// Reads a store that it is not attached to: marks its calls, goes on behind a recovery, begins where it is told. One thread at a
/// time; Dispose from any.
/// </summary>
internal sealed unsafe class StoreReader : IDisposable
{
    private readonly ReadOnlyStore _store;
    private readonly LogReader _reader;
    private readonly CorruptionPolicy _corruption;
    private int _disposed;

    /// <summary>Owns the store from here on, unless it throws.</summary>
    public StoreReader(
        ReadOnlyStore store, QueueStart start, CorruptionPolicy corruption, Action<QueueCorruptException, long, long> onSkipped)
    {
        _store = store;
        _corruption = corruption;
        DamageSkipper? skipper = corruption == CorruptionPolicy.Throw ? null : new DamageSkipper(store, corruption, onSkipped);
        _reader = new LogReader(store, skipper: skipper);
        _reader.MoveTo(Find(start));
    }

    public string Path => _store.Path;

    public StoreMeta Meta => _store.Meta;

    public long Offset => _reader.Offset;

    public long NextOffset => _reader.OffsetBehind;

    public long MessageOffset => _reader.MessageOffset;

    public QueueCorruptException? DamageAhead => _reader.DamageAhead;

    /// <summary>Reads the next message if there is one, reading on behind the last one.</summary>
    public bool TryRead(out byte* payload, out int length)
    {
        _reader.BeginLongCall();
        try
        {
            ThrowIfDisposed();
            _reader.NoteSpan();
            _reader.Advance();
            while (true)
            {
                ReadStatus status = _reader.TryRead(out payload, out length);
                if (status == ReadStatus.Hole && _reader.TryRepairHole())
                    continue;
                // Behind the look: a message that was appended after a recovery is seen only together with its epoch.
                if (_store.WasCut)
                {
                    GoOnBehindCut();
                    continue;
                }

                if (status == ReadStatus.Message)
                    _reader.EndSpan();
                return status == ReadStatus.Message;
            }
        }
        finally
        {
            _reader.EndCallIfBegun();
        }
    }

    /// <summary>Moves to a frame's start, the tail, the oldest or behind the newest message.</summary>
    public void Seek(QueueStart start)
    {
        _reader.BeginCall();
        try
        {
            ThrowIfDisposed();
            if (_store.WasCut)
                _store.NoteCut();
            _reader.MoveTo(Find(start));
        }
        finally
        {
            _reader.EndCall();
        }
    }

    public MappedFileQueueInfo GatherInfo()
    {
        _reader.BeginCall();
        try
        {
            ThrowIfDisposed();
            return _store.GatherInfo();
        }
        finally
        {
            _reader.EndCall();
        }
    }

    /// <summary>Throws when the store was deleted or replaced.</summary>
    public void ThrowIfReplaced()
    {
        _reader.BeginCall();
        try
        {
            ThrowIfDisposed();
            _store.ThrowIfReplaced();
        }
        finally
        {
            _reader.EndCall();
        }
    }

    /// <summary>Waits for the call under way. A span that another thread has out stays readable until its next call.</summary>
    public void Dispose()
    {
        if (Interlocked.Exchange(ref _disposed, 1) != 0)
            return;
        _reader.Close(static () => { });
        if (!_reader.MayHaveSpanOfOther)
            _reader.ReleaseSegment();
        _store.Dispose();
    }

    /// <summary>
    /// The store was recovered after a cut: goes on at the same place, if nothing was cut off below it. Behind a cut the
    /// place may be a frame's start again, with other messages before it.
    /// </summary>
    private void GoOnBehindCut()
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

    private void ThrowIfDisposed()
    {
        if (!_reader.IsClosed)
            return;
        _reader.ReleaseOrphan();
        throw new ObjectDisposedException(PublicNames.Reader);
    }

    private long Find(QueueStart start)
    {
        if (start.IsLatest)
        {
            long end = _store.FindLatest();
            return _corruption == CorruptionPolicy.Throw ? end : FrameStarts.FindEndBehindDamage(_store, _corruption, end);
        }

        if (start.ExactOffset is not { } offset)
            return _store.LowWater;
        if (!_store.IsFrameStart(offset) && !FrameStarts.IsReached(_store, _corruption, offset))
            throw new OffsetOutOfRangeException($"The offset is neither a frame's start nor the tail: offset={offset}, "
                + $"first={_store.LowWater}, path={_store.Path}. Use an offset that a read or Produce returned.");
        return offset;
    }
}
