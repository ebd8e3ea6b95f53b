using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.Tests.Crash.Storm;

/// <summary>
/// What one consumer of the storm has read: per producer how many messages, each of them the next one of its producer, or it
/// fails. So nothing is twice, torn, or out of order; what is missing shows at the end.
/// </summary>
internal sealed class StormLog(int lineCount)
{
    private readonly long[] _next = new long[lineCount];

    /// <summary>How many messages of a producer came.</summary>
    public long Count(int line) => Volatile.Read(ref _next[line]);

    public long Total => _next.Sum();

    /// <summary>Notes a message; returns its producer and its number.</summary>
    public (int Line, long Number) Add(ReadOnlySpan<byte> message)
    {
        string text = CrashMessage.Read(message);
        int colon = text.IndexOf(':', StringComparison.Ordinal);
        int line = int.Parse(text.AsSpan(0, colon), CultureInfo.InvariantCulture);
        long number = long.Parse(text.AsSpan(colon + 1), CultureInfo.InvariantCulture);
        if (number != _next[line])
            throw new InvalidDataException($"Producer {line}: message {number} came, {_next[line]} was next.");
        Volatile.Write(ref _next[line], number + 1);
        return (line, number);
    }
}

/// <summary>When each of the survivor's messages was begun and came through.</summary>
internal sealed class StormClock(int capacity)
{
    private readonly long[] _began = new long[capacity];
    private readonly long[] _came = new long[capacity];
    private int _count;

    public int Count => Volatile.Read(ref _count);

    /// <summary>Of all messages.</summary>
    public TimeSpan P99 =>
        Enumerable.Range(0, Count).Select(i => Stopwatch.GetElapsedTime(_began[i], _came[i])).Order()
            .ElementAt((int)(Count * 0.99));

    /// <summary>Notes the time before the append; returns the message's number.</summary>
    public int Begin()
    {
        _began[_count] = Stopwatch.GetTimestamp();
        return Volatile.Read(ref _count);
    }

    public void Appended() => Volatile.Write(ref _count, _count + 1);

    public void Came(long number) => _came[number] = Stopwatch.GetTimestamp();

    /// <summary>
    /// How long the first message that was begun after a moment took from there to the consumer; null when there was none.
    /// </summary>
    public TimeSpan? FirstAfter(long moment)
    {
        int at = Array.BinarySearch(_began, 0, Count, moment);
        at = at < 0 ? ~at : at;
        return at == Count ? null : Stopwatch.GetElapsedTime(_began[at], _came[at]);
    }
}
