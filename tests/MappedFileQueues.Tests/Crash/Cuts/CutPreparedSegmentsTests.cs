using System.Globalization;

namespace MappedFileQueues.Tests.Crash.Cuts;

/// <summary>
/// Segments after the tail after a power loss. The story: those that were only made ahead, and held nothing but zeros, went into
/// `salvage/` with the others; a store that was cut often collected them there for good, whole segments of nothing.
/// </summary>
[Trait("Category", "Slow")]
public sealed class CutPreparedSegmentsTests
{
    private const int Segment = 1 << 20;

    [Fact]
    public void Recover_LaterSegmentsOfZeros_AreDeletedAndOthersSetAside()
    {
        using CutStore cut = CutStore.Make(Segment, count: 20);
        string logs = Path.Combine(cut.Store.Path, "commitlog");
        byte[] last = new byte[Segment];
        last[^1] = 7;
        for (int i = 1; i <= 3; i++)
            File.WriteAllBytes(NameOf(logs, i), i == 3 ? last : new byte[Segment]);
        // A short one, as a copy that ended early leaves it.
        File.WriteAllBytes(NameOf(logs, 4), new byte[5000]);

        cut.Recover();

        Assert.Equal([NameOf(logs, 0)], Directory.GetFiles(logs));
        Assert.Equal(last, cut.Salvaged());
        Assert.Single(Directory.GetFiles(Path.Combine(cut.Store.Path, "salvage")));
        Assert.Equal(cut.Texts, cut.Store.Peek());
    }

    private static string NameOf(string folder, int index) =>
        Path.Combine(folder, ((long)index * Segment).ToString("D20", CultureInfo.InvariantCulture) + ".log");
}
