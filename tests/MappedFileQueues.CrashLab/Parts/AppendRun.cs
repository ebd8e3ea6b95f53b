using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Files;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Files;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// One seed: lines appended with random options, pictures at random calls of the platform, whichever of the stream's threads
/// makes them, and the images of each picture.
/// </summary>
internal sealed class AppendRun(int seed, LabOptions options, PartResult result, LabPart part)
{
    private const int PicturesMax = 12;
    private const int CutsPerPicture = 10;
    private const int OperationsMax = 160;

    private readonly Random _random = new(seed);
    private readonly Random _pointRandom = new(~seed);
    private readonly List<AppendPicture> _pictures = [];
    private readonly Lock _gate = new();

    // Written by the thread that appends, read by whoever takes a picture: first what must be there, last what may.
    private volatile int _durable;
    private volatile int _written;
    private volatile int _begun;

    public void Run()
    {
        AppendFileOptions plan = Plan();
        using SimDisk disk = new(tracksMedium: true);
        disk.Point = where => OnPoint(disk, where);
        SimServices os = Use(disk);
        using (AppendFileStream stream = new(AppendOracle.FilePath, plan))
            Append(stream, plan);
        Take(disk, "closed");
        disk.Point = null;
        if (os.OpenCount != 0)
            throw new LabViolation($"{os.OpenCount} files or directories are open after the closing; {plan}");
        foreach (AppendPicture picture in _pictures)
        {
            Check(plan, picture, isCut: false);
            for (int i = 0; i < CutsPerPicture; i++)
                Check(plan, picture, isCut: true);
        }
    }

    private AppendFileOptions Plan()
    {
        bool rolls = _random.Next(4) != 0;
        int? retained = rolls && _random.Next(4) != 0 ? _random.Next(1, 4) : null;
        // Half of those that roll do it often enough to come to files that are used again, and those again.
        int rollLengthMax = _random.Next(2) == 0 ? 3_000 : 20_000;
        return new AppendFileOptions
        {
            BufferLength = 8192,
            FlushInterval = TimeSpan.FromMilliseconds(_random.Next(1, 20)),
            Durability = _random.Next(3) == 0 ? AppendDurability.Group : AppendDurability.Interval,
            Preallocation = (FilePreallocation)_random.Next(4),
            PreallocationLength = rolls && _random.Next(2) == 0 ? 0 : _random.Next(1, 30_000),
            RollLength = rolls ? _random.Next(1_500, rollLengthMax) : 0,
            RetainedFileCount = retained,
            ReuseOldFiles = retained is not null && _random.Next(3) != 0,
            Content = FileContent.Text,
        };
    }

    private void Append(AppendFileStream stream, AppendFileOptions plan)
    {
        int operations = _random.Next(20, OperationsMax);
        for (int operation = 0; operation < operations; operation++)
        {
            for (int i = _random.Next(1, 12); i > 0; i--)
            {
                int line = _begun;
                _begun = line + 1;
                stream.Write(LineMaker.Line(0, line));
                if (plan.Durability == AppendDurability.Group)
                    _written = _durable = line + 1;
            }

            if (_random.Next(3) == 0)
            {
                stream.Flush();
                _written = _begun;
            }

            if (_random.Next(8) == 0)
            {
                stream.Flush(durable: true);
                _written = _durable = _begun;
            }
        }
    }

    private void OnPoint(SimDisk disk, string where)
    {
        lock (_gate)
        {
            if (_pointRandom.Next(30) == 0)
            {
                lock (disk.Gate)
                    disk.WriteBackSome(_pointRandom);
            }

            if (_pictures.Count < PicturesMax && _pointRandom.Next(15) == 0)
                Take(disk, where);
        }
    }

    private void Take(SimDisk disk, string where)
    {
        (int durable, int written) = (_durable, _written);
        DiskPicture picture = new(disk);
        _pictures.Add(new AppendPicture(picture, where, durable, written, _begun));
    }

    private void Check(AppendFileOptions plan, AppendPicture picture, bool isCut)
    {
        if (options.StopsAtFirst && result.Violations.Count > 0)
            return;
        result.Add("images");
        try
        {
            using SimDisk image = isCut
                ? CutImage.OfCut(picture.Disk, _random, tracksMedium: false)
                : CutImage.OfKill(picture.Disk, tracksMedium: false);
            SimServices os = Use(image);
            int floor = isCut ? picture.Durable : picture.Written;
            new AppendOracle(image, os, plan, !isCut && _random.Next(2) == 0).Check(floor, picture.Begun, isCut);
        }
        catch (Exception error)
        {
            string message = error is LabViolation ? error.Message : error.ToString();
            result.Violate(
                seed, $"{message}\n    at: {picture.Where}, {(isCut ? "cut" : "kill")}; {plan}", part.Replay(seed, options));
        }
    }

    private static SimServices Use(SimDisk disk)
    {
        SimServices os = new(disk, "boot", hasFence: false);
        CurrentPlatform.Services = os;
        return os;
    }
}

/// <summary>A moment: the disk, and how many lines were on the medium, with the system, and handed over.</summary>
internal sealed record AppendPicture(DiskPicture Disk, string Where, int Durable, int Written, int Begun);
