namespace MappedFileQueues.Tool.VersionOne;

/// <summary>
/// Reads the messages of a store of 1.x in order. The producer's offset says where they end: complete messages after it are
/// *ghosts*, what an earlier run left there when the producer was set back, or what a power loss left when the offset was not yet
/// on disk. 1.x itself reads them as messages, because it looks at end marks only.
/// </summary>
internal abstract class VersionOneReader(VersionOneFolder folder, CancellationToken stopped)
{
    /// <summary>How many stretches are told one by one.</summary>
    private const int UnreadMax = 1000;

    private readonly long _end = Math.Max(folder.Producer ?? 0, folder.Confirmed ?? 0);
    private long _next = FindFirst(folder);
    private long? _ghostsFrom;

    /// <summary>The offset of the message that was read last.</summary>
    public long Offset { get; private set; }

    /// <summary>Where the next one begins.</summary>
    public long NextOffset => _next;

    /// <summary>The message that was read last is a ghost.</summary>
    public bool IsGhost => Offset >= (_ghostsFrom ?? _end);

    /// <summary>
    /// The stretches before the end that hold no message that can be read, in order; not all, if there are many.
    /// </summary>
    public List<UnreadStretch> Unread { get; } = [];

    /// <summary>Their length together.</summary>
    public long UnreadBytes { get; private set; }

    protected VersionOneFolder Folder { get; } = folder;

    /// <summary>Opens a folder.</summary>
    /// <param name="folder">The folder.</param>
    /// <param name="structSize">The size of its structs; null for messages of any length.</param>
    /// <param name="stopped">Ends the reading.</param>
    public static VersionOneReader Open(VersionOneFolder folder, int? structSize, CancellationToken stopped = default) =>
        structSize is { } size ? new VersionOneStructs(folder, size, stopped) : new VersionOneMessages(folder, stopped);

    /// <summary>
    /// Reads the next message or ghost; false at the end, or when it was stopped. The span is valid until the next call.
    /// </summary>
    public bool TryRead(out ReadOnlySpan<byte> message)
    {
        while (_next < Folder.End && !stopped.IsCancellationRequested)
        {
            if (TryReadNext(out message, out int length))
            {
                Offset = _next;
                _next += length;
                return true;
            }
        }

        if (_next < _end && !stopped.IsCancellationRequested)
            Skip(_end, "the segment is missing");
        message = default;
        return false;
    }

    /// <summary>Reads what is at the next offset, and tells its length on disk; or skips something, and returns false.</summary>
    protected abstract bool TryReadNext(out ReadOnlySpan<byte> message, out int length);

    /// <summary>Leaves out what is before an offset.</summary>
    protected void Skip(long to, string reason)
    {
        long end = Math.Min(to, _end);
        if (_next < end)
        {
            UnreadBytes += end - _next;
            if (Unread is [.., var last] && last.To == _next && last.Reason == reason)
                Unread[^1] = last with { To = end };
            else if (Unread.Count < UnreadMax)
                Unread.Add(new UnreadStretch(_next, end, reason));
        }

        _next = to;
    }

    /// <summary>What comes from here on are ghosts.</summary>
    protected void EndHere() => _ghostsFrom ??= Math.Min(_next, _end);

    /// <summary>Where something begins again after a stretch without messages.</summary>
    protected long FindResumption()
    {
        long next = Folder.FindStartAfter(_next) ?? Math.Max(Folder.End, _end);
        return _next < _end ? Math.Min(next, _end) : next;
    }

    /// <summary>
    /// Users of 1.x removed segments by hand. What is missing before the first one matters from the consumer's place on.
    /// </summary>
    private static long FindFirst(VersionOneFolder folder)
    {
        long first = folder.Segments is [var segment, ..]
            ? segment.Start
            : Math.Max(folder.Producer ?? 0, folder.Confirmed ?? 0);
        return Math.Min(first, folder.Consumer ?? first);
    }
}

/// <summary>A stretch of the log of 1.x that could not be read, and why.</summary>
internal sealed record UnreadStretch(long From, long To, string Reason);
