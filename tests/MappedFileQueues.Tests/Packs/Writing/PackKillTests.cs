using System.Globalization;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Tests.Packs.Writing;

/// <summary>
/// A writer of two lanes is killed at a step of its protocol, or at any moment, again and again on the same pack, while a
/// reader in this process follows it. Afterwards each lane's keys hold what its acknowledged operations made, and at most the
/// one that was under way.
/// </summary>
[Trait("Category", "Slow")]
public sealed class PackKillTests : IDisposable
{
    private const int LaneCount = 2;

    private readonly TempStore _temp = new();
    private readonly int[] _firsts = new int[LaneCount];
    private bool _isCache;

    public static TheoryData<string> StepsOfCache =>
    [
        "PackVolumeWritten", "PackVolumeRenamed", "PackEvictionMade", "PackCheckpointWritten", "PackCheckpointRenamed",
        "PackEntriesEvicted", "PackVolumeDeleted", "PackApplied",
    ];

    public static TheoryData<string> Steps =>
    [
        "PackHeaderWritten", "PackNeedleWritten", "PackApplied", "PackSynced", "PackOldVolumeSynced", "PackVolumeWritten",
        "PackVolumeRenamed", "PackCheckpointWritten", "PackCheckpointRenamed", "PackCompactionCopied", "PackCompactionRenamed",
        "PackEntriesMoved", "PackVolumeDeleted",
    ];

    public void Dispose() => _temp.Dispose();

    [Theory]
    [MemberData(nameof(Steps))]
    public void KilledAtStep_OnePackAgainAndAgain_LosesNothing(string step)
    {
        foreach (int hit in (int[])[1, 4])
        {
            using ChildProcess child = Start($"step={step}", $"hit={hit}");
            child.ExpectExit(ChildProcess.ExitCodeKilled, TimeSpan.FromMinutes(2));
            Check(child);
        }
    }

    /// <summary>
    /// A cache may lack what was put long ago. It never has another value than the newest, and never again what was deleted, even
    /// where the delete found that the object was evicted already.
    /// </summary>
    [Theory]
    [MemberData(nameof(StepsOfCache))]
    public void KilledAtStep_OneCacheAgainAndAgain_BringsNothingBack(string step)
    {
        _isCache = true;
        foreach (int hit in (int[])[1, 3, 7])
        {
            using ChildProcess child = Start("max=400000", $"step={step}", $"hit={hit}");
            child.ExpectExit(ChildProcess.ExitCodeKilled, TimeSpan.FromMinutes(2));
            Check(child);
        }
    }

    [Fact]
    public void KilledAtAnyMoment_OnePackAgainAndAgain_LosesNothing()
    {
        int seed = Environment.TickCount;
        TestContext.Current.TestOutputHelper?.WriteLine($"seed {seed}");
        var random = new Random(seed);
        PackReader? reader = null;
        for (int kill = 0; kill < 6; kill++)
        {
            using ChildProcess child = Start();
            child.WaitForLine("ready");
            reader ??= PackStore.OpenReader(_temp.StorePath);
            string killedAt = $"done 0 {_firsts[0] + random.Next(1, 400)}";
            child.WaitForLine(line => line == killedAt, TimeSpan.FromMinutes(5));
            CheckFollower(reader, child);
            child.KillAndWait();
            Check(child);
        }

        Assert.NotNull(reader);
        using (reader)
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Assert.Equal(
                pack.Enumerate().Select(entry => entry.Key).Order(), reader.Enumerate().Select(entry => entry.Key).Order());
            Assert.Empty(reader.Damages);
        }
    }

    /// <summary>Replays a lane's operations up to one of them.</summary>
    private static Dictionary<string, byte[]?> Model(int lane, int operations)
    {
        Dictionary<string, byte[]?> model = new(StringComparer.Ordinal);
        for (int operation = 0; operation < operations; operation++)
            model[PackStorm.Key(lane, operation)] = PackStorm.Data(lane, operation);
        return model;
    }

    private static bool AreEqual(byte[]? one, byte[]? other) =>
        one is null || other is null ? one is null && other is null : one.AsSpan().SequenceEqual(other);

    private static int[] Acknowledged(ChildProcess child, int[] firsts)
    {
        int[] next = [.. firsts];
        foreach (string line in child.Lines.Where(line => line.StartsWith("done ", StringComparison.Ordinal)))
        {
            string[] parts = line.Split(' ');
            next[int.Parse(parts[1], CultureInfo.InvariantCulture)] = int.Parse(parts[2], CultureInfo.InvariantCulture) + 1;
        }

        return next;
    }

    private ChildProcess Start(params IEnumerable<string> trap) => ChildProcess.StartPeer(
        ["pack-write", _temp.StorePath, .. _firsts.Select(first => first.ToString(CultureInfo.InvariantCulture)), .. trap]);

    /// <summary>
    /// A reader knows what is acknowledged; a key may have moved on since, by as much as the child has said meanwhile and what
    /// is still in the pipe. It was a fixed 5,000 operations, and one lane of a child was 260,000 ahead of the one waited for.
    /// </summary>
    private void CheckFollower(PackReader reader, ChildProcess child)
    {
        int[] acknowledged = Acknowledged(child, _firsts);
        for (int lane = 0; lane < LaneCount; lane++)
        {
            int operation = acknowledged[lane] - 1;
            string key = PackStorm.Key(lane, operation);
            byte[]? got = reader.Get(key);
            int atMost = Acknowledged(child, _firsts)[lane] - operation + 20_000;
            bool isOneOfTheLater = Enumerable.Range(operation, atMost)
                .Where(later => PackStorm.Key(lane, later) == key)
                .Any(later => AreEqual(PackStorm.Data(lane, later), got));
            Assert.True(isOneOfTheLater, $"The reader is behind: key={key}, operation={operation}, length={got?.Length}");
        }
    }

    private void Check(ChildProcess child)
    {
        int[] acknowledged = Acknowledged(child, _firsts);
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Assert.Empty(pack.Damages);
            Assert.Empty(pack.Verify().Damages);
            for (int lane = 0; lane < LaneCount; lane++)
                CheckLane(pack, lane, acknowledged[lane]);
            Assert.Empty(Directory.GetFiles(_temp.StorePath, "*.tmp", SearchOption.AllDirectories));
        }

        // The index that the volumes alone give is the same.
        File.Delete(_temp.PathOf("index.checkpoint"));
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Assert.Empty(pack.Damages);
            for (int lane = 0; lane < LaneCount; lane++)
                CheckLane(pack, lane, _firsts[lane]);
        }
    }

    /// <summary>The operation under way counts or does not; from here on it is known which.</summary>
    private void CheckLane(PackStore pack, int lane, int acknowledged)
    {
        Dictionary<string, byte[]?> model = Model(lane, acknowledged);
        string key = PackStorm.Key(lane, acknowledged);
        bool isNextThere = AreEqual(pack.Get(key), PackStorm.Data(lane, acknowledged))
            && !AreEqual(model.GetValueOrDefault(key), PackStorm.Data(lane, acknowledged));
        if (isNextThere)
            model[key] = PackStorm.Data(lane, acknowledged);
        _firsts[lane] = acknowledged + (isNextThere ? 1 : 0);
        for (int number = 0; number < PackStorm.KeyCount; number++)
        {
            string each = PackStorm.KeyOf(lane, number);
            byte[]? expected = model.GetValueOrDefault(each);
            byte[]? got = pack.Get(each);
            Assert.True(
                AreEqual(expected, got) || (_isCache && got is null),
                $"key={each}, acknowledged={acknowledged}, expected={expected?.Length}, got={got?.Length}");
        }
    }
}
