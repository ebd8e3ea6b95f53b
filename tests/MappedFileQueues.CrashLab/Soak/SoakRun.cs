using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Soak;

/// <summary>
/// Two producers and three consumers of different speeds, each a process, on a store that keeps 64 MiB, for minutes. Each second
/// it holds what every process takes, and the disk, against bounds; the processes check what they read.
/// </summary>
internal sealed class SoakRun(string folder, TimeSpan time)
{
    /// <summary>The runtime and a few buffers.</summary>
    private const long OwnMiBMax = 160;

    /// <summary>Code of the runtime, and the pages of all segments that a queue may have mapped.</summary>
    private const long MappedMiBMax = 100 + (SegmentsMax * SoakPlan.SegmentLength >> 20);

    /// <summary>As many as the policy keeps files, and some for the preparer, a lane and a reader.</summary>
    private const int SegmentsMax = 64;

    /// <summary>Those of the mapped segments, of 64 segments that are not flushed, and of the runtime.</summary>
    private const int DescriptorsMax = 250;

    private const int MappingsMax = 1500;

    /// <summary>What the slow consumer keeps, what waits to be used again, what is prepared, and a second's delay.</summary>
    private const long DiskBytesMax =
        SoakPlan.UnconsumedBytesMax + SoakPlan.MaxBytes + (64L << 20) + (2 * SoakPlan.BytesPerSecond);

    /// <summary>Files without a name that a process still has mapped come on top.</summary>
    private const long DeletedBytesMax = 256L << 20;

    private static readonly TimeSpan s_standstillMax = TimeSpan.FromSeconds(30);
    private static readonly TimeSpan s_endMax = TimeSpan.FromMinutes(2);

    private readonly Dictionary<string, LabChild> _children = [];
    private readonly Dictionary<string, ProcessState> _most = [];
    private readonly Dictionary<string, (long Offset, long At)> _moved = [];
    private readonly string _store = SoakPlan.OptionsOf(folder).StorePath;
    private long _diskMost;
    private long _deletedMost;
    private int _samples;

    /// <summary>Throws <see cref="LabViolation"/> for whatever was promised and is not so.</summary>
    public void Run()
    {
        using (var queue = new MappedFileQueue(SoakPlan.OptionsOf(folder)))
            queue.SetRetention(SoakPlan.Policy);
        try
        {
            foreach (string name in SoakPlan.Consumers)
                Start(name, SoakPlan.ConsumerVerb, name);
            for (int i = 0; i < SoakPlan.ProducerCount; i++)
                Start($"producer {i}", SoakPlan.ProducerVerb, i.ToString(CultureInfo.InvariantCulture));
            for (long began = Stopwatch.GetTimestamp(); Stopwatch.GetElapsedTime(began) < time; Thread.Sleep(1000))
                Look();
            End();
        }
        finally
        {
            foreach (LabChild child in _children.Values)
                child.Dispose();
        }
    }

    private void Start(string name, string verb, string argument) => _children[name] = new LabChild([verb, folder, argument]);

    private void Look()
    {
        using MappedFileReader reader = MappedFileReader.Open(_store);
        MappedFileQueueInfo info = reader.GetInfo();
        var deleted = new HashSet<string>(StringComparer.Ordinal);
        foreach ((string name, LabChild child) in _children)
        {
            if (child.HasExited)
                throw new LabViolation($"{name} has ended with {child.ExitCode}:\n{child.Output}");
            if (ProcessState.Read(child.Id, _store) is not { } state)
                continue;
            deleted.UnionWith(state.Deleted);
            _most[name] = _most.TryGetValue(name, out ProcessState? most) ? state.Max(most) : state;
            if (state.OwnMiB > OwnMiBMax || state.MappedMiB > MappedMiBMax || state.Descriptors > DescriptorsMax
                || state.Segments > SegmentsMax || state.Mappings > MappingsMax)
                throw new LabViolation($"{name} takes more than it may: {state}");
        }

        long deletedBytes = deleted.Count * SoakPlan.SegmentLength;
        (_diskMost, _deletedMost) = (Math.Max(_diskMost, info.BytesOnDisk), Math.Max(_deletedMost, deletedBytes));
        if (info.BytesOnDisk > DiskBytesMax || deletedBytes > DeletedBytesMax)
            throw new LabViolation($"the disk holds {info.BytesOnDisk} bytes, and {deletedBytes} in deleted files");
        ThrowIfStill("the log", info.PublishedOffset);
        foreach (MappedFileConsumerInfo consumer in info.Consumers)
            ThrowIfStill(consumer.Name, consumer.Offset);
        _samples++;
    }

    private void ThrowIfStill(string name, long offset)
    {
        if (!_moved.TryGetValue(name, out (long Offset, long At) moved) || moved.Offset != offset)
            _moved[name] = (offset, Stopwatch.GetTimestamp());
        else if (Stopwatch.GetElapsedTime(moved.At) > s_standstillMax)
            throw new LabViolation($"{name} has stood at {offset} for {s_standstillMax.TotalSeconds} s");
    }

    private void End()
    {
        File.WriteAllText(SoakPlan.StopFile(folder), "");
        double leftBehind = (time.TotalSeconds * SoakPlan.SlowBytesPerSecond) + (2 * SoakPlan.UnconsumedBytesMax);
        long[] appended = [.. Enumerable.Range(0, SoakPlan.ProducerCount).Select(i => Finish($"producer {i}", "appended"))];
        long end;
        using (MappedFileReader reader = MappedFileReader.Open(_store))
        {
            end = reader.GetInfo().PublishedOffset;
            File.WriteAllText(SoakPlan.EndFile(folder) + ".new", end.ToString(CultureInfo.InvariantCulture));
            File.Move(SoakPlan.EndFile(folder) + ".new", SoakPlan.EndFile(folder));
        }

        Console.WriteLine($"soak: {appended.Sum()} messages appended, {_samples} looks; at most {_diskMost >> 20} MiB on disk, "
            + $"{_deletedMost >> 20} MiB in deleted files that are still mapped");
        foreach (string name in SoakPlan.Consumers)
        {
            long read = Finish(name, "read");
            long gaps = Finish(name, "gaps");
            // Whoever skipped nothing has read everything. Whoever did may have skipped the very end.
            if (gaps == 0 && read != appended.Sum())
                throw new LabViolation($"{name} has read {read} of {appended.Sum()} messages and skipped nothing");
            // A machine on which the producers do not reach their speed drops nobody.
            if (name == "slow" && gaps == 0 && end > leftBehind)
                throw new LabViolation("the slow consumer was never dropped, so this run shows too little");
            Console.WriteLine($"soak: {name}: {read} messages read, {gaps} gaps of {Finish(name, "skipped")} bytes in all");
        }

        foreach ((string name, ProcessState most) in _most)
            Console.WriteLine($"soak: {name}: at most {most}");
    }

    /// <summary>Waits for the end of a child; the number that it gives.</summary>
    private long Finish(string name, string field)
    {
        LabChild child = _children[name];
        if (!child.WaitForExit(s_endMax))
            throw new LabViolation($"{name} does not end:\n{child.Output}");
        string? found = child.Output.Split(' ', '\n')
            .FirstOrDefault(part => part.StartsWith(field + '=', StringComparison.Ordinal));
        if (child.ExitCode != 0 || found is null)
            throw new LabViolation($"{name} has ended with {child.ExitCode}:\n{child.Output}");
        return long.Parse(found[(field.Length + 1)..], CultureInfo.InvariantCulture);
    }
}
