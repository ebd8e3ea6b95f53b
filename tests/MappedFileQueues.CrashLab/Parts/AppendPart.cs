namespace MappedFileQueues.CrashLab.Parts;

/// <summary>Power losses and kills of a process that appends to a file, as images of a simulated disk.</summary>
internal sealed class AppendPart : LabPart
{
    /// <summary>Of the images that the cut part makes by itself.</summary>
    private const int ImagesShare = 4;

    public override string Name => "append";

    public override string Help => "images of power losses and kills while files are appended to, rolled and used again";

    public override void Run(int seed, LabOptions options, PartResult result) =>
        new AppendRun(seed, options, result, this).Run();

    public override bool IsEnough(int runs, LabOptions options, PartResult result) =>
        result.Count("images") >= options.Images / ImagesShare;
}
