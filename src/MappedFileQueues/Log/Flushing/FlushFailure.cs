using MappedFileQueues.Log.Store;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// What keeps this queue's background flushes from succeeding: damage in the log, a process that has no descriptor left, a lock
/// file that cannot be opened. None of these poisons the queue, because no sync has failed and the next flush may succeed. But
/// messages appended meanwhile do not reach the disk. So the error is kept, shown to every process that asks (the control page
/// holds the text), and thrown by appends once two intervals have passed without a flush.
/// <para>Appends do not normally check for it. When appends are to be refused, the lanes' bounds are taken away, which forces
/// every append onto its rare path, and the rare path checks (`LogAppender`).</para>
/// <code>
/// flushing thread                                  appending thread, rare path
/// 1 refusing = true                                1 set the lane's bound
/// 2 full barrier                                   2 full barrier
/// 3 take the bounds away                           3 read refusing; if true, take the own bound away again and throw
/// </code>
/// One of the two threads sees the other's first step, so no lane keeps a bound that it was given at the same time.
/// </summary>
internal sealed class FlushFailure(LogStore store)
{
    /// <summary>
    /// How many attempts in a row must fail before appends are refused. The first attempt comes within one interval after the
    /// first message that needs it, the others half an interval apart: two intervals in all.
    /// </summary>
    private const int AttemptsMax = 3;

    private readonly Lock _lock = new();
    private volatile Exception? _error;
    private DateTimeOffset _since;
    private int _attempts;
    private volatile bool _isRefusing;

    /// <summary>Records that a flush failed for which no caller waits.</summary>
    /// <param name="error">The error of the flush.</param>
    /// <param name="isAttempt">True for an interval's flush: after several of these fail, appends are refused.</param>
    public void Note(Exception error, bool isAttempt)
    {
        lock (_lock)
        {
            if (_error is null)
                _since = store.Settings.TimeProvider.GetUtcNow();
            _error = error;
            store.Control.FlushFailure.Write(_since, error.Message);
            if (isAttempt && ++_attempts >= AttemptsMax)
                Refuse();
        }
    }

    /// <summary>Records that nothing will be flushed any more, for example because the store was deleted.</summary>
    public void NoteEnd(Exception error)
    {
        lock (_lock)
        {
            _attempts = AttemptsMax;
            Note(error, isAttempt: true);
        }
    }

    /// <summary>
    /// Records that a flush has succeeded, this queue's or another's, or that there was nothing to flush. Every flush that moves
    /// the durable offset calls this; it costs two loads while all is well.
    /// </summary>
    /// <param name="onlyOwn">What another queue has told stays.</param>
    public void Clear(bool onlyOwn = false)
    {
        if (_error is null && (onlyOwn || !store.Control.FlushFailure.IsSet))
            return;
        lock (_lock)
        {
            _error = null;
            _attempts = 0;
            _isRefusing = false;
            store.Control.FlushFailure.Clear();
        }
    }

    /// <summary>A flush did not fail: appends continue, whatever is still told.</summary>
    public void EndAttempts()
    {
        if (_error is null)
            return;
        lock (_lock)
        {
            _attempts = 0;
            _isRefusing = false;
        }
    }

    /// <summary>
    /// The reason why appends are refused; null while they are not. Call it after a full barrier that follows the lane's bound.
    /// </summary>
    public MappedFileQueueException? FindRefusal()
    {
        if (!_isRefusing)
            return null;
        lock (_lock)
            return _error is null ? null : Refusal(_error, _since);
    }

    /// <summary>Call it under the lock.</summary>
    private void Refuse()
    {
        if (_isRefusing)
            return;
        _isRefusing = true;
        Interlocked.MemoryBarrier(); // P33 full: before the bounds are taken away; pairs with P33 full in LogAppender.
        store.Producers.TakeBoundsBelow(long.MaxValue);
    }

    /// <summary>Creates the kept error again: each caller gets its own exception, of the same type.</summary>
    private MappedFileQueueException Refusal(Exception error, DateTimeOffset since)
    {
        string message = "Nothing was appended, because appended messages do not reach the disk: "
            + $"flushesFailSince={since:O}, confirmed={store.ConfirmedOffset}, path={store.Path}. "
            + $"Appends succeed again after the next successful flush. The flush failed with: {error.Message}";
        return error switch
        {
            QueueCorruptException corrupt => new QueueCorruptException(message, corrupt.File, corrupt.Offset),
            QueueDiskException disk => new QueueDiskException(message, disk.Errno, disk.Path, disk),
            QueueDeletedException => new QueueDeletedException(error.Message),
            QueuePoisonedException => store.Poisoned(error),
            _ => new MappedFileQueueException(message, error),
        };
    }
}
