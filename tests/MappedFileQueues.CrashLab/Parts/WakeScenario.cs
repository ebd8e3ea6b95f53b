using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// A consumer sleeps before a living claim; its owner dies, and another consumer repairs it: that must wake the sleeper, which
/// sees what lies behind. With long sleeps a wake-up that is missing is a hang and not a delay.
/// </summary>
internal static class WakeScenario
{
    private static readonly TimeSpan s_long = TimeSpan.FromMinutes(2);
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(30);

    public static void Run(int seed)
    {
        (TimeSpan sleep, TimeSpan holeSleep) = (WakeSignal.SleepMax, LogConsumer.ClaimSleepMax);
        OperatingSystemServices real = CurrentPlatform.Services;
        WakeSignal.SleepMax = LogConsumer.ClaimSleepMax = s_long;
        try
        {
            Play(seed);
        }
        finally
        {
            WakeSignal.SleepMax = sleep;
            LogConsumer.ClaimSleepMax = holeSleep;
            CurrentPlatform.Services = real;
        }
    }

    private static void Play(int seed)
    {
        using var disk = new SimDisk(tracksMedium: false);
        (MappedFileQueue dying, SimServices dyingOs) = Open(disk);
        (MappedFileQueue others, _) = Open(disk);
        (MappedFileQueue sleepers, SimServices sleepersOs) = Open(disk);
        (MappedFileQueue repairers, _) = Open(disk);
        byte[] expected = LabMessage.Make(seed, 1, 1, 64);

        // Left open: the process will die over it.
        MessageClaim claim = dying.Producer.DangerousClaim(100);
        claim.Span.Fill((byte)seed);
        others.Producer.Produce(expected);
        using var asleep = new ManualResetEventSlim();
        sleepersOs.Sleeping = asleep.Set;
        byte[]? found = null;
        MappedFileConsumer sleeper = sleepers.OpenConsumer("sleeper");
        var thread = new Thread(() =>
        {
            try
            {
                found = sleeper.Consume().ToArray();
            }
            catch (ObjectDisposedException)
            {
                // The scenario is over.
            }
        });
        thread.Start();
        if (!asleep.Wait(s_patience))
            throw new LabViolation("A consumer before a living claim does not go to sleep");
        dyingOs.Kill();
        using MappedFileConsumer repairer = repairers.OpenConsumer("repairer");
        bool repaired = repairer.TryConsume(out ReadOnlySpan<byte> message) && message.SequenceEqual(expected);
        bool woke = thread.Join(s_patience);
        foreach (MappedFileQueue queue in new[] { sleepers, repairers, others, dying })
            queue.Dispose();
        thread.Join();
        if (!repaired)
            throw new LabViolation("A dead claim is not repaired by a consumer that meets it");
        if (!woke || found is null || !found.AsSpan().SequenceEqual(expected))
            throw new LabViolation("The repair of a dead claim does not wake the consumer that sleeps before it");
    }

    private static (MappedFileQueue Queue, SimServices Os) Open(SimDisk disk)
    {
        var os = new SimServices(disk, "00000000-0000-4000-8000-000000000001", hasFence: true);
        CurrentPlatform.Services = os;
        return (new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = SimDisk.Root,
            SegmentSize = 65536,
            ConsumerSpinWaitDuration = TimeSpan.Zero,
            ConsumerRetryInterval = s_long,
        }), os);
    }
}
