namespace MappedFileQueues.CrashLab.Work;

/// <summary>The part that reads, ends and dies.</summary>
internal sealed partial class Workload
{
    private void Read(LabProcess process, int index)
    {
        if (index >= _plan.ConsumerCount || process.IsClaiming)
            return;
        process.Consumer ??= OpenConsumer(process, index);
        // It would wait for the removal under way, which this very thread makes.
        if (_isNested && process.Consumer.Offset < ControlWords.Of(_disk).LogStart)
            return;
        for (int i = _random.Next(1, 6); i > 0; i--)
        {
            LogEntry? expected = NextToRead(process, out bool isBlocked);
            long before = process.Consumer.Offset;
            bool mayLag = MayLag(index, expected);
            bool found = process.Consumer.TryConsume(out ReadOnlySpan<byte> message);
            if (process.Skipped.TryDequeue(out MessagesSkippedEventArgs? skipped))
            {
                ContinueAfter(process, skipped, before, expected);
                expected = NextToRead(process, out isBlocked);
                mayLag = MayLag(index, expected);
            }

            if (!found)
            {
                if (expected is not null && !isBlocked && !mayLag)
                    throw new LabViolation($"{process.Consumer.Name} finds nothing where message {expected.Number} of producer "
                        + $"{expected.Producer} is: offset={process.Consumer.Offset}, expected={expected.Offset}");
                return;
            }

            if (expected is null || isBlocked || !message.SequenceEqual(Bytes(expected)))
                throw new LabViolation($"{process.Consumer.Name} reads {LabMessage.Describe(message)} at "
                    + $"{process.Consumer.MessageOffset}, expected "
                    + (expected is null ? "nothing" : $"number {expected.Number} of producer {expected.Producer}"));
            if (mayLag)
                throw new LabViolation($"A consumer of what is on disk reads {expected.Offset}, "
                    + $"confirmed is {ControlWords.Of(_disk).Confirmed}");
            process.ReadPosition = IndexOf(expected) + 1;
            _point("message in hand");
            CommitOrAdvance(process);
        }
    }

    private bool MayLag(int index, LogEntry? expected) => _plan.HasDurableReader && index == 0 && expected is not null
        && expected.Offset >= ControlWords.Of(_disk).Confirmed;

    private void CommitOrAdvance(LabProcess process)
    {
        MappedFileConsumer consumer = process.Consumer!;
        if (_random.Next(3) == 0)
        {
            consumer.Advance();
            return;
        }

        // What Commit will store: the place after the message in hand.
        long next = consumer.MessageOffset + ((_model.Entries[process.ReadPosition - 1].Length + 15) & ~7);
        _model.Commit(consumer.Name, next);
        bool isDurable = _random.Next(6) == 0;
        _model.IsCommitUnderWay = true;
        if (isDurable)
            consumer.Commit(durable: true);
        else
            consumer.Commit();
        _model.IsCommitUnderWay = false;
        if (isDurable)
            _model.CommitDurably(consumer.Name);
        if (consumer.CommittedOffset != next)
            throw new LabViolation($"Commit stored {consumer.CommittedOffset} instead of {next}");
        if (next >= ControlWords.Of(_disk).LogStart)
            _model.LetDrop(consumer.Name, mayBeDropped: false);
    }

    private MappedFileConsumer OpenConsumer(LabProcess process, int index)
    {
        // It stores where it begins, which is where the last one of the name had committed, or the beginning.
        MappedFileConsumer consumer = process.Queue.OpenConsumer(
            $"c{index}", new ConsumerOptions
            {
                DurableOnly = _plan.HasDurableReader && index == 0,
                OnOutOfRange = OutOfRangePolicy.Earliest,
            });
        _model.Commit(consumer.Name, consumer.Offset);
        _model.CommitDurably(consumer.Name);
        process.ReadPosition = PositionAt(consumer.Offset);
        return consumer;
    }

    /// <summary>Of the first entry at or after an offset.</summary>
    private int PositionAt(long offset)
    {
        int position = 0;
        for (int i = 0; i < _model.Entries.Count; i++)
        {
            if (_model.Entries[i].Offset >= 0 && _model.Entries[i].Offset < offset)
                position = i + 1;
        }

        return position;
    }

    /// <summary>What a consumer must find next; blocked when a living claim is before it.</summary>
    private LogEntry? NextToRead(LabProcess process, out bool isBlocked)
    {
        isBlocked = false;
        for (int i = process.ReadPosition; i < _model.Entries.Count; i++)
        {
            LogEntry entry = _model.Entries[i];
            if (entry.State == EntryState.Published)
                return entry;
            if (entry.State == EntryState.Claimed && !_plan.IsExclusive)
            {
                isBlocked = true;
                return entry;
            }
        }

        return null;
    }

    private int IndexOf(LogEntry entry)
    {
        for (int i = _model.Entries.Count - 1; i >= 0; i--)
        {
            if (_model.Entries[i] == entry)
                return i;
        }

        return -1;
    }

    private void End(int index)
    {
        LabProcess? process = _processes[index];
        if (process is null)
            return;
        // Its own work in the background ends with it; that of others is asked for again.
        LabThread.Background.Clear();
        int count = _model.Entries.Count;
        process.Queue.Dispose();
        if (_plan.Level == DurabilityLevel.Interval && _openClaims == 0)
            _model.Acknowledge(count);
        _processes[index] = null;
        if (process.Os.OpenCount != 0)
            throw new LabViolation($"{process.Os.OpenCount} files, folders or mappings stay open after Dispose");
        if (_disk.Locks.HeldBy(process.Os).ToList() is { Count: > 0 } held)
            throw new LabViolation($"Locks stay held after Dispose: {string.Join(", ", held)}");
    }

    /// <summary>The process dies between two operations, perhaps with a claim open.</summary>
    private void Kill(int index)
    {
        LabProcess? process = _processes[index];
        if (process is null)
            return;
        LabThread.Background.Clear();
        process.Os.Kill();
        _dead.Add(process);
        _processes[index] = null;
        if (process.IsClaiming)
        {
            LogEntry claimed = _model.Entries.Last(entry => entry.State == EntryState.Claimed && entry.Producer == index);
            claimed.State = EntryState.Abandoned;
        }
    }
}
