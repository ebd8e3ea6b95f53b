using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.CrashLab.Again;

/// <summary>Makes the store, and appends to it.</summary>
internal sealed class MakeAgain : RepeatScenario
{
    public override bool NeedsStore => false;

    public override bool MayBeBeside => false;

    protected override void Begin(MappedFileQueue queue) => AppendUnnumbered(queue, 2, DurabilityLevel.Group);

    public override void Again(MappedFileQueue queue) => AppendAndFlush(queue, 3);
}

/// <summary>Sets a policy, by a call or by the options of a queue.</summary>
internal sealed class SetPolicyAgain(bool byOptions) : RepeatScenario
{
    private static readonly RetentionOptions s_before = new() { KeepUnconsumed = false, MaxBytes = 5 * SegmentLength };
    private static readonly RetentionOptions s_policy = new() { MaxBytes = 7 * SegmentLength };

    public override bool MayBeByThird => !byOptions;

    public override void SetUp(MappedFileQueue queue) => queue.SetRetention(s_before);

    public override MappedFileQueue Open(SimServices os)
    {
        MappedFileQueueOptions options = Options(os);
        options.Retention = byOptions ? s_policy : null;
        return new MappedFileQueue(options);
    }

    protected override void Begin(MappedFileQueue queue) => Again(queue);

    public override void Again(MappedFileQueue queue)
    {
        if (!byOptions)
            queue.SetRetention(s_policy);
    }

    public override void Check(MappedFileQueue queue)
    {
        if (queue.GetInfo().Retention is var policy && policy != s_policy)
            throw new LabViolation($"The policy that was set is not there any more, but {policy}");
    }
}

/// <summary>Recovers a store after a power loss.</summary>
internal sealed class RecoverAgain : RepeatScenario
{
    private long _confirmed;
    private long _epoch;

    public override bool MayBeBeside => false;

    public override bool IsCutBefore => true;

    public override void SetUp(MappedFileQueue queue)
    {
        AppendAndFlush(queue, 12);
        Append(queue, 6);
        queue.OpenConsumer(Consumer, QueueStart.Latest);
        queue.OpenProducer().DangerousClaim(200);
    }

    protected override void Begin(MappedFileQueue queue)
    {
    }

    public override void Again(MappedFileQueue queue)
    {
        (_confirmed, _epoch) = (queue.ConfirmedOffset, queue.GetInfo().Epoch);
        AppendAndFlush(queue, 1);
    }

    public override void Check(MappedFileQueue queue)
    {
        base.Check(queue);
        if (queue.ConfirmedOffset < _confirmed || queue.GetInfo().Epoch <= _epoch)
            throw new LabViolation($"Confirmed was {_confirmed} and is {queue.ConfirmedOffset}, the epoch was {_epoch} and is "
                + $"{queue.GetInfo().Epoch}");
    }
}

/// <summary>Recovers a store that a failed sync has poisoned.</summary>
internal sealed class RecoverPoisonAgain : RepeatScenario
{
    private const int FlushedCount = 12;

    public override bool MayBeBeside => false;

    public override void SetUp(MappedFileQueue queue)
    {
        AppendAndFlush(queue, FlushedCount);
        Append(queue, 8);
        SimDisk disk = ((SimServices)CurrentPlatform.Services).Disk;
        disk.Faults = new SimFaults { FailsSync = name => name.StartsWith("commitlog/", StringComparison.Ordinal) };
        try
        {
            queue.Flush();
            throw new LabViolation("A flush whose sync fails returns");
        }
        catch (QueueDiskException)
        {
            disk.Faults = null;
        }
    }

    protected override void Begin(MappedFileQueue queue)
    {
    }

    public override void Again(MappedFileQueue queue)
    {
        Count = 0;
        using (MappedFileReader reader = MappedFileReader.Open(SimDisk.Root))
        {
            while (reader.TryRead(out _))
                Count++;
        }

        if (Count < FlushedCount)
            throw new LabViolation($"{FlushedCount} messages were flushed before the poison, and {Count} are there");
        AppendAndFlush(queue, 2);
    }
}
