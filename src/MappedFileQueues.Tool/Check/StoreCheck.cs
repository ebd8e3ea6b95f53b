using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Tool.DeadLetters;

namespace MappedFileQueues.Tool.Check;

/// <summary>Holds a store against limits. It reads the store's files only, so it works while every program on it hangs.</summary>
internal sealed class StoreCheck
{
    private readonly ReadOnlyStore _store;
    private readonly CheckLimits _limits;
    private readonly MappedFileQueueInfo _info;
    private readonly List<CheckProblem> _problems = [];

    private StoreCheck(ReadOnlyStore store, CheckLimits limits)
    {
        (_store, _limits) = (store, limits);
        _info = store.GatherInfo();
    }

    /// <summary>Looks at the store; takes as long as a claim may stay if one does.</summary>
    public static CheckResult Run(string storePath, CheckLimits limits)
    {
        using var store = ReadOnlyStore.Open(SystemPath.Full(storePath), verifiesChecksum: false);
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
            Critical($"flushes fail since {since:u}: {_info.LastFlushError}");
        if (_info.RetentionFailingSince is { } failing)
            Warn($"retention fails since {failing:u}: {_info.LastRetentionError}");
        foreach (StoredCursor cursor in StoreCursors.ReadAll(_store.Directory, _store.Meta.StoreId))
        {
            if (cursor.Problem is { } problem)
                Add(cursor.IsDamaged ? CheckStatus.Critical : CheckStatus.Warning, OperatorWords.Of(problem));
        }

        CheckClaims();
        IReadOnlyList<LogFollower> followers = FindFollowers();
        LogFollower? last = followers.MaxBy(one => one.Lag);
        CheckLag(last);
        TimeSpan age = CheckAge(followers);
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

    private IReadOnlyList<LogFollower> FindFollowers()
    {
        IReadOnlyList<LogFollower> all = LogFollower.Of(_info);
        if (_limits.Consumers.Count == 0)
            return all;
        List<LogFollower> found = [];
        foreach (string name in _limits.Consumers)
        {
            if (all.FirstOrDefault(one => one.Name.Equals(name, StringComparison.OrdinalIgnoreCase)) is { } follower)
                found.Add(follower);
            else
                Critical($"there is no {LogFollower.Words(name)}");
        }

        return found;
    }

    private void CheckLag(LogFollower? last)
    {
        Hold($"{LogFollower.Words(last?.Name ?? "")} is {Report.Bytes(last?.Lag ?? 0)} behind",
            last?.Lag ?? -1, _limits.LagMax, _limits.LagWarning, Report.Number);
    }

    private TimeSpan CheckAge(IReadOnlyList<LogFollower> followers)
    {
        (TimeSpan oldest, string name) = followers.Where(one => one.Lag > 0)
            .Select(one => (one.LagTime ?? AgeByFile(one.Offset), one.Name))
            .DefaultIfEmpty((TimeSpan.Zero, ""))
            .MaxBy(one => one.Item1);
        Hold($"{LogFollower.Words(name)} has not read what was written {Show(oldest)} ago or earlier",
            oldest, _limits.AgeMax, _limits.AgeWarning, Show);
        return oldest;
    }

    private void Hold<T>(string text, T value, T? max, T? warning, Func<T, string> show)
        where T : struct, IComparable<T>
    {
        if (max is { } most && value.CompareTo(most) > 0)
            Critical($"{text}, at most {show(most)}");
        else if (warning is { } much && value.CompareTo(much) > 0)
            Warn($"{text}, more than {show(much)}");
    }

    /// <summary>Where no flush has noted a time: since the last write to the segment.</summary>
    private TimeSpan AgeByFile(long offset)
    {
        long start = _store.Window.StartOf(Math.Max(offset, _info.LogStart));
        using PlatformFile? file = _store.Directory.Open(StoreNames.Segment(start), FileOpening.Read);
        TimeSpan age = file is null ? TimeSpan.Zero : DateTimeOffset.UtcNow - file.LastWritten;
        return age > TimeSpan.Zero ? age : TimeSpan.Zero;
    }

    /// <summary>A claim that is seen once may be published a microsecond later; one that is still there is in the way.</summary>
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
                + "let the process continue, end it, or `mfq fence`");
        }
    }

    private static string Show(TimeSpan time) => $"{time.TotalSeconds:F0} s";

    private void Warn(string text) => Add(CheckStatus.Warning, text);

    private void Critical(string text) => Add(CheckStatus.Critical, text);

    private void Add(CheckStatus status, string text) => _problems.Add(new CheckProblem(status, text));
}
