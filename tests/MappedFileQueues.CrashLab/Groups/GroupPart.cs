using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Groups;

/// <summary>Groups and producers with an id: members that die, stand still and are fenced, and power losses, cut twice.</summary>
internal sealed class GroupPart : LabPart
{
    /// <summary>One run costs as much as dozens of images of the cut part.</summary>
    private const int ImagesShare = 20;

    public override string Name => "group";

    public override string Help => "members of groups and producers with an id, killed, stopped, fenced and cut";

    public override bool Prepare(LabOptions options, PartResult result)
    {
        LabThread.TakeOver();
        return true;
    }

    public override void Finish() => LabThread.LetGo();

    public override void Run(int seed, LabOptions options, PartResult result) => new GroupRun(seed, options, result, this).Run();

    public override bool IsEnough(int runs, LabOptions options, PartResult result) =>
        result.Count("images") >= options.Images / ImagesShare;
}
