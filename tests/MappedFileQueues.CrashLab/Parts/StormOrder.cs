using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// Every message of a producer comes once and in order, each byte as it was written. What is missing was skipped: it is where
/// the reader said so, all of it and nothing else.
/// </summary>
internal sealed class StormOrder(int seed, OffsetLedger? ledger = null, KillBoard? board = null)
{
    private readonly List<(long From, long To)> _gaps = [];
    private long _next;

    /// <summary>The last number of each producer.</summary>
    public Dictionary<int, long> Numbers { get; } = [];

    /// <summary>The reader has said that it skips all between two offsets.</summary>
    public void Skip(long from, long to)
    {
        lock (Numbers)
        {
            if (from < _next || to < from)
                throw new LabViolation($"A reader that has come to {_next} says that it skips {from} to {to}");
            _gaps.Add((from, to));
            _next = to;
        }
    }

    public void Add(ReadOnlySpan<byte> message, long offset)
    {
        Victim.CheckMessage(message, seed, offset);
        (int producer, long number) = LabMessage.Head(message);
        lock (Numbers)
        {
            long last = Numbers.GetValueOrDefault(producer);
            if (number <= last || offset < _next)
                throw new LabViolation(
                    $"After message {last} of producer {producer}, and offset {_next}, comes {number}, at {offset}");
            CheckSkipped(producer, last + 1, number - 1, $"message {number} at {offset}");
            Numbers[producer] = number;
            _next = offset + 1;
        }
    }

    public long Last(int producer)
    {
        lock (Numbers)
            return Numbers.GetValueOrDefault(producer);
    }

    /// <summary>That so many messages of a producer are there, or were skipped.</summary>
    public bool IsComplete(int producer, long number)
    {
        lock (Numbers)
        {
            long last = Numbers.GetValueOrDefault(producer);
            if (last >= number)
                return true;
            if (ledger?.OffsetOf(producer, number) is not { } offset || offset >= _next)
                return false;
            CheckSkipped(producer, last + 1, number, $"offset {_next}");
            return true;
        }
    }

    private void CheckSkipped(int producer, long first, long last, string before)
    {
        for (long number = first; number <= last; number++)
        {
            long? offset = ledger?.OffsetOf(producer, number);
            // Its producer died before it heard of it.
            if (offset is null && ledger is not null && _gaps.Count > 0 && number > Volatile.Read(ref board!.Acked(producer)))
                continue;
            if (offset is not { } at || !_gaps.Exists(gap => at >= gap.From && at < gap.To))
                throw new LabViolation(
                    $"Before {before} message {number} of producer {producer}, at {offset}, is missing; skipped: "
                    + string.Join(", ", _gaps.TakeLast(4)));
        }
    }
}
