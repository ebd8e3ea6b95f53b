namespace MappedFileQueues.Hosting.Consumers;

/// <summary>What a consumer is doing.</summary>
internal enum ConsumerStatus
{
    /// <summary>It was not started yet.</summary>
    New,

    /// <summary>Another process holds its name.</summary>
    StandsBy,

    /// <summary>It consumes, or waits for a message.</summary>
    Runs,

    /// <summary>Its handler has failed, and is called again.</summary>
    Retries,

    /// <summary>Many messages in a row went to the dead letters: it pauses after each further one.</summary>
    Pauses,

    /// <summary>It cannot open, read, commit, or append a dead letter, and tries again until it can.</summary>
    HeldUp,

    /// <summary>The application ended it.</summary>
    Stopped,

    /// <summary>It stopped at a message or an error, for good.</summary>
    Failed,
}

/// <summary>What a consumer is doing, and what keeps it from its work.</summary>
/// <param name="Status">What it is doing.</param>
/// <param name="Error">Why it stopped for good, retries, pauses or is held up; null while all is well.</param>
internal sealed record ConsumerCondition(ConsumerStatus Status, Exception? Error = null);

/// <summary>What health and the log see of a consumer. Written by the consumer, read by any thread.</summary>
internal sealed class ConsumerState(
    string queueName, string name, string key, string handlerName, TimeSpan handlerTimeMax, TimeProvider timeProvider)
{
    private readonly Lock _lock = new();
    private long _calledAt;
    private long _offset;
    private long _toldAt = -1;
    private volatile LetterTrouble? _letterTrouble;
    private volatile ConsumerCondition _condition = new(ConsumerStatus.New);

    public string QueueName => queueName;

    public string Name => name;

    /// <summary>What tells it from others of its name in the data of health.</summary>
    public string Key => key;

    public string HandlerName => handlerName;

    /// <summary>Both parts belong together: the consumer may continue at any time.</summary>
    public ConsumerCondition Condition
    {
        get => _condition;
        set => _condition = value;
    }

    /// <summary>The error of a dead letter that a group tries to append again; null when there is none.</summary>
    public Exception? LetterError =>
        _letterTrouble is { } trouble && timeProvider.GetElapsedTime(trouble.Since) < trouble.Lasts ? trouble.Error : null;

    /// <summary>A dead letter could not be appended; another member, of any process, may be the one that can.</summary>
    /// <param name="error">Why.</param>
    /// <param name="lasts">When it is tried again at the latest, and some time more.</param>
    public void NoteLetterTrouble(Exception error, TimeSpan lasts) =>
        _letterTrouble = new LetterTrouble(error, timeProvider.GetTimestamp(), lasts);

    /// <summary>Where it is.</summary>
    public long Offset => Volatile.Read(ref _offset);

    /// <summary>The handler is called; returns the time.</summary>
    public long BeginCall(long offset)
    {
        long now = timeProvider.GetTimestamp();
        Volatile.Write(ref _offset, offset);
        Volatile.Write(ref _calledAt, now == 0 ? 1 : now);
        return now;
    }

    /// <summary>The handler has returned or thrown; returns how long that took.</summary>
    public TimeSpan EndCall(long began)
    {
        Volatile.Write(ref _calledAt, 0);
        return timeProvider.GetElapsedTime(began);
    }

    /// <summary>Whether the handler has not returned for too long.</summary>
    /// <param name="time">For how long.</param>
    /// <param name="offset">The message.</param>
    public bool TryFindHang(out TimeSpan time, out long offset)
    {
        long calledAt = Volatile.Read(ref _calledAt);
        offset = Offset;
        time = calledAt == 0 ? TimeSpan.Zero : timeProvider.GetElapsedTime(calledAt);
        return time > handlerTimeMax;
    }

    private sealed record LetterTrouble(Exception Error, long Since, TimeSpan Lasts);

    /// <summary>True once for each message.</summary>
    public bool TellsHangOnce(long offset)
    {
        lock (_lock)
        {
            bool isNew = _toldAt != offset;
            _toldAt = offset;
            return isNew;
        }
    }
}
