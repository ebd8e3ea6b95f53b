using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Tool.Verify;

/// <summary>
/// The consumers' stored offsets, read before the log is walked, and what the walk finds at each: a cursor belongs to the start
/// of a frame, or to the end of the log.
/// </summary>
internal sealed class CursorPlaces
{
    private readonly List<(string File, long Offset)> _ahead = [];
    private readonly List<(string File, long Offset)> _lost = [];
    private int _next;

    /// <summary>Reads them. One that is new or damaged, or that cannot be read, is left out.</summary>
    public CursorPlaces(HeldDirectory directory)
    {
        foreach (string file in CursorFile.Names(directory))
        {
            if (CursorFile.TryRead(directory, file).Offset is { } offset)
                _ahead.Add((file, offset));
        }

        _ahead.Sort((one, other) => one.Offset.CompareTo(other.Offset));
    }

    /// <summary>The cursors that the walk has passed without finding a frame at their offset.</summary>
    public IReadOnlyList<(string File, long Offset)> Lost => _lost;

    /// <summary>The cursors that the walk has not reached.</summary>
    public IEnumerable<(string File, long Offset)> Ahead => _ahead.Skip(_next);

    /// <summary>A frame begins at the offset.</summary>
    public void Pass(long offset)
    {
        for (; _next < _ahead.Count && _ahead[_next].Offset <= offset; _next++)
        {
            if (_ahead[_next].Offset < offset)
                _lost.Add(_ahead[_next]);
        }
    }

    /// <summary>What lies before the offset is damaged: cursors in there are not at fault.</summary>
    public void PassDamage(long nextOffset)
    {
        while (_next < _ahead.Count && _ahead[_next].Offset < nextOffset)
            _next++;
    }
}
