using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// The recoverer is cut, or killed, while it recovers: pictures are taken at its steps, and what comes after must find the same
/// tail.
/// </summary>
internal sealed class InterruptedRecovery(
    LabPlan plan, ModelPicture model, SimDisk image, Random random, Func<string> newBoot, PartResult result)
{
    private const int PicturesMax = 4;

    private readonly List<DiskPicture> _pictures = [];
    private int _points;

    public void Run(string boot)
    {
        image.Point = OnPoint;
        LabThread.Point = OnPoint;
        ImageOracle first = new(plan, model, isCut: true, random);
        try
        {
            CurrentPlatform.Services = new SimServices(image, boot, plan.HasFence);
            LabThread.Background.Clear();
            using (new MappedFileQueue(plan.Options(SimDisk.Root, Guid.Empty, isExclusive: false)))
                image.Point = LabThread.Point = null;
        }
        finally
        {
            image.Point = LabThread.Point = null;
        }

        first.Check(SimDisk.Root, new SimServices(image, boot, plan.HasFence));
        foreach (DiskPicture picture in _pictures)
        {
            result.Add("images", 2);
            result.Add("interrupted recoveries", 2);
            CheckAgain(CutImage.OfCut(picture, random, tracksMedium: false), newBoot(), first.Messages);
            CheckAgain(CutImage.OfKill(picture, tracksMedium: false), boot, first.Messages);
        }
    }

    private void OnPoint(string where)
    {
        _points++;
        if (_pictures.Count < PicturesMax)
            _pictures.Add(new DiskPicture(image));
        else if (random.Next(_points) is var place && place < PicturesMax)
            _pictures[place] = new DiskPicture(image);
    }

    private void CheckAgain(SimDisk disk, string boot, IReadOnlyList<ReadMessage> found)
    {
        using (disk)
        {
            new ImageOracle(plan, model, isCut: true, random) { MustEqual = found }
                .Check(SimDisk.Root, new SimServices(disk, boot, plan.HasFence));
        }
    }
}
