namespace MappedFileQueues.Log.Reading;

/// <summary>Lets a reader continue when the messages at its offset were removed.</summary>
/// <param name="findStart">Finds the offset to continue at: a frame's start, or the tail.</param>
/// <param name="tryStore">Called after the reader has moved there; false when that offset is removed by now, too.</param>
/// <param name="report">Called outside the reader's call, with the offset before and the one after.</param>
internal sealed class GapSkipper(Func<long> findStart, Func<long, bool> tryStore, Action<long, long>? report)
{
    /// <summary>Called outside the reader's call, with the offset before and the one after.</summary>
    public Action<long, long>? Report => report;

    public long FindStart() => findStart();

    public bool TryStore(long offset) => tryStore(offset);
}
