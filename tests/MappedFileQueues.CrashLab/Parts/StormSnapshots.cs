using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// Snapshots that are taken in a storm: each is a store with a stretch of the log, in which nothing is missing; and at the end
/// of the storm it is what it was, whatever became of the files that it shares with the store.
/// </summary>
internal sealed class StormSnapshots(string folder, int seed, OffsetLedger ledger, KillBoard board)
{
    private const int CountMax = 3;

    private readonly List<(string Path, ulong Sum)> _made = [];

    public void Make(MappedFileQueue queue)
    {
        if (_made.Count == CountMax)
            return;
        string path = Path.Combine(folder, $"snapshot-{_made.Count}");
        queue.Snapshot(path);
        ReadAllThatIsLeft(path, new StormOrder(seed, ledger, board), out ulong sum);
        _made.Add((path, sum));
    }

    public void CheckAgain()
    {
        foreach ((string path, ulong sum) in _made)
        {
            ReadAllThatIsLeft(path, new StormOrder(seed, ledger, board), out ulong again);
            if (again != sum)
                throw new LabViolation($"A snapshot has changed: {path}");
        }
    }

    /// <summary>Of a store that may have removed its oldest messages, and may be about to remove more.</summary>
    public static StormOrder ReadAllThatIsLeft(string path, StormOrder order, out ulong sum)
    {
        using MappedFileReader reader = MappedFileReader.Open(
            path, QueueStart.Earliest, CorruptionPolicy.Throw, OutOfRangePolicy.Earliest);
        order.Skip(0, reader.Offset);
        reader.MessagesSkipped += (_, skipped) => order.Skip(skipped.Offset, skipped.NextOffset);
        return ReadAll(reader, order, out sum);
    }

    public static StormOrder ReadAll(string path, StormOrder order, out ulong sum)
    {
        using MappedFileReader reader = MappedFileReader.Open(path);
        return ReadAll(reader, order, out sum);
    }

    private static StormOrder ReadAll(MappedFileReader reader, StormOrder order, out ulong sum)
    {
        sum = 0;
        while (reader.TryRead(out ReadOnlySpan<byte> message))
        {
            order.Add(message, reader.MessageOffset);
            sum = (sum * 31) + FrameSum(message);
        }

        return order;
    }

    private static ulong FrameSum(ReadOnlySpan<byte> message)
    {
        ulong sum = (ulong)message.Length;
        foreach (byte value in message)
            sum = (sum * 131) + value;
        return sum;
    }
}
