using System.Collections.Concurrent;
using System.Diagnostics;

namespace MappedFileQueues.CrashLab;

/// <summary>What a part of the laboratory has done and found; filled by several threads.</summary>
internal sealed class PartResult(string name)
{
    private readonly long _began = Stopwatch.GetTimestamp();
    private readonly ConcurrentDictionary<string, long> _counts = new(StringComparer.Ordinal);
    private readonly ConcurrentQueue<string> _violations = new();
    private readonly ConcurrentQueue<string> _skipped = new();
    private long _counted = Stopwatch.GetTimestamp();

    public string Name => name;

    public IReadOnlyCollection<string> Violations => _violations;

    public IReadOnlyCollection<string> Skipped => _skipped;

    /// <summary>Everything that was checked and held: images, kills, damages, faults, cuts.</summary>
    public long Checks => Math.Max(0, _counts.Where(pair => pair.Key != "runs").Sum(pair => pair.Value) - _violations.Count);

    public TimeSpan Elapsed => Stopwatch.GetElapsedTime(_began);

    public TimeSpan SinceLastCount => Stopwatch.GetElapsedTime(Volatile.Read(ref _counted));

    public long Count(string what) => _counts.GetValueOrDefault(what);

    /// <summary>Counts checks of a kind.</summary>
    public void Add(string what, long count = 1)
    {
        _counts.AddOrUpdate(what, count, (_, old) => old + count);
        Volatile.Write(ref _counted, Stopwatch.GetTimestamp());
    }

    /// <summary>A promise was broken; said at once, since the program may not live to its summary.</summary>
    public void Violate(int seed, string message, string replay)
    {
        string text = $"VIOLATION {name} seed={seed}: {message}\n    replay: {replay}";
        _violations.Enqueue(text);
        Console.WriteLine(text);
    }

    public void Skip(string what, string reason)
    {
        string text = $"{what} skipped: {reason}";
        _skipped.Enqueue(text);
        Console.WriteLine($"{name}: {text}");
    }

    public void Print()
    {
        string counts = string.Join(", ", _counts.OrderBy(pair => pair.Key, StringComparer.Ordinal)
            .Select(pair => $"{pair.Value} {pair.Key}"));
        Console.WriteLine($"{name}: {counts}; {_violations.Count} violations, {_skipped.Count} skipped, "
            + $"{Elapsed.TotalSeconds:F1} s");
    }
}
