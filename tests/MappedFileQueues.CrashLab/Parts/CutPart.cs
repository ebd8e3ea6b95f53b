using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>Power cuts, and kills of all processes at once, at any step, as images of a simulated disk.</summary>
internal sealed class CutPart : LabPart
{
    /// <summary>One run of so many makes all images of a moment that differ in its last dirty pages.</summary>
    private const int ExhaustiveEvery = 48;

    public override string Name => "cut";

    public override string Help => "images of power cuts and of kills of everybody, from a simulated disk";

    public override bool Prepare(LabOptions options, PartResult result)
    {
        LabThread.TakeOver();
        return true;
    }

    public override void Finish() => LabThread.LetGo();

    public override void Run(int seed, LabOptions options, PartResult result)
    {
        bool isExhaustive = (seed % ExhaustiveEvery + ExhaustiveEvery) % ExhaustiveEvery == 7;
        new CutRun(seed, options, result, this, isExhaustive).Run();
    }

    public override bool IsEnough(int runs, LabOptions options, PartResult result) => result.Count("images") >= options.Images;
}
