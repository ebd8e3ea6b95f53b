using System.Buffers;
using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// One seed of the pack part: rounds of puts, deletes, compactions and reopenings on one disk, pictures at random points of
/// it, images of each picture. An image holds a beginning of the operations: all that were acknowledged as durable (after a
/// kill: all that had returned), and none without those before it.
/// </summary>
internal sealed class PackRun(int seed, PartResult result)
{
    private const int PicturesPerRound = 6;
    private const int CutsPerPicture = 8;
    private const int OperationsMax = 120;
    private const int KeyCount = 12;
    private const string LaterBoot = "5f0b8f5e-0000-4000-8000-ffffffffffff";

    private readonly Random _random = new(seed);
    private readonly List<Picture> _pictures = [];

    /// <summary>What was put and deleted (null), in order; number i has the sequence i + 1.</summary>
    private readonly List<(string Key, byte[]? Data)> _operations = [];

    /// <summary>
    /// For each key the last operation that an eviction has taken away: it and those before it never come back.
    /// </summary>
    private readonly Dictionary<string, int> _evicted = new(StringComparer.Ordinal);

    private bool _isCache;
    private SimDisk _disk = new(tracksMedium: true);
    private Random _pointRandom = new(0);
    private int _candidates;
    private int _round;
    private int _returned;
    private int _durable;
    private bool _wasOpen;

    /// <summary>A moment: the disk, how many operations had begun, returned, were durable, if the pack had been open.</summary>
    private sealed record Picture(
        DiskPicture Disk, int Begun, int Returned, int Durable, bool WasOpen, string Where, Dictionary<string, int> Evicted);

    /// <summary>Each round begins after a power loss.</summary>
    private string Boot => $"5f0b8f5e-0000-4000-8000-{_round:x12}";

    public void Run()
    {
        PackOptions options = new()
        {
            VolumeSize = _random.Next(3) switch { 0 => 4096, 1 => 10_000, _ => 64 * 1024 },
            CheckpointInterval = _random.Next(2) == 0 ? 3000 : 1 << 30,
            CompactAtGarbage = _random.Next(3) == 0 ? 0.01 + (_random.NextDouble() * 0.9) : null,
        };
        _isCache = _random.Next(3) == 0;
        if (_isCache)
        {
            options.VolumeSize = 4096;
            options.MaxBytes = options.VolumeSize * _random.Next(2, 6);
        }

        int rounds = _random.Next(1, 4);
        for (_round = 0; _round < rounds; _round++)
        {
            _pictures.Clear();
            _candidates = 0;
            _pointRandom = new Random(_random.Next());
            Work(options);
            foreach (Picture picture in _pictures)
                CheckPicture(picture, options);
            if (_round < rounds - 1)
                StartNextRound(options);
        }

        _disk.Dispose();
    }

    private void Work(PackOptions options)
    {
        CurrentPlatform.Services = new SimServices(_disk, Boot, hasFence: false);
        LabThread.Background.Clear();
        LabThread.Point = OnPoint;
        _disk.Point = OnPoint;
        _wasOpen = _round == 0;
        PackStore pack = PackStore.Open(SimDisk.Root, options);
        _wasOpen = true;
        int count = _random.Next(10, OperationsMax);
        for (int i = 0; i < count; i++)
        {
            int kind = _random.Next(40);
            if (kind < 4)
                pack.Compact(_random.NextDouble());
            else if (kind == 4)
                Reopen(ref pack, options);
            else if (kind == 5)
                Flush(pack);
            else
                Change(pack, isDelete: kind < 15);
            if (_random.Next(3) == 0)
                RunBackground();
        }

        Take("the end");
        pack.Dispose();
        (_disk.Point, LabThread.Point) = (null, null);
        LabThread.Background.Clear();
    }

    private void Change(PackStore pack, bool isDelete)
    {
        string key = $"key {_random.Next(KeyCount)}";
        PackDurability durability = _random.Next(3) == 0 ? PackDurability.Group : PackDurability.PageCache;

        // The objects of a cache have to be long enough to push each other out.
        byte[]? data = isDelete ? null : new byte[_random.Next(_random.Next(8) == 0 ? 6000 : _isCache ? 1500 : 300)];
        if (data is not null)
            _random.NextBytes(data);
        bool hasEffect = data is not null || IsThere(pack, key);
        if (hasEffect)
            _operations.Add((key, data));
        bool isDone = true;
        if (data is null)
            isDone = pack.Delete(key, durability);
        else
            pack.Put(key, data, durability);
        if (_isCache && hasEffect && !isDone && data is null)
        {
            // The room for the tombstone was that of the object itself: it is evicted, and nothing was written.
            _operations.RemoveAt(_operations.Count - 1);
            if (IsThere(pack, key))
                throw new LabViolation($"Delete says False for {key}, which is still there");
            return;
        }

        if (isDone != hasEffect)
            throw new LabViolation($"Delete says {isDone} for {key}, which is {(hasEffect ? "" : "not ")}there");
        _returned = _operations.Count;
        if (durability == PackDurability.Group && hasEffect)
            _durable = _operations.Count;
    }

    /// <summary>
    /// Whether the key has an object. In a cache it may have been evicted, and whoever has seen that once never sees it again.
    /// </summary>
    private bool IsThere(PackStore pack, string key)
    {
        int last = LastOf(key, _operations.Count);
        bool isModelled = last >= 0 && _operations[last].Data is not null;
        if (!_isCache || !isModelled || pack.Contains(key))
            return isModelled;
        _evicted[key] = last;
        return false;
    }

    private void Flush(PackStore pack)
    {
        pack.Flush();
        _durable = _operations.Count;
    }

    private void Reopen(ref PackStore pack, PackOptions options)
    {
        pack.Dispose();
        _durable = _operations.Count;
        pack = PackStore.Open(SimDisk.Root, options);
    }

    private static void RunBackground()
    {
        Action[] work = [.. LabThread.Background];
        LabThread.Background.Clear();
        foreach (Action each in work)
            each();
    }

    private void OnPoint(string where)
    {
        if (_pointRandom.Next(40) == 0)
        {
            lock (_disk.Gate)
                _disk.WriteBackSome(_pointRandom);
        }

        // A name that has become durable is a moment at which what it stands for has to be so too.
        bool isNameDurable = where.StartsWith("flushed folder", StringComparison.Ordinal);
        if (_pointRandom.Next(isNameDurable ? 2 : 10) != 0)
            return;
        _candidates++;
        if (_pictures.Count < PicturesPerRound)
            Take(where);
        else if (_pointRandom.Next(_candidates) is var place && place < PicturesPerRound)
            _pictures[place] = Make(where);
    }

    private void Take(string where) => _pictures.Add(Make(where));

    private Picture Make(string where) => new(
        new DiskPicture(_disk), _operations.Count, _returned, _durable, _wasOpen, where, new Dictionary<string, int>(_evicted));

    private Dictionary<string, byte[]> Model(int count)
    {
        Dictionary<string, byte[]> model = new(StringComparer.Ordinal);
        foreach ((string key, byte[]? data) in _operations.Take(count))
        {
            if (data is null)
                model.Remove(key);
            else
                model[key] = data;
        }

        return model;
    }

    /// <summary>The number of the last operation with this key among the first ones; -1 if there is none.</summary>
    private int LastOf(string key, int count)
    {
        int last = count - 1;
        while (last >= 0 && _operations[last].Key != key)
            last--;
        return last;
    }

    private void CheckPicture(Picture picture, PackOptions options)
    {
        using (SimDisk killed = CutImage.OfKill(picture.Disk, tracksMedium: false))
            Check(killed, picture, picture.Returned, options, KilledIn(_random));

        // Until an opening has said where the needles end that a cut has torn, a flipped bit may make another end of it.
        if (picture.WasOpen && _random.Next(2) == 0)
            CheckFlipped(picture, options);
        for (int i = 0; i < CutsPerPicture; i++)
        {
            using SimDisk cut = CutImage.OfCut(picture.Disk, new Random(_random.Next()), tracksMedium: true);
            Check(cut, picture, picture.Durable, options, LaterBoot);
        }
    }

    /// <summary>After a kill the machine mostly continues; it may have been shut down in between.</summary>
    private string KilledIn(Random random) => random.Next(3) == 0 ? LaterBoot : Boot;

    /// <summary>
    /// One bit is flipped in what a kill left. Each key has its newest value, or says that it is damaged; it never has an
    /// older one,
    /// and never loses its deletion. The same after another opening, and after the pack was written to.
    /// </summary>
    private void CheckFlipped(Picture picture, PackOptions options)
    {
        using SimDisk image = CutImage.OfKill(picture.Disk, tracksMedium: false);
        string boot = KilledIn(_random);
        string flipped = Flip(image);
        if (flipped.Length == 0)
            return;
        if (_random.Next(2) == 0)
            RemoveCheckpoint(image);
        result.Add("flipped");
        CurrentPlatform.Services = new SimServices(image, boot, hasFence: false);
        try
        {
            for (int opening = 0; opening < 3; opening++)
            {
                using PackStore pack = PackStore.Open(SimDisk.Root, options);
                for (int key = 0; key < KeyCount; key++)
                    CheckFlippedKey(pack, $"key {key}", picture);
                pack.Put("another", [1]);
                if (opening == 1)
                    pack.Compact(0);
            }
        }
        catch (LabViolation violation)
        {
            throw new LabViolation($"{violation.Message}, flipped={flipped}, boot={boot}\n    at: {picture.Where}");
        }
        catch (Exception error)
        {
            throw new LabViolation($"{error}\n    flipped={flipped}, boot={boot}\n    at: {picture.Where}");
        }
        finally
        {
            LabThread.Background.Clear();
        }
    }

    private string Flip(SimDisk image)
    {
        string[] volumes = [.. image.Names.Keys.Where(name => name.EndsWith(".pack", StringComparison.Ordinal))
            .Where(name => image.Find(name)!.Length > VolumeHeader.Length).Order(StringComparer.Ordinal)];
        if (volumes.Length == 0)
            return "";

        // Mostly the last one, where an end may be torn.
        string volume = _random.Next(3) == 0 ? volumes[_random.Next(volumes.Length)] : volumes[^1];
        SimFile file = image.Find(volume)!;
        int position = _random.Next(VolumeHeader.Length, file.Length);
        file.Content[position] ^= (byte)(1 << _random.Next(8));
        return $"{volume} at {position} of {file.Length}";
    }

    private void CheckFlippedKey(PackStore pack, string key, Picture picture)
    {
        var got = new ArrayBufferWriter<byte>();
        bool isThere;
        try
        {
            isThere = pack.TryGet(key, got);
        }
        catch (PackCorruptException)
        {
            return;
        }

        bool isRight = Enumerable.Range(picture.Returned, picture.Begun - picture.Returned + 1)
            .Select(count => Model(count).GetValueOrDefault(key))
            .Any(expected => expected is null ? !isThere
                : isThere ? got.WrittenSpan.SequenceEqual(expected) : _isCache);
        if (!isRight)
            throw new LabViolation($"A flipped bit changes a value: key={key}, there={isThere}, length={got.WrittenCount}");
    }

    /// <summary>Opens the image, twice, the second time by the volumes alone; returns how many operations it holds.</summary>
    private int Check(SimDisk image, Picture picture, int atLeast, PackOptions options, string boot)
    {
        result.Add("images");
        CurrentPlatform.Services = new SimServices(image, boot, hasFence: false);
        try
        {
            // The checkpoint may be missing at any time; some mistakes only show without it.
            if (_random.Next(3) == 0)
                RemoveCheckpoint(image);
            int count = CheckContent(picture, atLeast, options);
            RemoveCheckpoint(image);
            int again = CheckContent(picture, atLeast, options);
            return again == count ? count : throw new LabViolation($"{count} operations with a checkpoint, {again} without");
        }
        catch (Exception error) when (error is not LabViolation)
        {
            throw new LabViolation($"{error}\n    at: {picture.Where}");
        }
        finally
        {
            LabThread.Background.Clear();
        }
    }

    private static void RemoveCheckpoint(SimDisk image)
    {
        lock (image.Gate)
            image.Remove("index.checkpoint");
    }

    private int CheckContent(Picture picture, int atLeast, PackOptions options)
    {
        using PackStore pack = PackStore.Open(SimDisk.Root, options);
        long count = pack.GetInfo().Sequence;
        string values = $"operations={count}, begun={picture.Begun}, atLeast={atLeast}\n    at: {picture.Where}";
        if (count < atLeast || count > picture.Begun)
            throw new LabViolation($"Operations are lost, or nobody made them: {values}");
        if (pack.Damages.Count > 0)
            throw new LabViolation($"A cut is taken for damage: {pack.Damages[0]}, {values}");
        PackInfo info = pack.GetInfo();
        if (info.Length - (info.VolumeCount * VolumeHeader.Length) > options.MaxBytes)
            throw new LabViolation($"Longer than it may be: length={info.Length}, maxBytes={options.MaxBytes}, {values}");
        if (pack.Verify() is { IsWhole: false } verification)
            throw new LabViolation($"Not whole: {verification.Damages[0]}, {values}");
        Dictionary<string, byte[]> model = Model((int)count);
        for (int key = 0; key < KeyCount; key++)
        {
            var got = new ArrayBufferWriter<byte>();
            bool isThere = pack.TryGet($"key {key}", got);
            bool isRight = model.TryGetValue($"key {key}", out byte[]? expected)
                ? isThere ? got.WrittenSpan.SequenceEqual(expected) : _isCache
                : !isThere;
            int last = LastOf($"key {key}", (int)count);
            if (isThere && picture.Evicted.TryGetValue($"key {key}", out int evicted) && last <= evicted)
                throw new LabViolation($"What was evicted is back: key={key}, put={last}, {values}");
            if (!isRight)
                throw new LabViolation($"Wrong: key={key}, expected={expected?.Length}, got={got.WrittenCount}, {values}");
        }

        return (int)count;
    }

    private void StartNextRound(PackOptions options)
    {
        Picture picture = _pictures[^1];
        int imageSeed = _random.Next();
        int count;
        using (SimDisk trial = CutImage.OfCut(picture.Disk, new Random(imageSeed), tracksMedium: false))
            count = Check(trial, picture, picture.Durable, options, LaterBoot);
        _disk.Dispose();
        _disk = CutImage.OfCut(picture.Disk, new Random(imageSeed), tracksMedium: true);
        _operations.RemoveRange(count, _operations.Count - count);
        (_returned, _durable) = (count, Math.Min(_durable, count));
        foreach (string key in _evicted.Where(each => each.Value >= count).Select(each => each.Key).ToArray())
            _evicted.Remove(key);
    }
}
