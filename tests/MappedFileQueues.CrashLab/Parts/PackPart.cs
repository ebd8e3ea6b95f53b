using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>Packs: power losses and kills at any step, as images of a simulated disk.</summary>
internal sealed class PackPart : LabPart
{
    public override string Name => "pack";

    public override string Help => "images of power losses and kills of a pack's writer, from a simulated disk";

    public override bool Prepare(LabOptions options, PartResult result)
    {
        LabThread.TakeOver();
        return true;
    }

    public override void Finish() => LabThread.LetGo();

    public override void Run(int seed, LabOptions options, PartResult result) => new PackRun(seed, result).Run();

    public override bool IsEnough(int runs, LabOptions options, PartResult result) =>
        result.Count("images") >= options.Images / 4;
}
