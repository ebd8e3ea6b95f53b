using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Format;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// One storm: producers and readers in one store die and stand still, one after the other, some at a step, some at any moment;
/// then all at once; then those who recover. A reader in this process lives through it and judges each message; at the end
/// everything is read again.
/// </summary>
internal sealed class KillRun : IDisposable
{
    private const int ReaderLines = 2;
    private const int FirstProducerLine = 8;

    /// <summary>One look of so many, which come each millisecond.</summary>
    private const int SnapshotEvery = 400;

    private static readonly TimeSpan s_promise = TimeSpan.FromSeconds(40);

    private static readonly string[] s_producerSteps =
    [
        "-", "-", "Claimed", "PayloadWritten", "BatchInnerWritten", "Published", "SequenceRaised", "SleepersWoken",
        "TemporaryMade",
        "TemporaryFlushed", "SegmentRenamed", "RestPadded", "SegmentEntered", "SlotTaken", "OpenLocked",
    ];

    private static readonly string[] s_readerSteps =
        ["-", "WaiterFlagRaised", "CursorStored", "RepairProbed", "RepairDone", "OpenLocked"];
    private static readonly string[] s_recoverySteps =
        ["AttachedAlone", "ClaimPadded", "ControlCleared", "Recovered", "OpenLocked"];
    private static readonly string[] s_stopSteps = ["Claimed", "PayloadWritten", "BatchInnerWritten", "RestPadded"];

    private static readonly string[] s_removalSteps =
    [
        "LogStartRaised", "LogStartRecorded", "SegmentDeleted", "SpareTaken", "SpareZeroed", "ZeroingBegun", "RecycledZeroed",
        "SegmentInUse",
    ];

    private readonly int _seed;
    private readonly Random _random;
    private readonly string _storePath;
    private readonly string _boardPath;
    private readonly KillBoard _board;
    private readonly OffsetLedger _ledger;
    private readonly StormPlan _plan;
    private readonly StormSnapshots _snapshots;
    private readonly LabOptions _options;
    private readonly PartResult _result;
    private readonly List<Living> _living = [];
    private Task _snapshot = Task.CompletedTask;
    private int _nextLine = FirstProducerLine;

    public KillRun(int seed, string folder, LabOptions options, PartResult result)
    {
        _seed = seed;
        _random = new Random(seed);
        _storePath = Path.Combine(folder, "store");
        _boardPath = Path.Combine(folder, "board");
        _board = new KillBoard(_boardPath);
        _ledger = new OffsetLedger(Victim.LedgerPath(_boardPath));
        _plan = new StormPlan(seed);
        _snapshots = new StormSnapshots(folder, seed, _ledger, _board);
        _options = options;
        _result = result;
    }

    public void Run()
    {
        var options = new MappedFileQueueOptions { StorePath = _storePath, SegmentSize = _plan.SegmentLength };
        using (var queue = new MappedFileQueue(options))
        {
            if (_plan.Retention is { } policy)
                queue.SetRetention(policy);
            using (var watcher = new StormWatcher(_storePath, _seed, _ledger, _board))
            using (var reader = new StormReader(queue, NewOrder(), _plan.Drops))
            {
                TakeOver(reader);
                Storm(_random.Next(8, 15), () =>
                {
                    reader.ThrowIfFailed();
                    watcher.ThrowIfFailed();
                    if (_plan.Retention is not null && _snapshot.IsCompleted)
                        NextSnapshot(queue);
                });
                KillEverybody();
                _snapshot.GetAwaiter().GetResult();
                reader.WaitFor(_board, s_promise);
            }

            CheckBoard(ReadAll());
        }

        // Those that recover die over it; nobody else is there.
        Storm(_random.Next(2, 6), () => { });
        KillEverybody();
        for (int i = _random.Next(3); i > 0; i--)
            Recover();
        CheckStore();
    }

    public void Dispose()
    {
        foreach (Living living in _living)
            living.Child.Dispose();
        _ledger.Dispose();
        _board.Dispose();
    }

    /// <summary>
    /// Nothing is left over of what was removed, after a removal of this queue. Spares may be there: the policy is applied by
    /// every queue, and by this one.
    /// </summary>
    public static void CheckFiles(MappedFileQueue queue, string storePath)
    {
        long oldest = queue.Trim(0);
        foreach (string path in Directory.EnumerateFiles(Path.Combine(storePath, StoreNames.CommitLog)))
        {
            if (StoreNames.TryParseSegment(Path.GetFileName(path), out long start) && start < oldest)
                throw new LabViolation($"A file is left over: {path}; the log begins at {oldest}");
        }
    }

    /// <summary>On a thread of its own: a victim that stands still inside `open` continues only when this one lets it.</summary>
    private void NextSnapshot(MappedFileQueue queue)
    {
        _snapshot.GetAwaiter().GetResult();
        if (_random.Next(SnapshotEvery) == 0)
            _snapshot = Task.Run(() => _snapshots.Make(queue));
    }

    private StormOrder NewOrder() => new(_seed, _plan.Retention is null ? null : _ledger, _board);

    private void Storm(int kills, Action look)
    {
        int alive = _random.Next(2, 7);
        int target = kills;
        while (target > 0)
        {
            while (_living.Count < alive)
                Start();
            int before = _living.Count;
            foreach (Living living in _living.ToList())
                Tend(living);
            target -= before - _living.Count;
            look();
            Thread.Sleep(1);
        }
    }

    /// <summary>
    /// A victim dies by itself at its step; whose time is up is killed; whoever stands still long enough continues.
    /// </summary>
    private void Tend(Living living)
    {
        if (living.Child.HasExited)
        {
            Bury(living);
            return;
        }

        TimeSpan age = Stopwatch.GetElapsedTime(living.Began);
        if (living.StopsItself && living.Child.IsStopped)
        {
            if (living.StoppedAt == 0)
            {
                living.StoppedAt = Stopwatch.GetTimestamp();
                _result.Add("stops");
            }
            else if (Stopwatch.GetElapsedTime(living.StoppedAt) > living.StopLength)
            {
                living.Child.Signal(LabChild.SigCont);
                living.StopsItself = false;
            }
        }
        else if (age > living.Life)
        {
            living.Child.Signal(LabChild.SigKill);
            Bury(living);
        }
        else if (!living.StopsItself && age > living.PauseAt)
        {
            // At any moment, for a moment.
            living.PauseAt = TimeSpan.MaxValue;
            living.Child.Signal(LabChild.SigStop);
            living.StopsItself = true;
        }
    }

    private void Bury(Living living)
    {
        if (!living.Child.WaitForExit(s_promise))
            throw new LabViolation($"A child that was killed does not end: {living.Name}");
        _living.Remove(living);
        int code = living.Child.ExitCode;
        string output = living.Child.Output;
        living.Child.Dispose();
        if (code != 128 + LabChild.SigKill)
            throw new LabViolation($"{living.Name} ended with exit code {code}: {output}");
        _result.Add("kills");
    }

    private void Start()
    {
        int reader = Enumerable.Range(0, ReaderLines).FirstOrDefault(line => _living.All(living => living.Line != line), -1);
        if (reader >= 0 && _random.Next(3) == 0)
        {
            Start("reader", reader, s_readerSteps[_random.Next(s_readerSteps.Length)], "kill", _random.Next(1, 40));
            return;
        }

        bool stops = _random.Next(4) == 0;
        if (_plan.Retention is not null && _random.Next(3) == 0)
        {
            string role = _random.Next(2) == 0 ? "trimmer" : "producer";
            string removalStep = s_removalSteps[_random.Next(s_removalSteps.Length)];
            Start(role, _nextLine++, removalStep, stops ? "stop" : "kill", _random.Next(1, 12));
            return;
        }

        string[] steps = stops ? s_stopSteps : s_producerSteps;
        string step = steps[_random.Next(steps.Length)];
        bool isFrequent = step is "Claimed" or "PayloadWritten" or "BatchInnerWritten" or "Published";
        Start("producer", _nextLine++, step, stops ? "stop" : "kill", _random.Next(1, isFrequent ? 120 : 4));
    }

    private Living Start(string role, int line, string step, string action, int hit)
    {
        var child = new LabChild(
        [
            Victim.Verb, role, _storePath, _boardPath, line.ToString(CultureInfo.InvariantCulture),
            _seed.ToString(CultureInfo.InvariantCulture), step, hit.ToString(CultureInfo.InvariantCulture), action,
            _options.Planted.Length > 0 ? _options.Planted : "None",
        ]);
        var living = new Living(child, line, $"{role} {line} ({action} at {step}, {hit})")
        {
            StopsItself = action == "stop",
            StopLength = TimeSpan.FromMilliseconds(_random.Next(5, 120)),
            Life = TimeSpan.FromMilliseconds(step == "-" ? _random.Next(80, 350) : 900),
            PauseAt = _random.Next(4) == 0 ? TimeSpan.FromMilliseconds(_random.Next(60, 300)) : TimeSpan.MaxValue,
        };
        _living.Add(living);
        return living;
    }

    /// <summary>
    /// A producer dies over a claim while nobody reads, and another one takes its slot: the readers must get past that claim
    /// while the successor lives.
    /// </summary>
    private void TakeOver(StormReader reader)
    {
        KillEverybody();
        reader.WaitFor(_board, s_promise);
        reader.Pause();
        Living dying = Start("producer", _nextLine++, "Claimed", "kill", _random.Next(1, 20));
        if (!dying.Child.WaitForExit(s_promise))
            throw new LabViolation("A producer does not come to its claim");
        Bury(dying);
        int successor = _nextLine++;
        Start("producer", successor, "-", "kill", 1);
        long until = Stopwatch.GetTimestamp();
        while (Volatile.Read(ref _board.Acked(successor)) < 20 && Stopwatch.GetElapsedTime(until) < s_promise)
            Thread.Sleep(1);
        reader.Continue();
        if (!reader.Reaches(successor, 20, s_promise))
            throw new LabViolation("A dead producer's claim holds up the readers while another process has its slot");
        KillEverybody();
    }

    private void KillEverybody()
    {
        foreach (Living living in _living)
            living.Child.Signal(LabChild.SigKill);
        foreach (Living living in _living.ToList())
            Bury(living);
    }

    private void Recover()
    {
        string step = s_recoverySteps[_random.Next(s_recoverySteps.Length)];
        using var child = new LabChild(
        [
            Victim.Verb, "opener", _storePath, _boardPath, "0", _seed.ToString(CultureInfo.InvariantCulture), step, "1", "kill",
            _options.Planted.Length > 0 ? _options.Planted : "None",
        ]);
        if (!child.WaitForExit(s_promise))
            throw new LabViolation($"Opening the store does not end, to be killed at {step}");
        // No hole to be padded, say: then it has come to its end.
        if (child.ExitCode is not (0 or 128 + LabChild.SigKill))
            throw new LabViolation($"Opening ended with exit code {child.ExitCode}: {child.Output}");
        _result.Add("recoverers killed", child.ExitCode == 0 ? 0 : 1);
    }

    private void CheckStore()
    {
        long began = Stopwatch.GetTimestamp();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = _storePath, CreateIfMissing = false });
        if (Stopwatch.GetElapsedTime(began) > s_promise)
            throw new LabViolation($"Opening took {Stopwatch.GetElapsedTime(began)}");
        CheckBoard(ReadAll());
        CheckFiles(queue, _storePath);
        _snapshots.CheckAgain();
        for (int line = 0; line < ReaderLines; line++)
        {
            using MappedFileConsumer consumer = queue.OpenConsumer(
                $"r{line}", new ConsumerOptions { OnOutOfRange = OutOfRangePolicy.Earliest });
            Victim.CheckCursor(consumer.Offset, _board, line, _plan);
        }

        if (queue.GetInfo().OpenClaims.Count > 0)
            throw new LabViolation("A dead claim stays");
        string? left = Directory.EnumerateFiles(_storePath, "*.tmp", SearchOption.AllDirectories).FirstOrDefault();
        if (left is not null)
            throw new LabViolation($"A temporary file stays: {left}");
        long offset = queue.Producer.Produce(Victim.Message(_seed, 1, 1));
        using MappedFileReader reader = queue.OpenReader(QueueStart.FromOffset(offset));
        if (!reader.TryRead(out _) || queue.Flush() <= offset)
            throw new LabViolation("A message that was appended at the end is not there");
    }

    private StormOrder ReadAll() => _plan.Retention is null
        ? StormSnapshots.ReadAll(_storePath, NewOrder(), out _)
        : StormSnapshots.ReadAllThatIsLeft(_storePath, NewOrder(), out _);

    private void CheckBoard(StormOrder read)
    {
        for (int line = 0; line < KillBoard.LineCount; line++)
        {
            (long last, long acked, long begun) = (read.Last(line), _board.Acked(line), _board.Begun(line));
            if (last != acked && last != begun && !(last < acked && read.IsComplete(line, acked)))
                throw new LabViolation($"Of producer {line} {last} messages are there; acknowledged {acked}, begun {begun}");
        }
    }

    private sealed class Living(LabChild child, int line, string name)
    {
        public LabChild Child => child;

        public int Line => line;

        public string Name => name;

        public long Began { get; } = Stopwatch.GetTimestamp();

        public TimeSpan Life { get; init; }

        public bool StopsItself { get; set; }

        public TimeSpan StopLength { get; init; }

        public TimeSpan PauseAt { get; set; }

        public long StoppedAt { get; set; }
    }
}
