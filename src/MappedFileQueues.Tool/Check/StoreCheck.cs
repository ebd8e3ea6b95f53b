using System.Globalization;
using MappedFileQueues.Format;
using MappedFileQueues.Inspection;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Tool.Consumers;
using MappedFileQueues.Tool.DeadLetters;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Check;

/// <summary>Holds a store against limits. It reads the store's files only, so it works while every program on it hangs.</summary>
internal sealed class StoreCheck
{
    private readonly ReadOnlyStore _store;
    private readonly CheckLimits _limits;
    private readonly MappedFileQueueInfo _info;
    private readonly List<TimeMark> _marks;
    private readonly List<CheckProblem> _problems = [];

    private StoreCheck(ReadOnlyStore store, CheckLimits limits)
    {
        (_store, _limits) = (store, limits);
        _info = store.GatherInfo();
        _marks = new CheckpointFile(store.Directory, store.Meta.StoreId).ReadMarks();
    }

    /// <summary>Looks at the store; takes as long as a claim may stand if one does.</summary>
    public static CheckResult Run(string storePath, CheckLimits limits)
    {
        using var store = ReadOnlyStore.Open(Path.GetFullPath(storePath), verifiesChecksum: false);
        return new StoreCheck(store, limits).Run();
    }

    private CheckResult Run()
    {
        if (_info.IsPoisoned)
            Critical("a flush failed: close it everywhere and open it again");
        foreach (string problem in _info.FileProblems)
            Critical(problem);
        if (!_store.HasValidControl && _info.AttachedProcesses.Count == 0
            && _store.Directory.Identify(StoreNames.Control) is not null)
            Warn("the page that all programs share is not valid: the next one that opens the store alone makes it anew");
        if (_info.FlushFailingSince is { } since)
            Critical(string.Create(CultureInfo.InvariantCulture, $"flushes fail since {since:u}: {_info.LastFlushError}"));
        if (_info.RetentionFailingSince is { } failing)
            Warn(string.Create(CultureInfo.InvariantCulture, $"retention fails since {failing:u}: {_info.LastRetentionError}"));
        foreach (StoredCursor cursor in CursorFile.ReadAll(_store.Directory))
        {
            if (cursor.Problem is { } problem)
                Add(cursor.IsDamaged ? CheckStatus.Critical : CheckStatus.Warning, OperatorWords.Of(problem));
        }

        CheckClaims();
        MappedFileConsumerInfo[] consumers = FindConsumers();
        MappedFileConsumerInfo? last = consumers.MaxBy(consumer => consumer.Lag);
        CheckLag(last);
        TimeSpan age = CheckAge(consumers);
        long unflushed = Math.Max(0, _info.TailOffset - _info.ConfirmedOffset);
        if (unflushed > _limits.UnflushedMax)
            Critical($"{Report.Bytes(unflushed)} not on disk, at most {Report.Number(_limits.UnflushedMax.Value)}");
        long free = _store.Directory.FreeBytes;
        if (free < _limits.FreeMin)
            Critical($"{Report.Bytes(free)} of the disk free, at least {Report.Number(_limits.FreeMin.Value)}");
        long? letters = _limits.LettersMax is null ? null : LetterStore.Count(_store.Path);
        if (letters > _limits.LettersMax)
            Critical($"{Report.Count(letters.Value, "dead letter")} that nobody has settled, at most "
                + Report.Number(_limits.LettersMax.Value));
        return new CheckResult(
            _store.Path, _problems, last?.Lag ?? 0, last?.Name, age.TotalSeconds, unflushed, free, letters);
    }

    private MappedFileConsumerInfo[] FindConsumers()
    {
        if (_limits.Consumers.Count == 0)
            return [.. _info.Consumers];
        List<MappedFileConsumerInfo> found = [];
        foreach (string name in _limits.Consumers)
        {
            MappedFileConsumerInfo? consumer = _info.Consumers
                .FirstOrDefault(candidate => candidate.Name.Equals(name, StringComparison.OrdinalIgnoreCase));
            if (consumer is null)
                Critical($"there is no consumer {ConsumerName.Show(name)}");
            else
                found.Add(consumer);
        }

        return [.. found];
    }

    private void CheckLag(MappedFileConsumerInfo? last)
    {
        if (last is null)
            return;
        string text = $"consumer {ConsumerName.Show(last.Name)} is {Report.Bytes(last.Lag)} behind";
        if (last.Lag > _limits.LagMax)
            Critical($"{text}, at most {Report.Number(_limits.LagMax.Value)}");
        else if (last.Lag > _limits.LagWarning)
            Warn($"{text}, more than {Report.Number(_limits.LagWarning.Value)}");
    }

    private TimeSpan CheckAge(IReadOnlyList<MappedFileConsumerInfo> consumers)
    {
        TimeSpan oldest = TimeSpan.Zero;
        string name = "";
        foreach (MappedFileConsumerInfo consumer in consumers.Where(consumer => consumer.Lag > 0))
        {
            TimeSpan age = AgeAt(consumer.Offset);
            if (age > oldest)
                (oldest, name) = (age, consumer.Name);
        }

        string text = $"consumer {ConsumerName.Show(name)} has not read what was written {Show(oldest)} ago or earlier";
        if (oldest > _limits.AgeMax)
            Critical($"{text}, at most {Show(_limits.AgeMax.Value)}");
        else if (oldest > _limits.AgeWarning)
            Warn($"{text}, more than {Show(_limits.AgeWarning.Value)}");
        return oldest;
    }

    /// <summary>
    /// How long the next message has been there, at least: by the marks of time that flushes leave, or by the last write to its
    /// segment. The rest of a segment may be padding; then the next message lies in the next one.
    /// </summary>
    private TimeSpan AgeAt(long offset)
    {
        offset = Math.Max(offset, _info.OldestOffset);
        while (true)
        {
            long start = _store.Window.StartOf(offset);
            using PlatformFile? file = _store.Directory.Open(StoreNames.Segment(start), FileOpening.Read);
            if (file is null)
                return TimeSpan.Zero;
            var scanner = new SegmentScanner(file, start, _store.Meta.SegmentLength, _store.Checksum);
            ulong header;
            while (scanner.TryReadHeader(offset - start, out header) && FrameHeader.State(header) == FrameState.Padding)
                offset += FrameHeader.FrameLength(FrameHeader.Length(header));
            if (offset - start >= _store.Meta.SegmentLength)
                continue;
            if (header == 0)
                return TimeSpan.Zero;
            DateTimeOffset now = DateTimeOffset.UtcNow;
            TimeSpan byFile = now - file.LastWritten;
            TimeSpan byMark = now - (TimeMarks.TimeOf(_marks, offset) ?? now);
            return byFile > byMark ? byFile : byMark > TimeSpan.Zero ? byMark : TimeSpan.Zero;
        }
    }

    /// <summary>A claim that is seen once may be published a microsecond later; one that still stands is in the way.</summary>
    private void CheckClaims()
    {
        if (_info.OpenClaims is not [{ } claim, ..])
            return;
        using var later = new ManualResetEventSlim();
        later.Wait(_limits.ClaimMax);
        MappedFileClaimInfo? still = _store.GatherInfo().OpenClaims
            .FirstOrDefault(candidate => candidate.Offset == claim.Offset && candidate.Slot == claim.Slot);
        if (still is not null)
        {
            Critical($"readers wait at a claim at offset {still.Offset} of slot {still.Slot}, pid {still.ProcessId}: "
                + "let the process go on, end it, or `mfq fence`");
        }
    }

    private static string Show(TimeSpan time) => string.Create(CultureInfo.InvariantCulture, $"{time.TotalSeconds:F0} s");

    private void Warn(string text) => Add(CheckStatus.Warning, text);

    private void Critical(string text) => Add(CheckStatus.Critical, text);

    private void Add(CheckStatus status, string text) => _problems.Add(new CheckProblem(status, text));
}
