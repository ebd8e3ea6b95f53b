using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Groups;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.CrashLab.Groups;

/// <summary>
/// One seed of the group part: rounds of work of several processes on one disk, pictures at some of its points, images of each
/// picture. What one image holds is where the next round begins.
/// </summary>
internal sealed class GroupRun(int seed, LabOptions options, PartResult result, LabPart part)
{
    private const int OperationsPerPlace = 60;
    private const int LivesPerPlace = 4;
    private const int PicturesPerRound = 4;
    private const int CutsPerPicture = 4;
    private const int PictureEvery = 250;
    private const int RarePictureEvery = 4;

    private readonly Random _random = new(seed);
    private readonly List<(DiskPicture Disk, GroupPicture Model)> _pictures = [];
    private Random _pointRandom = new(0);
    private SimDisk _disk = new(tracksMedium: true);
    private StageClock _clock = new(TimeSpan.FromDays(1).Ticks);
    private (DiskPicture Disk, GroupPicture Model)? _hintPicture;
    private int _hints;
    private int _candidates;
    private string _boot = "";

    public void Run()
    {
        var plan = new GroupPlan(seed, _random);
        var model = new GroupModel(seed, plan);
        PlantedFaults.FirstBlocks = SimFile.Page;
        _boot = NewBoot();
        Prepare(plan);
        int rounds = _random.Next(1, 4);
        for (int round = 0; round < rounds; round++)
        {
            Play(plan, model);
            for (int i = 0; i < _pictures.Count && !IsOver; i++)
                CheckPicture(plan, model, _pictures[i]);
            CheckHints(plan, model);
            if (IsOver || round == rounds - 1)
                break;
            StartNextRound(plan, model);
        }

        _disk.Dispose();
    }

    private bool IsOver => options.StopsAtFirst && result.Violations.Count > 0;

    /// <summary>The store, and with a retention its group: otherwise messages go before anybody waits for them.</summary>
    private void Prepare(GroupPlan plan)
    {
        var os = new SimServices(_disk, _boot, plan.HasFence);
        CurrentPlatform.Services = os;
        LabThread.Background.Clear();
        using var engine = new StoreEngine(plan.Options(_clock), StoreKind.Messages, 0, 0);
        if (!plan.Trims)
            return;
        using GroupActor.Face face = engine.OpenGroupMember(
            GroupPlan.Group, plan.MemberOptions, static (in _, _) => { }, static member => new GroupActor.Face(member));
    }

    private void Play(GroupPlan plan, GroupModel model)
    {
        _pictures.Clear();
        (_hintPicture, _hints, _candidates) = (null, 0, 0);
        _pointRandom = new Random(_random.Next());
        List<GroupActor> actors = [];
        int[] lives = new int[plan.PlaceCount];
        var stage = new GroupStage(new Random(_random.Next()), _disk, _random.Next(0, 12))
        {
            Point = where => OnPoint(model, where),
            Died = static actor => actor.Died(),
        };
        stage.Next = place =>
        {
            if (lives[place]++ >= LivesPerPlace)
                return null;
            var os = new SimServices(_disk, _boot, plan.HasFence);
            var actor = new GroupActor(
                os, model, _clock, new Random(_random.Next()), place, _random.Next(1, OperationsPerPlace), actors);
            actors.Add(actor);
            return actor;
        };
        stage.Run(plan.PlaceCount, () => Take(model, "the end"));
        result.Add("kills", stage.Kills);
        if (stage.Failure is { } failure)
            throw new LabViolation($"{failure}\n    {plan}", failure);
    }

    private void OnPoint(GroupModel model, string where)
    {
        if (model.Plan.Drops && where == nameof(ProtocolStep.LogStartStored))
            model.DropsBefore = Math.Max(model.DropsBefore, ControlWords.Of(_disk).LogStart);
        if (_pointRandom.Next(80) == 0)
        {
            lock (_disk.Gate)
                _disk.WriteBackSome(_pointRandom);
        }

        // One of these moments, each as likely as the others: among all pictures there would be few.
        if (where == nameof(ProtocolStep.ProducerSequenceStored) && _pointRandom.Next(++_hints) == 0)
            _hintPicture = Picture(model, where);
        bool isRare = where is nameof(ProtocolStep.GroupSaved) or nameof(ProtocolStep.ProducerSequenceStored)
            or nameof(ProtocolStep.LogStartRecorded) or nameof(ProtocolStep.SegmentDeleted);
        if (_pointRandom.Next(isRare ? RarePictureEvery : PictureEvery) != 0)
            return;
        _candidates++;
        if (_pictures.Count < PicturesPerRound)
            Take(model, where);
        else if (_pointRandom.Next(_candidates) is var place && place < PicturesPerRound)
            _pictures[place] = Picture(model, where);
    }

    private void Take(GroupModel model, string where) => _pictures.Add(Picture(model, where));

    private (DiskPicture Disk, GroupPicture Model) Picture(GroupModel model, string where) =>
        (new DiskPicture(_disk), model.Picture(where));

    private void CheckPicture(GroupPlan plan, GroupModel model, (DiskPicture Disk, GroupPicture Model) picture)
    {
        Check(plan, model, picture.Model, _boot, isCut: false, 0,
            _ => CutImage.OfKill(picture.Disk, tracksMedium: true));
        for (int i = 0; i < CutsPerPicture; i++)
            Check(plan, model, picture.Model, NewBoot(), isCut: true, _random.Next(3) switch { 0 => 0, 1 => 1, _ => 2 } % 3,
                random => CutImage.OfCut(picture.Disk, random, tracksMedium: true));
    }

    /// <summary>What producers' files say of the log reaches the disk before the log does.</summary>
    private void CheckHints(GroupPlan plan, GroupModel model)
    {
        if (_hintPicture is { } picture)
            Check(plan, model, picture.Model, NewBoot(), isCut: true, 0,
                random => CutImage.OfFolder(picture.Disk, StoreNames.Producers, random));
    }

    private void Check(
        GroupPlan plan, GroupModel model, GroupPicture picture, string boot, bool isCut, int crashes, Func<Random, SimDisk> make)
    {
        if (IsOver)
            return;
        result.Add("images");
        int imageSeed = _random.Next();
        try
        {
            var random = new Random(imageSeed);
            using SimDisk image = make(random);
            new GroupImage(model, picture, random, NewBoot).Check(image, boot, isCut, crashes);
        }
        catch (Exception error)
        {
            result.Violate(
                seed, $"{(error is LabViolation ? error.Message : error.ToString())}\n    at: {picture.Where}, "
                + $"{(isCut ? "cut" : "killed")}, {crashes} more; {plan}", part.Replay(seed, options));
        }
    }

    private void StartNextRound(GroupPlan plan, GroupModel model)
    {
        (DiskPicture disk, GroupPicture picture) = _pictures[_random.Next(_pictures.Count)];
        bool isCut = _random.Next(3) != 0;
        int imageSeed = _random.Next();
        string boot = isCut ? NewBoot() : _boot;
        var image = new GroupImage(model, picture, new Random(0), NewBoot);
        using (SimDisk trial = Make())
            image.Read(trial, boot, isCut);
        model.Restart(picture, isCut, image);
        _disk.Dispose();
        _disk = Make();
        _boot = boot;
        if (isCut)
            _clock = new StageClock(_clock.Ticks);

        SimDisk Make() => isCut
            ? CutImage.OfCut(disk, new Random(imageSeed), tracksMedium: true)
            : CutImage.OfKill(disk, tracksMedium: true);
    }

    private string NewBoot()
    {
        byte[] id = new byte[16];
        _random.NextBytes(id);
        return new Guid(id).ToString();
    }
}
