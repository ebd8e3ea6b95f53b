using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Segments;

/// <summary>
/// Whether a file is about to become free in a store that takes all the room it may: retention says when it looks, and a producer
/// that needs a segment then waits a little for that file. Any thread; one look at a time.
/// </summary>
internal sealed class SpareWatch(HeldDirectory directory)
{
    private volatile bool _isLooking;
    private volatile bool _isFull;

    /// <summary>A store with so many files takes all that it may.</summary>
    public int FilesMax { get; set; } = int.MaxValue;

    /// <summary>From here until <see cref="EndLook"/>, a look of retention is due or under way.</summary>
    public void BeginLook() => _isLooking = true;

    public void EndLook() => (_isLooking, _isFull) = (false, false);

    /// <summary>A file is about to become free, and none waits to be used again.</summary>
    public bool IsDue() => _isLooking && IsFull(out bool hasSpare) && !hasSpare;

    /// <summary>A store that is full now is so until the look ends: a removed file takes blocks while it is mapped.</summary>
    public void NoteIfFull() => _ = IsFull(out _);

    private bool IsFull(out bool hasSpare)
    {
        IReadOnlyList<string> files = directory.List(StoreNames.CommitLog);
        hasSpare = files.Any(StoreNames.IsSpare);
        if (files.Count >= FilesMax)
            _isFull = true;
        return _isFull;
    }
}
