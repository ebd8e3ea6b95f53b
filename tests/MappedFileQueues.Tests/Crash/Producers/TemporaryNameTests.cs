using System.Globalization;

namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>docs/DESIGN.md sections 2 and 8: the file that is to become a segment, when its maker dies.</summary>
[Trait("Category", "Slow")]
public sealed class TemporaryNameTests
{
    private const int Segment = 65536;

    /// <summary>With its header, and with the checksum's words, such a message divides a segment.</summary>
    private const int MessageLength = 1016;

    private const int PerSegment = Segment / 1024;

    /// <summary>
    /// A standby was attached. The Exclusive producer was killed at the end of a segment. The next one was killed when it had
    /// given a spare the temporary name of the segment after it. The standby used the same name, opened the dead one's file
    /// instead of creating its own, and made it a segment: with its old bytes, unmarked and not zeroed. Five acknowledged
    /// messages were lost.
    /// </summary>
    [Fact]
    public void OpenProducer_AnotherDiedWithASpare_ItsFileIsNotTaken()
    {
        using var store = new CrashStore(Segment, ProducerMode.Exclusive);
        using MappedFileQueue standby = store.Open();
        using (PeerAgent first = PeerAgent.Start())
        {
            first.Ask("still");
            first.Ask(store.OpenCommand);
            first.Ask(string.Create(CultureInfo.InvariantCulture, $"retain bytes={4 * Segment}"));
            first.Ask(string.Create(CultureInfo.InvariantCulture,
                $"pour prefix=c count={12 * PerSegment} size={MessageLength}"));
            standby.Trim(8L * Segment);
            first.Kill();
        }

        Assert.Equal(12L * Segment, standby.GetInfo().TailOffset);
        Assert.Contains(Files(store), name => name.EndsWith(".spare", StringComparison.Ordinal));
        using (PeerAgent second = PeerAgent.Start())
        {
            second.Ask("still");
            second.Ask(store.OpenCommand);
            second.Trap("SpareTaken", 1);
            second.Send("producer");
            second.ExpectKilled();
        }

        Assert.Contains(Files(store), name => name.EndsWith(".tmp", StringComparison.Ordinal));
        string[] added = ["new-0", "new-1", "new-2", "new-3", "new-4"];
        CrashStore.Append(standby, added);

        List<string> all = CrashStore.ReadAll(standby, "all");
        Assert.Equal(added, all.TakeLast(added.Length));
        int kept = all.Count - added.Length;
        Assert.Equal(Enumerable.Range((12 * PerSegment) - kept, kept).Select(i => $"c-{i}"), all.Take(kept));
        standby.Dispose();
        store.ExpectHealthy(all);
    }

    private static IEnumerable<string> Files(CrashStore store) =>
        Directory.GetFiles(Path.Combine(store.Path, "commitlog")).Select(path => Path.GetFileName(path));
}
