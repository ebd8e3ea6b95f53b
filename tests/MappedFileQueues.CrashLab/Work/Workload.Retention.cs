using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>
/// The part that removes the oldest segments. While a removal is under way, or room is prepared, the other processes continue:
/// between any two of its calls and steps one of them may append, read, or move back.
/// </summary>
internal sealed partial class Workload
{
    /// <summary>One point of so many in a removal lets another process do something.</summary>
    private const int NestedEvery = 3;

    private const int NestedAtCursorsEvery = 2;

    private LabProcess? _worker;
    private bool _letsOthersIn;
    private bool _isNested;
    private bool _hasPolicy;
    private Exception? _failure;
    private long _warnedTo = long.MaxValue;

    /// <summary>The files that a snapshot shares hold what they held.</summary>
    public static void CheckShared(SimDisk disk)
    {
        foreach ((string name, SimFile file) in disk.Names)
        {
            if (file.Shared is { } shared && !file.Content[..shared.Length].SequenceEqual(shared))
                throw new LabViolation($"A file changes that a snapshot shares: {name}");
        }
    }

    private void Retain(LabProcess process, int index, bool isNested)
    {
        switch (_random.Next(26))
        {
            case < 9:
                DoBackgroundWork();
                break;
            case < 14:
                if (!isNested)
                    Trim(process);
                break;
            case < 18:
                MoveBack(process);
                break;
            case < 20:
                Share();
                break;
            case < 23:
                CatchUp();
                break;
            default:
                if (!isNested)
                    FillAndTrim(process, index);
                break;
        }
    }

    /// <summary>
    /// What was there before may go, and what is added waits for consumers, which may read it while the removal is under way.
    /// </summary>
    private void FillAndTrim(LabProcess process, int index)
    {
        Fill(process, index);
        if (_random.Next(2) == 0)
            return;
        CatchUp();
        Fill(process, index);
        Trim(process, long.MaxValue);
    }

    /// <summary>All consumers read to the end, so that what they have read may go.</summary>
    private void CatchUp()
    {
        LabProcess? outer = LabThread.Process;
        for (int i = 0; i < Math.Min(_plan.ConsumerCount, _processes.Length); i++)
        {
            if (_processes[i] is not { } process || process == _worker)
                continue;
            LabThread.Process = process;
            ReadOn(process, i);
        }

        LabThread.Process = outer;
    }

    private void ReadOn(LabProcess process, int index)
    {
        int before;
        do
        {
            before = process.ReadPosition;
            Read(process, index);
        }
        while (process.ReadPosition > before);
    }

    /// <summary>One process appends alone: the lanes of the others stay segments behind.</summary>
    private void Fill(LabProcess process, int index)
    {
        if (_openClaims > 0 || ProducerOf(process, index) is not { } producer)
            return;
        const int CountMax = 40;
        long end = producer.Offset + (_plan.SegmentLength * _random.Next(1, 4));
        for (int i = 0; i < CountMax && producer.Offset < end; i++)
            Produce(process, producer, index);
    }

    /// <summary>Each time: a cut may have taken it back.</summary>
    private void SetPolicy(LabProcess process)
    {
        if (_hasPolicy || _plan.Retention is not { } policy)
            return;
        process.Queue.SetRetention(policy);
        _hasPolicy = true;
    }

    private void Trim(LabProcess process)
    {
        LogEntry? chosen = _model.Entries.Count == 0 ? null : _model.Entries[_random.Next(_model.Entries.Count)];
        Trim(process, chosen is { Offset: >= 0 } entry && _random.Next(3) != 0 ? entry.Offset : long.MaxValue);
    }

    private void Trim(LabProcess process, long before)
    {
        long kept = 0;
        LetOthersIn(() => kept = process.Queue.Trim(before));
        CheckRemoval();
        if (kept != _model.LogStart)
            throw new LabViolation($"Trim returned {kept}, and the log start is {_model.LogStart}");
    }

    private void LetOthersIn(Action work)
    {
        _worker = LabThread.Process;
        _letsOthersIn = true;
        work();
        _letsOthersIn = false;
        if (_failure is { } failure)
            throw new LabViolation(failure is LabViolation ? failure.Message : failure.ToString(), failure);
    }

    private void OnPoint(string where)
    {
        _point(where);
        CheckWarned(where);
        if (!_letsOthersIn || _isNested)
            return;
        // A removal looks at the cursors twice. Those that move in between, and up to its end, are what that is for.
        bool isBetweenLooks = where == nameof(ProtocolStep.LogStartRaised);
        bool isAtCursors = isBetweenLooks || where == nameof(ProtocolStep.RemovalPlanned)
            || where.Contains(" offset/", StringComparison.Ordinal);
        if (!isBetweenLooks && _random.Next(isAtCursors ? NestedAtCursorsEvery : NestedEvery) != 0)
            return;
        _isNested = true;
        LabProcess? outer = LabThread.Process;
        try
        {
            if (isAtCursors)
                MoveConsumers(readsOn: _random.Next(4) == 0 != isBetweenLooks);
            else
                Nest();
        }
        catch (Exception error)
        {
            // The engine's threads would swallow it.
            _failure ??= error;
        }

        LabThread.Process = outer;
        _isNested = false;
    }

    /// <summary>
    /// Some consumers read and commit, or go back; also that of the process that removes, which has a thread of its own.
    /// </summary>
    private void MoveConsumers(bool readsOn)
    {
        for (int i = 0; i < _processes.Length; i++)
        {
            if (_processes[i] is not { Consumer: not null, IsClaiming: false } process || _random.Next(3) == 0)
                continue;
            LabThread.Process = process;
            if (readsOn)
                ReadOn(process, i);
            else
                MoveBack(process);
        }
    }

    /// <summary>Only what takes no lock that the removal holds.</summary>
    private void Nest()
    {
        int index = _random.Next(_processes.Length);
        LabProcess? process = _processes[index];
        if (process is null || process == _worker || process.IsClaiming)
            return;
        LabThread.Process = process;
        int chosen = _random.Next(10);
        if (chosen < 5 && process.Producer is { } producer)
            Produce(process, producer, index);
        else if (chosen < 7 && process.Consumer is not null)
            ReadOn(process, index);
        else if (process.Consumer is not null)
            MoveBack(process);
    }

    /// <summary>
    /// A consumer goes back to a message that is still there. A removal under way sees that, or the consumer waits for the
    /// removal; which it cannot here, where one thread does both.
    /// </summary>
    private void MoveBack(LabProcess process)
    {
        if (process.Consumer is not { } consumer || process.IsClaiming)
            return;
        long logStart = ControlWords.Of(_disk).LogStart;
        List<LogEntry> candidates = [.. _model.Entries.Where(entry => entry.State == EntryState.Published
            && entry.Offset >= logStart && entry.Offset < consumer.Offset)];
        if (candidates.Count == 0)
            return;
        long offset = candidates[_random.Next(candidates.Count)].Offset;
        _model.Commit(consumer.Name, offset);
        _model.IsCommitUnderWay = true;
        bool mayBeDropped = _model.MayBeDropped(consumer.Name);
        _model.LetDrop(consumer.Name, mayBeDropped: true);
        try
        {
            consumer.AdjustOffset(offset);
            _model.LetDrop(consumer.Name, mayBeDropped: false);
        }
        catch (OffsetOutOfRangeException) when (offset < ControlWords.Of(_disk).LogStart)
        {
            // It was refused before it was stored, or after that.
            if (consumer.CommittedOffset != offset)
            {
                _model.TakeBackCommit(consumer.Name);
                _model.LetDrop(consumer.Name, mayBeDropped);
            }
        }

        _model.IsCommitUnderWay = false;
        process.ReadPosition = PositionAt(consumer.Offset);
    }

    /// <summary>A snapshot gives the oldest file that is complete and on disk a second name.</summary>
    private void Share()
    {
        ControlWords words = ControlWords.Of(_disk);
        if (words.LogStart + _plan.SegmentLength <= words.Confirmed
            && _disk.Find(StoreNames.Segment(words.LogStart)) is { Shared: null } file)
            file.Shared = file.Content[.._plan.SegmentLength].ToArray();
    }

    /// <summary>
    /// Its consumer continues where it was told. It skipped what was removed, from the place where it stood to the oldest message
    /// that is left, and that only if it may be dropped.
    /// </summary>
    private void ContinueAfter(LabProcess process, MessagesSkippedEventArgs skipped, long before, LogEntry? expected)
    {
        string name = process.Consumer!.Name;
        long logStart = ControlWords.Of(_disk).LogStart;
        if (!_plan.Drops && !_model.MayBeDropped(name))
            throw new LabViolation($"{name} skips {skipped.Offset} to {skipped.NextOffset}, and nobody may be dropped");
        if (skipped.ConsumerName != name || skipped.NextOffset != logStart || skipped.Offset < before
            || (expected is { Offset: >= 0 } && skipped.Offset > expected.Offset))
            throw new LabViolation(
                $"{name} stood at {before}, before {expected?.Offset}, the log begins at {logStart}, and it says that it "
                + $"skips {skipped.Offset} to {skipped.NextOffset}");
        _model.Commit(name, skipped.NextOffset);
        _model.LetDrop(name, mayBeDropped: false);
        process.ReadPosition = PositionAt(skipped.NextOffset);
    }

    /// <summary>
    /// A removal goes no further than the log start was raised before its second look: a consumer that moved there in between
    /// heard nothing of it.
    /// </summary>
    private void CheckWarned(string where)
    {
        if (where == nameof(ProtocolStep.LogStartRaised))
            _warnedTo = ControlWords.Of(_disk).LogStart;
        else if (where == nameof(ProtocolStep.LogStartRecorded) && ControlWords.Of(_disk).LogStart is var logStart
            && logStart > _warnedTo)
            _failure ??= new LabViolation($"All before {logStart} is removed, and consumers could know of {_warnedTo}");
    }

    /// <summary>A producer that a removal has overtaken continues where the log is.</summary>
    private void CheckPlace(LogEntry entry)
    {
        if (ControlWords.Of(_disk).LogStart is var logStart && entry.Offset < logStart)
            throw new LabViolation($"Number {entry.Number} of producer {entry.Producer} was appended at {entry.Offset}, and all "
                + $"before {logStart} is removed");
    }

    /// <summary>After each work that may have removed something: only what may go went.</summary>
    private void CheckRemoval()
    {
        long logStart = ControlWords.Of(_disk).LogStart;
        if (logStart == _model.LogStart)
            return;
        if (logStart < _model.LogStart)
            throw new LabViolation($"The log start goes back from {_model.LogStart} to {logStart}");
        long tail = _model.Entries.Where(entry => entry.Offset >= 0)
            .Select(entry => entry.Offset + ((entry.Length + 15) & ~7)).DefaultIfEmpty().Max();
        // The tail may be at the start of a segment, after the padding of the one before. So may each claim after it that was
        // given up, which is no message.
        int givenUp = _model.Entries.AsEnumerable().Reverse().TakeWhile(entry => entry.Offset < 0).Count();
        long tailMax = ((tail + _plan.SegmentLength - 1) / _plan.SegmentLength + givenUp) * _plan.SegmentLength;
        foreach ((string name, long offset) in _model.LastCommits)
        {
            bool mayGo = _model.MayBeDropped(name) || _plan.Retention is { KeepUnconsumed: false }
                || (_plan.Retention?.UnconsumedBytesMax is { } most && tailMax - offset > most);
            if (offset >= _model.LogStart && offset < logStart && !mayGo)
                throw new LabViolation(
                    $"{name} has committed {offset}, the tail is {tail}, and all before {logStart} is removed");
        }

        if (logStart > tailMax)
            throw new LabViolation($"All before {logStart} is removed, and the tail is {tail}");
        _model.Remove(logStart);
    }
}
