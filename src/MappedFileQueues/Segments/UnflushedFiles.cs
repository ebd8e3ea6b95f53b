using MappedFileQueues.Platform;

namespace MappedFileQueues.Segments;

/// <summary>
/// The descriptors of segments that this queue has unmapped and nobody has flushed: a write-back error is reported only to
/// descriptors that were open before it. One thread at a time, but for <see cref="IsEmpty"/>.
/// </summary>
internal sealed class UnflushedFiles(long segmentLength)
{
    /// <summary>The most that are kept; a process may have 1,024 descriptors by default.</summary>
    private const int CountMax = 64;

    private readonly Dictionary<long, PlatformFile> _files = [];

    public bool IsEmpty => _files.Count == 0;

    /// <summary>False when there is one for that segment already.</summary>
    public bool TryKeep(long start, PlatformFile file) => _files.TryAdd(start, file);

    /// <summary>Gives the segment's descriptor to the caller; null when there is none.</summary>
    public PlatformFile? Take(long start) => _files.Remove(start, out PlatformFile? file) ? file : null;

    /// <summary>Closes those of segments that end at or before an offset.</summary>
    public void Forget(long confirmed)
    {
        foreach (long start in _files.Keys)
        {
            if (start + segmentLength <= confirmed)
                Take(start)!.Dispose();
        }
    }

    /// <summary>Closes the first when there are too many.</summary>
    public void DropBeyondMax()
    {
        if (_files.Count > CountMax)
            Take(_files.Keys.Min())!.Dispose();
    }

    /// <summary>Closes all.</summary>
    public void Close()
    {
        foreach (PlatformFile file in _files.Values)
            file.Dispose();
        _files.Clear();
    }
}
