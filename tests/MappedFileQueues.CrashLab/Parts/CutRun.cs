using System.Collections.Frozen;
using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// One seed of the cut part: rounds of work on one disk, pictures at random points of it, images of each picture. What one
/// image holds after its recovery is where the next round begins.
/// </summary>
internal sealed class CutRun(
    int seed, LabOptions options, PartResult result, LabPart part, bool isExhaustive, bool retains)
{
    private const int PicturesPerRound = 7;
    private const int CutsPerPicture = 12;
    private const int CutsPerPictureRetaining = 6;
    private const int LossesPerPicture = 3;
    private const int OperationsMax = 90;
    private const int OperationsMaxRetaining = 180;
    private const int RarePicturesPerRound = 3;
    private const int ExhaustivePages = 12;

    /// <summary>
    /// Steps that a run takes a few times, among thousands: pure chance would hardly ever take a picture there. Of each kind one
    /// is kept.
    /// </summary>
    private static readonly FrozenSet<string> s_rareSteps = FrozenSet.Create(
        StringComparer.Ordinal,
        nameof(ProtocolStep.LogStartRaised), nameof(ProtocolStep.LogStartRecorded), nameof(ProtocolStep.SegmentDeleted),
        nameof(ProtocolStep.SpareTaken), nameof(ProtocolStep.SpareZeroed), nameof(ProtocolStep.ZeroingBegun),
        nameof(ProtocolStep.RecycledZeroed));

    private readonly SortedDictionary<string, RarePicture> _rare = new(StringComparer.Ordinal);
    private readonly Random _random = new(seed);
    private readonly List<(DiskPicture Disk, ModelPicture Model)> _pictures = [];
    private Random _pointRandom = new(0);
    private int _candidates;
    private SimDisk _disk = new(tracksMedium: true);
    private readonly LogModel _model = new(seed);

    public void Run()
    {
        var plan = new LabPlan(_random, retains);
        plan.Apply();
        byte[] id = new byte[16];
        _random.NextBytes(id);
        var storeId = new Guid(id);
        int rounds = isExhaustive ? 1 : _random.Next(1, 4);
        for (int round = 0; round < rounds; round++)
        {
            _pictures.Clear();
            _rare.Clear();
            _candidates = 0;
            _pointRandom = new Random(_random.Next());
            string boot = BootId();
            var work = new Workload(new Random(_random.Next()), plan, _disk, _model, boot, storeId, OnPoint);
            work.Run(_random.Next(10, retains ? OperationsMaxRetaining : OperationsMax), () =>
            {
                TakeRare();
                Take("the end");
            });
            bool isLast = round == rounds - 1;
            for (int i = 0; i < _pictures.Count; i++)
                CheckPicture(plan, boot, i, isLast);
            if (isLast)
                break;
            StartNextRound(plan);
        }

        _disk.Dispose();
    }

    private string BootId()
    {
        byte[] id = new byte[16];
        _random.NextBytes(id);
        return new Guid(id).ToString();
    }

    private void OnPoint(string where)
    {
        if (_pointRandom.Next(60) == 0)
        {
            lock (_disk.Gate)
                _disk.WriteBackSome(_pointRandom);
        }

        if (s_rareSteps.Contains(where))
        {
            NoteRare(where);
            return;
        }

        // Making segments takes hundreds of calls of the platform; the steps of the protocol and the pauses count for more.
        int rarity = where.Contains(' ', StringComparison.Ordinal) && where != "between operations" ? 40 : 12;
        if (_pointRandom.Next(rarity) != 0)
            return;
        _candidates++;
        if (_pictures.Count < PicturesPerRound)
            Take(where);
        else if (_pointRandom.Next(_candidates) is var place && place < PicturesPerRound)
            _pictures[place] = Picture(where);
    }

    private void NoteRare(string where)
    {
        int count = _rare.TryGetValue(where, out RarePicture? noted) ? noted.Count + 1 : 1;
        bool isKept = noted is null || _pointRandom.Next(count) == 0;
        _rare[where] = new RarePicture(count, isKept ? Picture(where) : noted!.Picture);
    }

    private void TakeRare()
    {
        RarePicture[] rare = [.. _rare.Values];
        _pointRandom.Shuffle(rare);
        _pictures.AddRange(rare.Take(RarePicturesPerRound).Select(noted => noted.Picture));
    }

    private void Take(string where) => _pictures.Add(Picture(where));

    private (DiskPicture Disk, ModelPicture Model) Picture(string where)
    {
        var disk = new DiskPicture(_disk);
        ControlWords words = disk.Names.TryGetValue(StoreNames.Control, out SimFile? control)
            ? ControlWords.Of(disk.Files[control].Content)
            : default;
        return (disk, _model.Picture(words, where));
    }

    private void CheckPicture(LabPlan plan, string boot, int index, bool isLast)
    {
        (DiskPicture disk, ModelPicture model) = _pictures[index];
        if (disk.HolesStoredInto.FirstOrDefault() is { } hole)
            Violate(plan, model, $"somebody stored into a hole of {hole}: on a full disk that kills the process", null);
        if (LabIndex.FindFault(disk, boot) is { } fault)
            Violate(plan, model, fault, null);
        Check(plan, model, boot, isCut: false, _random.Next(), _ => CutImage.OfKill(disk, tracksMedium: false));
        for (int i = 0; i < (retains ? CutsPerPictureRetaining : CutsPerPicture); i++)
            Check(plan, model, BootId(), isCut: true, _random.Next(), random => CutImage.OfCut(disk, random, tracksMedium: true));
        for (int i = 0; i < LossesPerPicture; i++)
        {
            result.Add("losses in the same boot");
            Check(plan, model, boot, isCut: true, _random.Next(), random => CutImage.OfCut(disk, random, tracksMedium: true),
                isSameBoot: true);
        }

        if (isExhaustive && isLast && disk.Dirty.Count > 0 && _pictures.Skip(index + 1).All(later => later.Disk.Dirty.Count == 0))
            CheckAllSubsets(plan, disk, model);
    }

    private void CheckAllSubsets(LabPlan plan, DiskPicture disk, ModelPicture model)
    {
        int count = Math.Min(ExhaustivePages, disk.Dirty.Count);
        for (int subset = 0; subset < 1 << count; subset++)
        {
            int chosen = subset;
            Check(plan, model, BootId(), isCut: true, _random.Next(),
                random => CutImage.OfSubset(disk, count, chosen, random));
        }

        result.Add("exhaustive moments");
    }

    /// <summary>One image: made, recovered and checked; now and then the recovery itself is cut short, and made again.</summary>
    private void Check(
        LabPlan plan, ModelPicture model, string boot, bool isCut, int imageSeed, Func<Random, SimDisk> make,
        bool isSameBoot = false)
    {
        if (options.StopsAtFirst && result.Violations.Count > 0)
            return;
        result.Add("images");
        try
        {
            var random = new Random(imageSeed);
            using SimDisk image = make(random);
            if (isCut && !isSameBoot && random.Next(250) == 0 && image.RootExists)
                RealStore.Check(image, plan, model, random);
            ImageOracle oracle = new(plan, model, isCut, random) { IsSameBoot = isSameBoot };
            var os = new SimServices(image, boot, plan.HasFence);
            if (isCut && !isSameBoot && random.Next(8) == 0)
                new InterruptedRecovery(plan, model, image, random, BootId, result).Run(boot);
            else
                oracle.Check(SimDisk.Root, os);
        }
        catch (Exception error)
        {
            Violate(plan, model, error is LabViolation ? error.Message : error.ToString(), make(new Random(imageSeed)));
        }
    }

    private void Violate(LabPlan plan, ModelPicture model, string message, SimDisk? image)
    {
        string kept = "";
        if (image is not null)
        {
            string folder = Path.Combine(options.KeepFolder, $"cut-{seed}-{result.Violations.Count}");
            RealStore.Write(image, Path.Combine(folder, "store"));
            File.WriteAllText(Path.Combine(folder, "report.txt"), $"{plan}\nat: {model.Where}\n{message}\n");
            kept = $"\n    image: {folder}";
        }

        result.Violate(seed, $"{message}\n    at: {model.Where}; {plan}{kept}", part.Replay(seed, options));
    }

    private void StartNextRound(LabPlan plan)
    {
        (DiskPicture picture, ModelPicture model) = _pictures[^1];
        int imageSeed = _random.Next();
        using (SimDisk trial = CutImage.OfCut(picture, new Random(imageSeed), tracksMedium: false))
        {
            var oracle = new ImageOracle(plan, model, isCut: true, new Random(0));
            oracle.Check(SimDisk.Root, new SimServices(trial, BootId(), plan.HasFence));
            foreach ((LogEntry entry, ReadMessage message) in oracle.Survivors.Zip(oracle.Messages))
            {
                entry.Offset = message.Offset;
                entry.State = EntryState.Published;
            }

            _model.Restart(oracle.Survivors, oracle.Oldest);
        }

        _disk.Dispose();
        _disk = CutImage.OfCut(picture, new Random(imageSeed), tracksMedium: true);
    }

    /// <summary>One of the moments at which a rare step was taken, each with the same chance.</summary>
    private sealed record RarePicture(int Count, (DiskPicture Disk, ModelPicture Model) Picture);
}
