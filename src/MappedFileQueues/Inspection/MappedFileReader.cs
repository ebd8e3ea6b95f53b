using System.Diagnostics;
using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Inspection;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Index;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues;

/// <summary>
/// Reads a store of either kind without leaving a trace: it needs no name, takes no lock and writes nothing, and works on a
/// read-only file system. A call with a timeout polls, backing off from 1 to 10 ms. <see cref="WaitToReadAsync"/> alone writes,
/// where it may: it raises the flag by which a sleeping reader is woken. One thread at a time may use it.
/// </summary>
public sealed class MappedFileReader : IDisposable
{
    private const int PauseMinMs = 1;
    private const int PauseMaxMs = 10;

    private readonly ReadOnlyStore _store;
    private readonly LogReader _reader;
    private readonly CorruptionPolicy _corruption;
    private readonly Lock _waiting = new();
    private readonly Lock _disposing = new();
    private ReaderWait? _wait;
    private bool _hasTriedToWait;
    private bool _disposed;
    private long _checkedPlaceAt;

    /// <summary>Takes ownership of the store, unless it throws.</summary>
    private unsafe MappedFileReader(
        ReadOnlyStore store, QueueStart start, CorruptionPolicy corruption, OutOfRangePolicy onOutOfRange)
    {
        _store = store;
        _corruption = corruption;
        DamageSkipper? skipper = corruption == CorruptionPolicy.Throw ? null : new DamageSkipper(store, corruption, OnSkipped);
        GapSkipper? gaps = onOutOfRange == OutOfRangePolicy.Throw
            ? null
            : new GapSkipper(
                () => onOutOfRange == OutOfRangePolicy.Latest ? store.FindLatest() : store.LogStart, static _ => true, OnGap);
        _reader = new LogReader(store, skipper: skipper, gaps: gaps);
        _reader.MoveTo(Find(start));
    }

    /// <summary>
    /// Raised when the reader has stepped over damage, as the policy it was opened with allows. It is raised on the reading
    /// thread, inside its call. An exception of a handler ends that call, which may be repeated. A handler may use the reader and
    /// may dispose it.
    /// </summary>
    public event EventHandler<CorruptionSkippedEventArgs>? CorruptionSkipped;

    /// <summary>
    /// Raised when the reader has skipped messages that were removed before it read them, as the policy it was opened with says.
    /// It is raised as <see cref="CorruptionSkipped"/> is.
    /// </summary>
    public event EventHandler<MessagesSkippedEventArgs>? MessagesSkipped;

    /// <summary>The offset of the message that the last read gave, or else of the next message to read.</summary>
    public long Offset => _reader.Offset;

    /// <summary>The offset after the message that the last read gave.</summary>
    public long NextOffset => _reader.NextOffset;

    /// <summary>The offset of the message that was read last; -1 before the first.</summary>
    public long MessageOffset => _reader.MessageOffset;

    /// <summary>A copy of the headers of the message that the last read gave; null when it has none. Allocates.</summary>
    public MessageHeaders? Headers => _reader.CopyHeaders(PublicNames.Reader);

    /// <summary>
    /// The headers of the message that the last read gave, in place; empty where <see cref="Headers"/> is null. Valid as the
    /// message is. Allocates nothing.
    /// </summary>
    public MessageHeadersView HeadersInPlace => new(_reader.GetHeaderBlock(PublicNames.Reader));

    /// <summary>The size of the store's struct in bytes; 0 for a store of messages of any length.</summary>
    public int StructSize => _store.Meta.Kind == StoreKind.Struct ? _store.Meta.StructSize : 0;

    /// <summary>The damage that kept the last read from finding a message, because nothing after it is certain yet.</summary>
    internal QueueCorruptException? DamageAhead => _reader.DamageAhead;

    /// <summary>Opens a store for reading.</summary>
    /// <param name="path">The store's directory.</param>
    /// <param name="start">Where to start.</param>
    /// <returns>The reader.</returns>
    /// <exception cref="QueueNotFoundException">There is no store.</exception>
    /// <exception cref="QueueDiskException">Permission to read the store is missing.</exception>
    /// <exception cref="QueueFormatException">The store's meta page is damaged or of another version.</exception>
    /// <exception cref="OffsetOutOfRangeException">The exact start is not a frame's start.</exception>
    public static MappedFileReader Open(string path, QueueStart start = default) => Open(path, start, CorruptionPolicy.Throw);

    /// <inheritdoc cref="Open(string, QueueStart)"/>
    /// <param name="path">As there.</param>
    /// <param name="start">As there.</param>
    /// <param name="corruption">What the reader does where the log is damaged. In a store that has not been opened since the
    /// machine was started, it steps over damage only below the last checkpoint: what is above may be cut off.</param>
    /// <param name="onOutOfRange">What the reader does when the messages at its offset were removed, also at the start. The two
    /// policies that continue raise <see cref="MessagesSkipped"/>.</param>
    /// <exception cref="ArgumentOutOfRangeException">A policy is not defined.</exception>
    public static MappedFileReader Open(
        string path, QueueStart start, CorruptionPolicy corruption, OutOfRangePolicy onOutOfRange = OutOfRangePolicy.Throw)
    {
        ArgumentException.ThrowIfNullOrWhiteSpace(path);
        if (!Enum.IsDefined(onOutOfRange))
            throw new ArgumentOutOfRangeException(nameof(onOutOfRange), onOutOfRange, "Not a defined policy.");
        if (!Enum.IsDefined(corruption))
            throw new ArgumentOutOfRangeException(nameof(corruption), corruption, "Not a defined policy.");
        return ReadOnlyStore.Open(SystemPath.Full(path), verifiesChecksum: true)
            .Into(store => new MappedFileReader(store, start, corruption, onOutOfRange));
    }

    /// <summary>Reads the message after the last one, if there is one, without waiting.</summary>
    /// <param name="message">The message, in the mapping; valid until the next read or Dispose.</param>
    /// <returns>Whether there was a message.</returns>
    /// <exception cref="QueueCorruptException">The log is damaged here; the position stays. A <see cref="CorruptionPolicy"/> that
    /// steps over damage throws only where nothing after the damage can be read and nothing may be appended there.</exception>
    /// <exception cref="OffsetOutOfRangeException">The messages here were removed, or a recovery cut them off.</exception>
    /// <exception cref="QueueDiskException">The disk cannot deliver the message's page or file; the position stays.</exception>
    /// <exception cref="QueueDeletedException">The store was deleted or replaced. A call that finds nothing looks, once a second
    /// at most.</exception>
    public unsafe bool TryRead(out ReadOnlySpan<byte> message)
    {
        bool found = TryReadNext(out byte* payload, out int length);
        message = found ? new ReadOnlySpan<byte>(payload, length) : default;
        return found;
    }

    /// <summary>Reads the next message, and polls for it up to a time limit.</summary>
    /// <param name="message">The message, in the mapping; valid until the next read or Dispose.</param>
    /// <param name="timeout">How long to poll; may be infinite.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Whether there was a message.</returns>
    /// <exception cref="OperationCanceledException">Cancelled while waiting.</exception>
    /// <exception cref="QueueDeletedException">The store was deleted or replaced.</exception>
    public bool TryRead(out ReadOnlySpan<byte> message, TimeSpan timeout, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(timeout, Timeout.InfiniteTimeSpan);
        var deadline = new Deadline(timeout);
        int pauseMs = PauseMinMs;
        while (!TryRead(out message))
        {
            cancellationToken.ThrowIfCancellationRequested();
            if (deadline.IsOver)
                return false;
            cancellationToken.WaitHandle.WaitOne(pauseMs);
            pauseMs = Math.Min(pauseMs * 2, PauseMaxMs);
        }

        return true;
    }

    /// <summary>
    /// Completes when <see cref="TryRead(out ReadOnlySpan{byte})"/> finds a message. Where this process may write the store's
    /// control page, a producer wakes it at once, and all waits of a process share a thread; elsewhere, and on the portable
    /// platform, it polls as the other form does. The last message's span ends with this call. One caller at a time; waiting
    /// allocates nothing, except where it polls.
    /// </summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <returns>Always true.</returns>
    /// <exception cref="OperationCanceledException">Cancelled.</exception>
    /// <exception cref="ObjectDisposedException">The reader was disposed, also during the wait.</exception>
    /// <exception cref="InvalidOperationException">A call is waiting already.</exception>
    /// <exception cref="QueueDeletedException">The store was deleted or replaced.</exception>
    /// <inheritdoc cref="TryRead(out ReadOnlySpan{byte})" path="/exception"/>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<bool> WaitToReadAsync(CancellationToken cancellationToken = default)
    {
        int pauseMs = PauseMinMs;
        while (true)
        {
            cancellationToken.ThrowIfCancellationRequested();
            if (HasNext())
                return true;
            if (FindWait() is { } wait)
            {
                TimeSpan atMost = wait.Prepare(out ulong sequence);
                if (HasNext())
                    return true;
                await wait.WaitAsync(sequence, atMost, cancellationToken).ConfigureAwait(false);
            }
            else
            {
                await Task.Delay(pauseMs, cancellationToken).ConfigureAwait(false);
                pauseMs = Math.Min(pauseMs * 2, PauseMaxMs);
            }
        }
    }

    /// <summary>Moves to a frame's start, the tail, the oldest message or the end of the published messages.</summary>
    /// <param name="start">Where to move.</param>
    /// <exception cref="OffsetOutOfRangeException">The exact offset is not a frame's start.</exception>
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

    /// <inheritdoc cref="MappedFileQueue.FindOffset(DateTimeOffset)"/>
    public long FindOffset(DateTimeOffset time) => FindOffset(QueueStart.FromTime(time));

    /// <inheritdoc cref="MappedFileQueue.FindOffset(long)"/>
    public long FindOffset(long messageNumber) => FindOffset(QueueStart.FromMessage(messageNumber));

    /// <inheritdoc cref="MappedFileQueue.FindNumber"/>
    public long FindNumber(long offset) => Look(() =>
    {
        using var search = new MessageSearch(_store);
        return search.NumberAt(offset, FindEnd());
    });

    /// <summary>The state of the store now, read from its files.</summary>
    /// <returns>The state.</returns>
    public MappedFileQueueInfo GetInfo() => GetInfo(countsMessages: false);

    /// <inheritdoc cref="MappedFileQueue.GetInfo(bool)"/>
    public MappedFileQueueInfo GetInfo(bool countsMessages) => Look(() =>
    {
        _store.ThrowIfReplaced();
        return _store.GatherInfo(countsMessages);
    });

    /// <summary>
    /// Ends the reader, from any thread, after its running call has ended. A span that another thread still uses stays readable
    /// until that thread's next call.
    /// </summary>
    public void Dispose()
    {
        // A second caller returns only after the first.
        lock (_disposing)
        {
            if (_disposed)
            {
                // It may be the thread that held the span, which the end on another thread has left to it.
                _reader.ReleaseOrphan();
                return;
            }

            _disposed = true;
            lock (_waiting)
                _wait?.Dispose();
            _reader.Close(static () => { });
            _reader.ReleaseOrphan();
            _store.Dispose();
        }
    }

    internal void ThrowIfOther(int structSize, ulong fingerprint)
    {
        StoreMeta meta = _store.Meta;
        if (meta.Kind == StoreKind.Struct && meta.Holds(structSize, fingerprint))
            return;
        throw new QueueFormatException($"The store does not hold this struct: path={_store.Path}, "
            + $"structSize={meta.StructSize}, expected={structSize}. Open it with the struct that made it, or as bytes.");
    }

    [SkipLocalsInit]
    private unsafe bool TryReadNext(out byte* payload, out int length)
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
    /// Whether <see cref="TryRead(out ReadOnlySpan{byte})"/> would find a message now; ends the last one's span, as it does.
    /// </summary>
    private unsafe bool HasNext() => ReadSlowly(takes: false, out _, out _);

    /// <summary>What an asynchronous call waits with; null where it can only poll.</summary>
    private ReaderWait? FindWait()
    {
        lock (_waiting)
        {
            PublicNames.ThrowIfDisposed(_disposed, PublicNames.Reader);
            if (!_hasTriedToWait)
                _wait = ReaderWait.TryOpen(_store.Directory);
            _hasTriedToWait = true;
            return _wait;
        }
    }

    private unsafe bool ReadSlowly(bool takes, out byte* payload, out int length)
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

    private long FindOffset(QueueStart start) => Look(() => Find(start));

    private T Look<T>(Func<T> find)
    {
        using LogReader.Call call = _reader.EnterCall();
        ThrowIfDisposed();
        return find();
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

    private void OnGap(long offset, long nextOffset) =>
        MessagesSkipped?.Invoke(this, new MessagesSkippedEventArgs("", offset, nextOffset));

    private void OnSkipped(QueueCorruptException error, long offset, long nextOffset) =>
        CorruptionSkipped?.Invoke(this, new CorruptionSkippedEventArgs("", error, offset, nextOffset));
}
