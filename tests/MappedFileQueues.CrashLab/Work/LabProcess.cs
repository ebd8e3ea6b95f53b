using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>A simulated process: a queue on the disk with locks of its own.</summary>
internal sealed class LabProcess(SimServices os, MappedFileQueue queue)
{
    public SimServices Os => os;

    public MappedFileQueue Queue => queue;

    public MappedFileProducer? Producer { get; set; }

    public MappedFileConsumer? Consumer { get; set; }

    /// <summary>Where its consumer is among the model's entries.</summary>
    public int ReadPosition { get; set; }

    /// <summary>What its consumer was told to have skipped, and nobody has looked at.</summary>
    public Queue<MessagesSkippedEventArgs> Skipped { get; } = [];

    /// <summary>It has a claim open.</summary>
    public bool IsClaiming { get; set; }

    public long ProducedCount { get; set; }

    public static LabProcess Start(SimDisk disk, LabPlan plan, string bootId, Guid storeId, bool isExclusive)
    {
        var os = new SimServices(disk, bootId, plan.HasFence);
        CurrentPlatform.Services = os;
        var process = new LabProcess(os, new MappedFileQueue(plan.Options(SimDisk.Root, storeId, isExclusive)));
        LabIndex.Begin(os);
        process.Queue.MessagesSkipped += (_, skipped) => process.Skipped.Enqueue(skipped);
        return process;
    }
}
