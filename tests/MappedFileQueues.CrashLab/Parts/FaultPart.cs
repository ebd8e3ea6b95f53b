using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>Calls of the system that fail: by the simulated disk in each run, by real file systems and strace once.</summary>
internal sealed class FaultPart : LabPart
{
    private const int RunsEnough = 60;

    private int _realDone;

    public override string Name => "fault";

    public override string Help => "full disks, device errors, short writes, interrupted calls, too many files, too large files";

    /// <summary>The real faults are those of processes and mounts, which the first run has to itself.</summary>
    public override int JobsMax => 1;

    public override bool Prepare(LabOptions options, PartResult result)
    {
        LabThread.TakeOver();
        return true;
    }

    public override void Finish() => LabThread.LetGo();

    public override void Run(int seed, LabOptions options, PartResult result)
    {
        new SimulatedFaults(seed, result).Run();
        new SimulatedFileFaults(seed, result).Run();
        if (Interlocked.Exchange(ref _realDone, 1) == 0)
            new RealFaults(options, result).Run();
    }

    public override bool IsEnough(int runs, LabOptions options, PartResult result) => runs >= RunsEnough;
}
