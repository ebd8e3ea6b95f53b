using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.Format;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>
/// The part that removes the oldest segments. While a removal is under way, or room is prepared, the other processes go on:
/// between any two of its calls and steps one of them may append, read, or move back.
/// </summary>
internal sealed partial class Workload
{
    /// <summary>One point of so many in a removal lets another process do something.</summary>
    private const int NestedEvery = 3;

    private LabProcess? _worker;
    private bool _letsOthersIn;
    private bool _isNested;
    private bool _hasPolicy;
    private Exception? _failure;

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
        switch (_random.Next(20))
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
            default:
                Share();
                break;
        }
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
        long before = chosen is { Offset: >= 0 } entry && _random.Next(3) != 0 ? entry.Offset : long.MaxValue;
        long kept = 0;
        LetOthersIn(() => kept = process.Queue.Trim(before));
        CheckRemoval();
        if (kept != _model.LowWater)
            throw new LabViolation($"Trim returned {kept}, and low water is {_model.LowWater}");
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
        if (!_letsOthersIn || _isNested || _random.Next(NestedEvery) != 0)
            return;
        _isNested = true;
        LabProcess? outer = LabThread.Process;
        try
        {
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
            Read(process, index);
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
        long lowWater = ControlWords.Of(_disk).LowWater;
        List<LogEntry> candidates = [.. _model.Entries.Where(entry => entry.State == EntryState.Published
            && entry.Offset >= lowWater && entry.Offset < consumer.Offset)];
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
        catch (OffsetOutOfRangeException) when (offset < ControlWords.Of(_disk).LowWater)
        {
            // It was refused before it was stored, or behind that.
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
        if (words.LowWater + _plan.SegmentLength <= words.Confirmed
            && _disk.Find(StoreNames.Segment(words.LowWater)) is { Shared: null } file)
            file.Shared = file.Content[.._plan.SegmentLength].ToArray();
    }

    /// <summary>
    /// Its consumer goes on where it was told. It skipped what was removed, from the place where it stood to the oldest message
    /// that is left, and that only if it may be dropped.
    /// </summary>
    private void GoBehind(LabProcess process, MessagesSkippedEventArgs skipped, long before, LogEntry? expected)
    {
        string name = process.Consumer!.Name;
        long lowWater = ControlWords.Of(_disk).LowWater;
        if (!_plan.Drops && !_model.MayBeDropped(name))
            throw new LabViolation($"{name} skips {skipped.Offset} to {skipped.NextOffset}, and nobody may be dropped");
        if (skipped.ConsumerName != name || skipped.NextOffset != lowWater || skipped.Offset < before
            || (expected is { Offset: >= 0 } && skipped.Offset > expected.Offset))
            throw new LabViolation(
                $"{name} stood at {before}, before {expected?.Offset}, the log begins at {lowWater}, and it says that it "
                + $"skips {skipped.Offset} to {skipped.NextOffset}");
        _model.Commit(name, skipped.NextOffset);
        _model.LetDrop(name, mayBeDropped: false);
        process.ReadPosition = PositionAt(skipped.NextOffset);
    }

    /// <summary>After each work that may have removed something: only what may go went.</summary>
    private void CheckRemoval()
    {
        long lowWater = ControlWords.Of(_disk).LowWater;
        if (lowWater == _model.LowWater)
            return;
        if (lowWater < _model.LowWater)
            throw new LabViolation($"Low water goes back from {_model.LowWater} to {lowWater}");
        long tail = _model.Entries.Where(entry => entry.Offset >= 0)
            .Select(entry => entry.Offset + ((entry.Length + 15) & ~7)).DefaultIfEmpty().Max();
        foreach ((string name, long offset) in _model.LastCommits)
        {
            bool mayGo = _model.MayBeDropped(name) || _plan.Retention is { KeepUnconsumed: false }
                || (_plan.Retention?.UnconsumedBytesMax is { } most && tail - offset > most);
            if (offset >= _model.LowWater && offset < lowWater && !mayGo)
                throw new LabViolation(
                    $"{name} has committed {offset}, the tail is {tail}, and all before {lowWater} is removed");
        }

        // The tail may stand at the start of a segment, behind the padding of the one before.
        if (lowWater - tail >= _plan.SegmentLength)
            throw new LabViolation($"All before {lowWater} is removed, and the tail is {tail}");
        _model.Remove(lowWater);
    }
}
