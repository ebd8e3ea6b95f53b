using System.Diagnostics;

namespace MappedFileQueues.Demo;

/// <summary>
/// The main job, in steps: bursts of lines from a producer process to a consumer process; a producer killed in the middle of a
/// burst; a consumer killed with messages unread; a stretch at an even pace; both killed at once, so that no other process has
/// the store open when it is opened again; then the rest in bursts until the input or the time is used up.
/// </summary>
internal sealed class DemoRun : IDisposable
{
    /// <summary>How many messages must be unread when the consumer is killed.</summary>
    public const int UnreadMin = 1000;

    /// <summary>
    /// So few that a burst of the smallest input takes tens of milliseconds, enough time to kill a process in it.
    /// </summary>
    private const int BurstsPerRun = 12;

    private const long BurstLengthMax = 48_000_000;

    /// <summary>
    /// A kill that came too late, after the burst, is repeated; the last attempts use bursts at the even pace, which take long
    /// enough on most machines.
    /// </summary>
    private const int KillAttemptsMax = 5;

    private const int FastKillAttempts = 2;

    private const long SteadyMessagesPerSecond = 50_000;
    private static readonly TimeSpan s_steadyTimeMax = TimeSpan.FromSeconds(2);

    /// <summary>
    /// However slow the machine, nothing more is sent after this time; it leaves time to finish the output and compare.
    /// </summary>
    private static readonly TimeSpan s_timeMaxForLeast = TimeSpan.FromSeconds(22);

    private readonly DemoFolder _folder;
    private readonly InputPlan _plan;
    private readonly TimeSpan _timeMax;
    private readonly CancellationToken _interrupted;
    private readonly long _burstLength;
    private readonly List<DemoDeath> _deaths = [];
    private readonly List<DemoBurst> _bursts = [];
    private readonly long _start = Stopwatch.GetTimestamp();
    private DemoChild _producer;
    private DemoChild _consumer;

    /// <summary>Creates the store and starts the two processes.</summary>
    public DemoRun(DemoFolder folder, InputPlan plan, TimeSpan timeMax, CancellationToken interrupted)
    {
        (_folder, _plan, _timeMax, _interrupted) = (folder, plan, timeMax, interrupted);
        _burstLength = Math.Clamp(plan.TotalLength / BurstsPerRun, 1, BurstLengthMax);
        plan.Save(folder.PlanPath);
        DemoStore.Create(folder, plan);
        _consumer = StartConsumer();
        _producer = StartProducer();
    }

    /// <summary>The progress of the producing side. Any thread.</summary>
    public DemoProgress Sent => Volatile.Read(ref _producer).Progress;

    /// <summary>The progress of the consuming side. Any thread.</summary>
    public DemoProgress Received => Volatile.Read(ref _consumer).Progress;

    private TimeSpan Elapsed => Stopwatch.GetElapsedTime(_start);

    private bool IsAtEnd => _producer.Progress.Bytes >= _plan.TotalLength;

    /// <summary>
    /// The time limits what goes beyond the minimum that a demo sends; on a slow machine it limits the minimum too.
    /// </summary>
    private bool IsTimeUp => Elapsed >= _timeMax
        && (Elapsed >= s_timeMaxForLeast || _producer.Progress.Bytes >= InputPlan.LengthMin);

    /// <summary>Runs all steps.</summary>
    public DemoResult Execute()
    {
        _consumer.WaitForAnswer();
        _producer.WaitForAnswer();
        long start = Stopwatch.GetTimestamp();
        Burst();
        KillProducer();
        Burst();
        KillConsumer();
        DemoBurst steady = Steady();
        KillBoth();
        while (!IsAtEnd && !IsTimeUp)
            Burst();

        TimeSpan duration = Stopwatch.GetElapsedTime(start);
        bool isWhole = IsAtEnd;
        _producer.Ask("finish");
        string sentDigest = _producer.WaitForAnswer();
        DemoProgress sent = _producer.Progress;
        _producer.WaitForEnd();
        _consumer.Ask("until", sent.Messages);
        string receivedDigest = _consumer.WaitForAnswer();
        DemoProgress received = _consumer.Progress;
        _consumer.WaitForEnd();
        return new DemoResult
        {
            Sent = sent,
            SentDigest = sentDigest,
            Received = received,
            ReceivedDigest = receivedDigest,
            Deaths = _deaths,
            Bursts = _bursts,
            Steady = steady,
            Duration = duration,
            IsWhole = isWhole,
        };
    }

    /// <summary>Kills the processes that still run.</summary>
    public void Dispose()
    {
        _producer.Dispose();
        _consumer.Dispose();
    }

    private DemoChild StartProducer() => DemoChild.Start("producer", DemoCommand.ProducerVerb, _folder, _interrupted);

    private DemoChild StartConsumer() => DemoChild.Start("consumer", DemoCommand.ConsumerVerb, _folder, _interrupted);

    /// <summary>Sends a burst and waits until it is written to the output.</summary>
    private void Burst()
    {
        DemoProgress from = _producer.Progress;
        AskForBurst();
        _producer.WaitForAnswer();
        FinishBurst(from, isDisturbed: false);
    }

    private long AskForBurst(bool isSlow = false)
    {
        long end = Math.Min(_producer.Progress.Bytes + _burstLength, _plan.TotalLength);
        if (isSlow)
            _producer.Ask("pace", end, SteadyMessagesPerSecond);
        else
            _producer.Ask("burst", end);
        return end;
    }

    private void FinishBurst(DemoProgress from, bool isDisturbed)
    {
        DemoProgress to = _producer.Progress;
        _consumer.WaitForProgress(progress => progress.Messages >= to.Messages);
        _bursts.Add(new DemoBurst(from, to, isDisturbed));
    }

    /// <summary>
    /// Kills the producer in the middle of a burst. If that came too late, because the burst was over, it is repeated.
    /// </summary>
    private void KillProducer()
    {
        bool isMidBurst = false;
        for (int attempt = 0; attempt < KillAttemptsMax && !isMidBurst && !IsAtEnd; attempt++)
        {
            DemoProgress from = _producer.Progress;
            long end = WaitForMiddleOfBurst(isSlow: attempt >= FastKillAttempts);
            int killed = _producer.ProcessId;
            TimeSpan at = Elapsed;
            _producer.Kill();
            isMidBurst = ReplaceProducer(killed, at, end);
            FinishBurst(from, isDisturbed: true);
        }
    }

    private long WaitForMiddleOfBurst(bool isSlow)
    {
        long begin = _producer.Progress.Bytes;
        long end = AskForBurst(isSlow);
        _producer.WaitForProgress(progress => progress.Bytes >= begin + (end - begin) / 3);
        return end;
    }

    /// <summary>Starts a new producer, which continues the burst. True if the burst was not over yet.</summary>
    private bool ReplaceProducer(int killed, TimeSpan at, long burstEnd)
    {
        _producer.Dispose();
        Volatile.Write(ref _producer, StartProducer());
        _producer.WaitForAnswer();
        DemoProgress found = _producer.Progress;
        bool isMidBurst = found.Bytes < burstEnd;
        string what = isMidBurst ? "in mid-burst" : "after a burst";
        _deaths.Add(new DemoDeath(at, "producer", killed, what, found.Messages, 0, _producer.ProcessId));
        if (isMidBurst)
        {
            _producer.Ask("burst", burstEnd);
            _producer.WaitForAnswer();
        }

        return isMidBurst;
    }

    /// <summary>Stops the consumer, sends until enough is unread, and kills it.</summary>
    private void KillConsumer()
    {
        DemoProgress from = _producer.Progress;
        _consumer.Suspend();
        long unread = 0;
        while (unread < UnreadMin && !IsAtEnd)
        {
            AskForBurst();
            _producer.WaitForAnswer();
            unread = DemoStore.CountUnread(_folder);
        }

        int killed = _consumer.ProcessId;
        TimeSpan at = Elapsed;
        _consumer.Kill();
        ReplaceConsumer(killed, at, DemoStore.CountUnread(_folder));
        FinishBurst(from, isDisturbed: true);
    }

    private void ReplaceConsumer(int killed, TimeSpan at, long unread)
    {
        _consumer.Dispose();
        Volatile.Write(ref _consumer, StartConsumer());
        _consumer.WaitForAnswer();
        long committed = _consumer.FirstProgress.Messages;
        _deaths.Add(new DemoDeath(at, "consumer", killed, "with messages unread", committed, unread, _consumer.ProcessId));
    }

    /// <summary>
    /// Sends at an even pace that neither side has to race for, so that the latency is that of the path and not of the backlog.
    /// </summary>
    private DemoBurst Steady()
    {
        DemoProgress from = _producer.Progress;
        AskForBurst(isSlow: true);
        TimeSpan timeMax = TimeSpan.FromSeconds(Math.Min(s_steadyTimeMax.TotalSeconds, _timeMax.TotalSeconds / 5));
        if (!_producer.TryWaitForAnswer(timeMax))
        {
            _producer.Ask("stop");
            _producer.WaitForAnswer();
        }

        DemoProgress to = _producer.Progress;
        _consumer.WaitForProgress(progress => progress.Messages >= to.Messages);
        return new DemoBurst(from, to, IsDisturbed: false);
    }

    /// <summary>
    /// Kills both in the middle of a burst. The next process to open the store is alone with it, and repairs what the dead ones
    /// left.
    /// </summary>
    private void KillBoth()
    {
        if (IsAtEnd)
            return;
        DemoProgress from = _producer.Progress;
        _consumer.Suspend();
        long end = WaitForMiddleOfBurst(isSlow: false);
        (int producer, int consumer, TimeSpan at) = (_producer.ProcessId, _consumer.ProcessId, Elapsed);
        _producer.Kill();
        _consumer.Kill();
        ReplaceConsumer(consumer, at, DemoStore.CountUnread(_folder));
        ReplaceProducer(producer, at, end);
        FinishBurst(from, isDisturbed: true);
    }
}
