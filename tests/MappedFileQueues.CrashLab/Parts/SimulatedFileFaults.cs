using System.Buffers;
using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Files;
using MappedFileQueues.Packs;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Files;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// One seed of faults under appended files and packs, by the simulated disk: it fills, in the middle of a write too, or fails.
/// </summary>
internal sealed class SimulatedFileFaults(int seed, PartResult result)
{
    private const int LinesMax = 4_000;
    private const int ObjectsMax = 400;
    private const int BlocksMax = 60;
    private const int CutsPerFault = 4;

    private readonly Random _random = new(seed);
    private readonly Dictionary<string, byte[]> _objects = new(StringComparer.Ordinal);

    public void Run()
    {
        FillDiskUnderFile();
        FailSyncUnderFile();
        FillDiskUnderPack();
        FailSyncUnderPack();
    }

    /// <summary>The exception says how much the file holds, and the file holds just that.</summary>
    private void FillDiskUnderFile()
    {
        using SimDisk disk = new(tracksMedium: false);
        Use(disk);
        AppendFileException error;
        using (AppendFileStream stream = OpenFile((FilePreallocation)_random.Next(4)))
        {
            disk.Faults = new SimFaults { BlocksLeft = _random.Next(1, BlocksMax) };
            error = AppendUntilItFails(stream, out _);
            disk.Faults = null;
            LabViolation.Expect<AppendFileException>(() => stream.Write("more\n"u8), "a write after one that failed");
            LabViolation.Expect<AppendFileException>(stream.Dispose, "the end of a stream that lost something");
        }

        ReadOnlySpan<byte> content = disk.Find(AppendOracle.Name)!.Content;
        if (error.Errno != DiskErrors.ENOSPC || content.Length != error.WrittenLength)
            throw new LabViolation($"The file holds {content.Length} bytes, errno={error.Errno}: {error.Message}");
        ExpectLines(content, "a full disk");
        using (AppendFileStream again = OpenFile(FilePreallocation.None))
            again.Write("and on\n"u8);
        if (!disk.Find(AppendOracle.Name)!.Content.EndsWith("and on\n"u8))
            throw new LabViolation("What was appended when there was room again is not at the end");
        result.Add("full disks");
    }

    /// <summary>
    /// After a sync that failed nothing counts as flushed that was not before, and a cut takes nothing of that.
    /// </summary>
    private void FailSyncUnderFile()
    {
        using SimDisk disk = new(tracksMedium: true);
        Use(disk);
        AppendFileException error;
        using (AppendFileStream stream = OpenFile((FilePreallocation)_random.Next(4)))
        {
            for (int line = 0; line < 20; line++)
                stream.Write(LineMaker.Line(0, line));
            stream.Flush(durable: true);
            int left = _random.Next(1, 4);
            disk.Faults = new SimFaults { FailsSync = _ => --left <= 0 };
            error = AppendUntilItFails(stream, out long flushed);
            disk.Faults = null;
            if (error.FlushedLength != flushed)
                throw new LabViolation($"{flushed} bytes were flushed by calls that returned: {error.Message}");
            LabViolation.Expect<AppendFileException>(() => stream.Flush(durable: true), "a flush after one that failed");
            LabViolation.Expect<AppendFileException>(stream.Dispose, "the end of a stream that lost something");
        }

        DiskPicture picture = new(disk);
        for (int i = 0; i < CutsPerFault; i++)
        {
            using SimDisk image = CutImage.OfCut(picture, _random, tracksMedium: false);
            ReadOnlySpan<byte> content = image.Find(AppendOracle.Name)!.Content;
            if (content.Length < error.FlushedLength)
                throw new LabViolation($"{content.Length} bytes are left of {error.FlushedLength} that were flushed");
            ExpectLines(content[..(int)error.FlushedLength], "a cut after a failed sync");
            result.Add("images");
        }

        result.Add("sync errors");
    }

    /// <summary>The put that failed is not there, all others are, and puts continue when there is room again.</summary>
    private void FillDiskUnderPack()
    {
        using SimDisk disk = new(tracksMedium: false);
        Use(disk);
        _objects.Clear();
        using (PackStore pack = PackStore.Open(SimDisk.Root, PackOptions()))
        {
            disk.Faults = new SimFaults { BlocksLeft = _random.Next(BlocksMax) };
            LabViolation.Expect<QueueDiskException>(() => Put(pack, ObjectsMax, PackDurability.PageCache), "puts on a full disk");
            ExpectObjects(pack);
            disk.Faults = null;
            Put(pack, 10, PackDurability.Group);
            ExpectObjects(pack);
        }

        using PackStore again = PackStore.Open(SimDisk.Root, PackOptions());
        ExpectObjects(again);
        if (!again.Verify().IsWhole)
            throw new LabViolation("A pack on a disk that was full is not whole");
        result.Add("full disks");
    }

    /// <summary>Who waited for the sync hears of it, so does everybody afterwards; what was durable before stays.</summary>
    private void FailSyncUnderPack()
    {
        using SimDisk disk = new(tracksMedium: true);
        Use(disk);
        _objects.Clear();
        Dictionary<string, byte[]> durable;
        using (PackStore pack = PackStore.Open(SimDisk.Root, PackOptions()))
        {
            Put(pack, _random.Next(1, 30), PackDurability.PageCache);
            pack.Flush();
            durable = new Dictionary<string, byte[]>(_objects, StringComparer.Ordinal);
            disk.Faults = new SimFaults { FailsSync = _ => true };
            LabViolation.Expect<QueueDiskException>(() => pack.Put("lost", [1], PackDurability.Group), "a put whose sync failed");
            disk.Faults = null;
            LabViolation.Expect<PackPoisonedException>(() => pack.Put("later", [1]), "a put after a sync that failed");
            LabViolation.Expect<PackPoisonedException>(pack.Flush, "a flush after one that failed");
        }

        DiskPicture picture = new(disk);
        for (int i = 0; i < CutsPerFault; i++)
        {
            using SimDisk image = CutImage.OfCut(picture, _random, tracksMedium: false);
            Use(image);
            using PackStore pack = PackStore.Open(SimDisk.Root, PackOptions());
            foreach ((string key, byte[] data) in durable)
                ExpectObject(pack, key, data);
            result.Add("images");
        }

        result.Add("sync errors");
    }

    private static void Use(SimDisk disk)
    {
        LabThread.Background.Clear();
        CurrentPlatform.Services = new SimServices(disk, "boot", hasFence: false);
    }

    private PackOptions PackOptions() => new() { VolumeSize = _random.Next(2) == 0 ? 8192 : 64 * 1024 };

    private AppendFileStream OpenFile(FilePreallocation preallocation) => new(AppendOracle.FilePath, new AppendFileOptions
    {
        BufferLength = 8192,
        Durability = AppendDurability.Interval,
        FlushInterval = Timeout.InfiniteTimeSpan,
        Preallocation = preallocation,
        Content = FileContent.Text,
        PreallocationLength = _random.Next(1, 30_000),
    });

    /// <summary>
    /// Lines and flushes until one of them fails; <paramref name="flushed"/>: the bytes flushed by those that returned.
    /// </summary>
    private AppendFileException AppendUntilItFails(AppendFileStream stream, out long flushed)
    {
        flushed = stream.AcceptedLength;
        try
        {
            long written = stream.AcceptedLength;
            int first = LinesIn(written);
            for (int line = first; line < LinesMax; line++)
            {
                byte[] bytes = LineMaker.Line(0, line);
                stream.Write(bytes);
                written += bytes.Length;
                if (_random.Next(20) != 0)
                    continue;
                stream.Flush(durable: true);
                flushed = written;
            }
        }
        catch (AppendFileException error)
        {
            return error;
        }

        throw new LabViolation("The disk was full, or failed, and no write and no flush says so");
    }

    private static int LinesIn(long length)
    {
        int count = 0;
        for (long left = length; left > 0; count++)
            left -= LineMaker.Line(0, count).Length;
        return count;
    }

    private static void ExpectLines(ReadOnlySpan<byte> content, string after)
    {
        int at = 0;
        for (int line = 0; at < content.Length; line++)
        {
            ReadOnlySpan<byte> expected = LineMaker.Line(0, line);
            ReadOnlySpan<byte> rest = content[at..Math.Min(content.Length, at + expected.Length)];
            if (!expected.StartsWith(rest))
                throw new LabViolation($"A wrong byte in line {line}, near {at} of {content.Length}, after {after}");
            at += rest.Length;
        }
    }

    private void Put(PackStore pack, int count, PackDurability durability)
    {
        for (int i = 0; i < count; i++)
        {
            string key = $"key {_random.Next(50)}";
            byte[] data = new byte[_random.Next(_random.Next(8) == 0 ? 9000 : 600)];
            _random.NextBytes(data);
            pack.Put(key, data, durability);
            _objects[key] = data;
        }
    }

    private void ExpectObjects(PackStore pack)
    {
        foreach ((string key, byte[] data) in _objects)
            ExpectObject(pack, key, data);
        if (pack.Count != _objects.Count)
            throw new LabViolation($"{pack.Count} objects instead of {_objects.Count}");
    }

    private static void ExpectObject(PackStore pack, string key, byte[] data)
    {
        var got = new ArrayBufferWriter<byte>();
        if (!pack.TryGet(key, got) || !got.WrittenSpan.SequenceEqual(data))
            throw new LabViolation($"Wrong: key={key}, expected={data.Length} bytes, got={got.WrittenCount}");
    }
}
