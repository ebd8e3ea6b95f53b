using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Memory;

namespace MappedFileQueues.CrashLab.Again;

/// <summary>
/// Kills a call at each of its points in turn, lets another process make it again (alone, beside a third one that has the store
/// open, or that one itself), and then cuts the power: while the second call is under way, and when it has returned.
/// </summary>
internal sealed class RepeatRun(int seed, PartResult result, Func<RepeatScenario> make, Action<string> violate)
{
    private const int CutsAtEnd = 5;
    private const int CutsUnderWay = 2;
    private const int PicturesEvery = 40;

    private readonly Random _random = new(seed);
    private string _where = "";

    private enum Company
    {
        Alone,
        Beside,
        ByThird,
    }

    public void Run()
    {
        PlantedFaults.FirstBlocks = SimFile.Page;
        RepeatScenario kind = make();
        foreach (Company company in Enum.GetValues<Company>())
        {
            if ((company == Company.Beside && !kind.MayBeBeside) || (company == Company.ByThird && !kind.MayBeByThird))
                continue;
            int killAt = 0;
            while (KillAndRepeat(make(), company, killAt))
                killAt++;
        }
    }

    /// <summary>False: the first call has no such point.</summary>
    private bool KillAndRepeat(RepeatScenario scenario, Company company, int killAt)
    {
        string boot = NewBoot();
        using var disk = new SimDisk(tracksMedium: true);
        MappedFileQueue? third = null;
        MappedFileQueue? second = null;
        string? diedAt = null;
        _where = "the beginning";
        try
        {
            if (scenario.NeedsStore)
                Prepare(scenario, disk, boot);
            if (company != Company.Alone)
                third = scenario.OpenPlain(Process(disk, boot));
            string secondBoot = scenario.IsCutBefore ? NewBoot() : boot;
            diedAt = KilledCall.Make(Process(disk, secondBoot), killAt, scenario.Begin);
            _where = diedAt ?? "its end";
            if (company != Company.ByThird)
                second = scenario.Open(Process(disk, secondBoot));
            Repeat(scenario, second ?? third!, disk);
        }
        catch (Exception error)
        {
            violate($"{scenario.GetType().Name}, {company}, killed at {killAt} ({_where}): "
                + (error is LabViolation ? error.Message : error.ToString()));
        }
        finally
        {
            LabThread.Point = disk.Point = null;
            LabThread.Background.Clear();
            second?.Dispose();
            third?.Dispose();
        }

        return diedAt is not null;
    }

    private void Prepare(RepeatScenario scenario, SimDisk disk, string boot)
    {
        SimServices os = Process(disk, boot);
        MappedFileQueue first = scenario.OpenPlain(os);
        scenario.SetUp(first);
        // An orderly end writes a checkpoint.
        if (!scenario.IsCutBefore && _random.Next(2) == 0)
            first.Dispose();
        else
            os.Kill();
        scenario.SetUp(disk);
        LabThread.Background.Clear();
    }

    private void Repeat(RepeatScenario scenario, MappedFileQueue queue, SimDisk disk)
    {
        List<(DiskPicture Disk, int Acknowledged, string Where)> pictures = [];
        LabThread.Point = disk.Point = where =>
        {
            if (_random.Next(PicturesEvery) == 0)
                pictures.Add((new DiskPicture(disk), scenario.Acknowledged, where));
        };
        scenario.Again(queue);
        LabThread.Point = disk.Point = null;
        string died = _where;
        foreach ((DiskPicture picture, int acknowledged, string where) in pictures)
        {
            _where = $"{died}, then cut at {where}";
            Cut(scenario, picture, CutsUnderWay, _ => scenario.CheckMessages(acknowledged, int.MaxValue));
        }

        _where = died;
        Cut(scenario, new DiskPicture(disk), CutsAtEnd, scenario.Check);
    }

    private void Cut(RepeatScenario scenario, DiskPicture picture, int count, Action<MappedFileQueue> check)
    {
        for (int i = 0; i < count; i++)
        {
            result.Add("images");
            using SimDisk image = CutImage.OfCut(picture, new Random(_random.Next()), tracksMedium: false);
            LabThread.Background.Clear();
            using MappedFileQueue queue = scenario.OpenPlain(Process(image, NewBoot()));
            check(queue);
        }
    }

    private static SimServices Process(SimDisk disk, string boot) => new(disk, boot, hasFence: true);

    private string NewBoot()
    {
        byte[] id = new byte[16];
        _random.NextBytes(id);
        return new Guid(id).ToString();
    }
}
