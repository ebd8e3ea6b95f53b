using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// What keeps this queue's background flushes from succeeding: damage in the log, a process without a descriptor left, a lock's
/// file that cannot be opened. Nothing of that poisons the queue, since no sync has failed and the next flush may succeed; but
/// what is appended meanwhile does not reach the disk. So it is kept, shown to whoever asks in any process (the control page
/// holds the text), and thrown by appends once two intervals have gone by without a flush.
/// <para>Appends do not look here: when it comes to that, the lanes' bounds are taken away, and on their rare path all of them
/// do (`LogAppender`).</para>
/// <code>
/// flushing thread                                  appending thread, rare path
/// 1 refusing = true                                1 its bound
/// 2 full fence                                     2 full fence
/// 3 take the bounds away                           3 look at refusing: take the own bound away again, throw
/// </code>
/// One of the two sees the other's first step, so no lane goes on with a bound that it was given beside this.
/// </summary>
internal sealed class FlushFailure(LogStore store)
{
    /// <summary>
    /// So many attempts fail one after the other before appends are refused. The first one comes within an interval after the
    /// first message that it is for, the others half an interval apart: two intervals in all.
    /// </summary>
    private const int AttemptsMax = 3;

    private readonly Lock _lock = new();
    private volatile Exception? _error;
    private DateTimeOffset _since;
    private int _attempts;
    private volatile bool _isRefusing;

    /// <summary>A flush that nobody waits for has failed.</summary>
    /// <param name="error">Why.</param>
    /// <param name="isAttempt">It was an interval's flush: appends are refused after some of them.</param>
    public void Note(Exception error, bool isAttempt)
    {
        lock (_lock)
        {
            if (_error is null)
                _since = store.Settings.TimeProvider.GetUtcNow();
            _error = error;
            store.Control.WriteFlushFailure(_since, error.Message);
            if (isAttempt && ++_attempts >= AttemptsMax)
                Refuse();
        }
    }

    /// <summary>Nothing will be flushed any more: the store was deleted, say.</summary>
    public void NoteEnd(Exception error)
    {
        lock (_lock)
        {
            _attempts = AttemptsMax;
            Note(error, isAttempt: true);
        }
    }

    /// <summary>
    /// A flush has succeeded, this queue's or another's, or there was nothing to flush. Each flush comes here: two loads while
    /// all is well.
    /// </summary>
    public void Clear()
    {
        if (_error is null && !store.Control.HasFlushFailure)
            return;
        lock (_lock)
        {
            _error = null;
            _attempts = 0;
            _isRefusing = false;
            store.Control.ClearFlushFailure();
        }
    }

    /// <summary>Why appends are refused; null while they are not. After a full fence behind the lane's bound.</summary>
    public MappedFileQueueException? FindRefusal()
    {
        if (!_isRefusing)
            return null;
        lock (_lock)
            return _error is null ? null : Refusal(_error, _since);
    }

    /// <summary>Under the lock.</summary>
    private void Refuse()
    {
        if (_isRefusing)
            return;
        _isRefusing = true;
        Interlocked.MemoryBarrier(); // P33 full: before the bounds are taken away; pairs with P33 full in LogAppender.
        store.Producers.TakeBounds();
    }

    /// <summary>The kept error once more: each caller has its own, of the same type.</summary>
    private MappedFileQueueException Refusal(Exception error, DateTimeOffset since)
    {
        string message = "Nothing was appended, because what is appended does not reach the disk: "
            + $"flushesFailSince={since:O}, confirmed={store.ConfirmedOffset}, path={store.Path}. "
            + $"Appends go on once a flush has succeeded. The flush says: {error.Message}";
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
