using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>Power losses, and kills of all processes at once, at any step, as images of a simulated disk.</summary>
/// <param name="retains">Stores that remove their oldest segments, and use the files again.</param>
internal sealed class CutPart(bool retains) : LabPart
{
    /// <summary>One run of so many makes all images of a moment that differ in its last dirty pages.</summary>
    private const int ExhaustiveEvery = 48;

    /// <summary>
    /// Of these stores fewer: such a moment takes nearly half of their images, and their mistakes show in many kinds of moments
    /// rather than in the pages of one.
    /// </summary>
    private const int ExhaustiveEveryRetaining = 480;

    /// <summary>These stores get one of so many images.</summary>
    private const int RetainShare = 2;

    public override string Name => retains ? "retain" : "cut";

    public override string Help => retains
        ? "the same of stores that remove and recycle segments"
        : "images of power losses and of kills of everybody, from a simulated disk";

    public override bool Prepare(LabOptions options, PartResult result)
    {
        LabThread.TakeOver();
        return true;
    }

    public override void Finish() => LabThread.LetGo();

    public override void Run(int seed, LabOptions options, PartResult result)
    {
        int every = retains ? ExhaustiveEveryRetaining : ExhaustiveEvery;
        bool isExhaustive = (seed % every + every) % every == 7;
        new CutRun(seed, options, result, this, isExhaustive, retains).Run();
    }

    public override bool IsEnough(int runs, LabOptions options, PartResult result) =>
        result.Count("images") >= (retains ? options.Images / RetainShare : options.Images);
}
