using System.Buffers;
using System.Globalization;
using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.Log.Flushing;
using MappedFileQueues.Segments;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>
/// Uses one store in random ways, as several simulated processes on one thread: appends of all kinds, claims that stay open
/// while others append, flushes, reads and commits, ends and deaths. At each point (a step of the protocol, a call of the
/// platform, a pause between two operations) it may be asked for a picture of the disk and of what it knows.
/// </summary>
internal sealed partial class Workload
{
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(30);

    private readonly Random _random;
    private readonly LabPlan _plan;
    private readonly SimDisk _disk;
    private readonly LogModel _model;
    private readonly string _bootId;
    private readonly Guid _storeId;
    private readonly Action<string> _point;
    private readonly LabProcess?[] _processes;
    private readonly List<LabProcess> _dead = [];
    private readonly Dictionary<int, long> _numbers = [];
    private int _openClaims;

    public Workload(
        Random random, LabPlan plan, SimDisk disk, LogModel model, string bootId, Guid storeId, Action<string> point)
    {
        _random = random;
        _plan = plan;
        _disk = disk;
        _model = model;
        _bootId = bootId;
        _storeId = storeId;
        _point = point;
        _processes = new LabProcess?[plan.ProcessCount];
        foreach (LogEntry entry in model.Entries)
            _numbers[entry.Producer] = Math.Max(_numbers.GetValueOrDefault(entry.Producer), entry.Number);
    }

    /// <param name="operationCount">How much is done.</param>
    /// <param name="atEnd">Called when all living processes have ended; what the dead ones leave is not touched yet.</param>
    public void Run(int operationCount, Action atEnd)
    {
        LabThread.Background.Clear();
        LabThread.Point = OnPoint;
        _disk.Point = OnPoint;
        try
        {
            for (int i = 0; i < operationCount; i++)
            {
                Operate(isNested: false);
                _point("between operations");
            }

            foreach (int index in Enumerable.Range(0, _processes.Length))
                End(index);
            atEnd();
            CheckShared(_disk);
        }
        finally
        {
            LabThread.Point = null;
            LabThread.Process = null;
            _disk.Point = null;
            LabThread.Background.Clear();
            foreach (LabProcess process in _dead.Concat(_processes.OfType<LabProcess>()))
            {
                process.Os.Kill();
                process.Queue.Dispose();
            }
        }
    }

    private void Operate(bool isNested)
    {
        int index = _random.Next(_processes.Length);
        LabProcess process = _processes[index] ?? StartProcess(index);
        LabProcess? outer = LabThread.Process;
        LabThread.Process = process;
        if (_plan.Retention is not null && _random.Next(3) == 0)
            Retain(process, index, isNested);
        else
            Operate(process, index, isNested);
        LabThread.Process = outer;
    }

    private void Operate(LabProcess process, int index, bool isNested)
    {
        switch (_random.Next(100))
        {
            case < 40:
                if (ProducerOf(process, index) is { } producer)
                    Produce(process, producer, index);
                break;
            case < 52:
                if (ProducerOf(process, index) is { } batching)
                    ProduceBatch(process, batching, index);
                break;
            case < 62:
                if (!isNested && ProducerOf(process, index) is { } claiming)
                    Claim(process, claiming, index);
                break;
            case < 72:
                Flush(process);
                break;
            case < 86:
                Read(process, index);
                break;
            case < 92:
                DoBackgroundWork();
                break;
            case < 96:
                _disk.WriteBackSome(_random);
                break;
            case < 98:
                if (!process.IsClaiming)
                    End(index);
                break;
            default:
                Kill(index);
                break;
        }
    }

    private LabProcess StartProcess(int index)
    {
        LabProcess process = LabProcess.Start(_disk, _plan, _bootId, _storeId, _plan.IsExclusive && index == 0);
        _processes[index] = process;
        SetPolicy(process);
        return process;
    }

    /// <summary>Its producer; null when it must not have one.</summary>
    private MappedFileProducer? ProducerOf(LabProcess process, int index)
    {
        if (process.IsClaiming || (_plan.IsExclusive && index != 0))
            return null;
        return process.Producer ??= process.Queue.OpenProducer();
    }

    private LogEntry Begin(int index, int length, int unit)
    {
        long number = _numbers[index] = _numbers.GetValueOrDefault(index) + 1;
        return _model.Add(new LogEntry(index, number, length, unit));
    }

    private byte[] Bytes(LogEntry entry) => LabMessage.Make(_model.Seed, entry.Producer, entry.Number, entry.Length);

    private void Produce(LabProcess process, MappedFileProducer producer, int index)
    {
        if (_plan.Waits && _openClaims > 0)
            return;
        LogEntry entry = Begin(index, _plan.NextLength(_random), _model.NewUnit());
        int count = _model.Entries.Count;
        // What waits for the background does all that there is to do, which must not be done inside a removal.
        switch (_random.Next(_openClaims > 0 || _isNested ? 1 : 10))
        {
            case 8:
                entry.Offset = Completed(producer.ProduceAsync(Bytes(entry)));
                break;
            case 9:
                entry.Offset = producer.Produce(Bytes(entry), new ProduceOptions { Durability = DurabilityLevel.Group });
                _model.Acknowledge(count);
                break;
            default:
                entry.Offset = producer.Produce(Bytes(entry));
                break;
        }

        entry.State = EntryState.Published;
        CheckPlace(entry);
        CountFlush(process, 1, count);
    }

    /// <summary>What waits for the background is done here, once; the result then comes through the thread pool.</summary>
    private static long Completed(ValueTask<long> pending)
    {
        Task<long> task = pending.AsTask();
        Action[] background = [.. LabThread.Background];
        LabThread.Background.Clear();
        foreach (Action work in background)
            work();
        return task.Wait(s_patience) ? task.Result : throw new LabViolation("An asynchronous call waits for nothing");
    }

    private void ProduceBatch(LabProcess process, MappedFileProducer producer, int index)
    {
        if (_plan.Waits && _openClaims > 0)
            return;
        int unit = _model.NewUnit();
        List<LogEntry> entries = [];
        long room = _plan.SegmentLength;
        foreach (int _ in Enumerable.Range(0, _random.Next(2, 7)))
        {
            int length = _plan.NextLength(_random);
            room -= (length + 15) & ~7;
            if (room >= 0)
                entries.Add(Begin(index, length, unit));
        }

        if (entries.Count == 0)
            return;
        ReadOnlyMemory<byte>[] messages = [.. entries.Select(entry => (ReadOnlyMemory<byte>)Bytes(entry))];
        if (_random.Next(6) == 0)
        {
            GiveUpBatch(producer, entries, messages);
            for (int i = _random.Next(4); i > 0; i--)
                Produce(process, producer, index);
            return;
        }

        int count = _model.Entries.Count;
        long offset = producer.ProduceBatch(messages);
        foreach (LogEntry entry in entries)
        {
            entry.Offset = offset;
            entry.State = EntryState.Published;
            offset += (entry.Length + 15) & ~7;
        }

        CheckPlace(entries[0]);
        CountFlush(process, entries.Count, count);
    }

    /// <summary>
    /// The last message's memory throws when the frames before it stand in the log already, and the system has written them to
    /// the disk perhaps: none of them is ever seen.
    /// </summary>
    private void GiveUpBatch(MappedFileProducer producer, List<LogEntry> entries, ReadOnlyMemory<byte>[] messages)
    {
        foreach (LogEntry entry in entries)
            entry.State = EntryState.Abandoned;
        using IMemoryOwner<byte> memory = new ThrowingMemory(messages[^1].Length, () =>
        {
            for (int i = 0; i < 4; i++)
                _disk.WriteBackSome(_random);
        });
        messages[^1] = memory.Memory;
        try
        {
            producer.ProduceBatch(messages);
        }
        catch (TimeoutException)
        {
            return;
        }

        throw new LabViolation("A batch was appended whose memory throws");
    }

    /// <summary>Fills in place; the claim may stay open while the other processes continue, or its owner may die over
    /// it.</summary>
    private void Claim(LabProcess process, MappedFileProducer producer, int index)
    {
        LogEntry entry = Begin(index, _plan.NextLength(_random), _model.NewUnit());
        int claimed = Math.Min(_plan.LengthMax, entry.Length + (_random.Next(2) * _random.Next(64)));
        byte[] bytes = Bytes(entry);
        MessageClaim claim = producer.DangerousClaim(claimed);
        entry.State = EntryState.Claimed;
        process.IsClaiming = true;
        _openClaims++;
        bytes.CopyTo(claim.Span);
        if (!_plan.IsExclusive && _processes.Length > 1 && !_plan.Waits)
        {
            for (int i = _random.Next(8); i > 0; i--)
                Operate(isNested: true);
        }

        _openClaims--;
        process.IsClaiming = false;
        if (process.Os.IsDead)
            return;
        if (_random.Next(3) == 0)
        {
            // Said before: the claim is given up in the middle of the call.
            entry.State = EntryState.Abandoned;
            claim.Dispose();
            return;
        }

        entry.State = EntryState.UnderWay;
        int count = _model.Entries.Count;
        entry.Offset = claim.Publish(entry.Length);
        entry.State = EntryState.Published;
        CountFlush(process, 1, count);
    }

    private void Flush(LabProcess process)
    {
        // It would wait for the claims of the other simulated processes, which this thread alone can end.
        if (_openClaims > 0)
            return;
        int count = _model.Entries.Count;
        long confirmed = _random.Next(4) == 0 && process.Producer is { } producer && !process.IsClaiming
            ? Completed(producer.FlushAsync(long.MaxValue))
            : process.Queue.Flush();
        _model.Acknowledge(count);
        LogEntry? last = _model.Entries.Take(count).LastOrDefault(entry => entry.State == EntryState.Published);
        if (last is not null && last.Offset >= confirmed)
            throw new LabViolation(string.Create(CultureInfo.InvariantCulture,
                $"Flush returned {confirmed}, and a message that was published before lies at {last.Offset}"));
    }

    private void CountFlush(LabProcess process, int produced, int count)
    {
        if (_plan.Level == DurabilityLevel.Group)
            _model.Acknowledge(count);
        if (_plan.FlushCount == 0)
            return;
        long before = process.ProducedCount;
        process.ProducedCount += produced;
        if (before / _plan.FlushCount != process.ProducedCount / _plan.FlushCount)
            _model.Acknowledge(count);
    }

    private void DoBackgroundWork()
    {
        // A flush would meet the claims of this very thread, which in truth are those of other processes.
        if (LabThread.Background.Count == 0 || _openClaims > 0)
            return;
        int chosen = _random.Next(LabThread.Background.Count);
        Action work = LabThread.Background[chosen];
        LabThread.Background.RemoveAt(chosen);
        LabProcess? outer = LabThread.Process;
        LabThread.Process = LabThread.OwnerOf(work);
        // All but a flush, which stands here for a process of its own. Named so, no work falls out when it moves to another type.
        if (_plan.Retention is not null && work.Target is not FlushEngine)
            LetOthersIn(work);
        else
            work();
        LabThread.Process = outer;
        CheckRemoval();
    }
}
