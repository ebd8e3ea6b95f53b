using System.Globalization;

namespace MappedFileQueues.Tests.Crash.Groups;

/// <summary>
/// Members in processes of their own that are killed and stopped at any moment, and replaced. In the end each message was
/// acknowledged by one of them: none is lost, and none came again after it was acknowledged.
/// </summary>
[Trait("Category", "Slow")]
public sealed class GroupStormTests
{
    private const int Processes = 3;
    private const int Kills = 12;
    private const int BatchesPerKill = 400;

    [Fact]
    public void Members_KilledAndStoppedAtAnyMoment_EachMessageIsEndedOnce()
    {
        using var store = new CrashStore(segmentSize: 64 * 1024);
        using MappedFileQueue queue = store.Open();
        var random = new Random(1);
        List<PeerAgent> all = [];
        try
        {
            List<PeerAgent> living = [];
            int count = 0;
            for (int kill = 0; kill < Kills; kill++)
            {
                while (living.Count < Processes)
                    living.Add(Start(store, all));
                CrashStore.Append(queue, Enumerable.Range(count, BatchesPerKill).Select(i => $"m-{i}"));
                count += BatchesPerKill;
                PeerAgent victim = living[random.Next(living.Count)];
                int before = victim.After("ended").Count;
                Eventually.Wait(() => victim.After("ended").Count > before + random.Next(50), TimeSpan.FromSeconds(3));
                victim.Stop();
                // The others work while it stands.
                if (random.Next(2) == 0)
                    Thread.Sleep(random.Next(150));
                victim.Kill();
                living.Remove(victim);
            }

            Eventually.True(() => IsAllDone(queue.GetInfo()), "everything that was appended is done");
            // The store says that before the last lines have come through the pipes: the end of a process ends its pipe.
            living.ForEach(agent => agent.Kill());
            HashSet<string> ended = [];
            foreach (string text in all.SelectMany(agent => agent.After("ended")))
                Assert.True(ended.Add(text), $"{text} was ended twice");
            // Of the last call of one that was killed nobody knows whether it was made; it was, or another one has ended them.
            HashSet<string> begun = [.. all.SelectMany(agent => agent.After("ending"))];
            Assert.All(Enumerable.Range(0, count), i => Assert.Contains($"m-{i}", begun));
            Assert.InRange(count - ended.Count, 0, all.Count * 20);
        }
        finally
        {
            foreach (PeerAgent agent in all)
                agent.Dispose();
        }
    }

    /// <summary>
    /// A million messages, eight members, 300 kills. A message comes again for each rejection and each death of one who had it,
    /// and not otherwise; it is acknowledged once, or its holder died within the call.
    /// </summary>
    [Fact]
    [Trait("Category", "Laboratory")]
    public void Members_OfAMillionMessagesAndManyDeaths_EndEachOnce()
    {
        const int messages = 1_000_000;
        const int kills = 300;
        const int members = 8;
        using var folder = new TempStore(createStoreFolder: true);
        string store = folder.PathOf("jobs");
        string path = folder.PathOf("record");
        using var record = new WorkRecord(path, messages, members + kills);
        using var queue = new MappedFileQueue<long>(new MappedFileQueueOptions { StorePath = store, SegmentSize = 1 << 20 });
        var random = new Random(1);
        List<(ChildProcess Process, int Number)> living = [];
        int started = 0;
        int stopped = 0;
        try
        {
            long next = 0;
            for (int kill = 0; kill <= kills; kill++)
            {
                while (living.Count < members)
                {
                    string[] numbers =
                        [.. new[] { messages, members + kills, started }.Select(n => n.ToString(CultureInfo.InvariantCulture))];
                    living.Add((ChildProcess.StartPeer(["group-work", store, path, .. numbers]), started++));
                }

                for (long end = messages * (kill + 1L) / (kills + 1); next < end; next++)
                    queue.Producer.Produce(next);
                if (kill == kills)
                    break;
                // Two members go on in any case; one that starts is killed now and then too.
                Eventually.True(
                    () => living.Count(one => one.Process.Lines.Count > 0) > 2, "members work", TimeSpan.FromMinutes(1));
                (ChildProcess Process, int Number)[] working = [.. living.Where(one => one.Process.Lines.Count > 0)];
                (ChildProcess Process, int Number) victim = random.Next(10) == 0
                    ? living[random.Next(living.Count)]
                    : working[random.Next(working.Length)];
                Thread.SpinWait(random.Next(100_000));
                if (random.Next(10) == 0)
                {
                    stopped++;
                    victim.Process.Stop();
                    Thread.Sleep(random.Next(50));
                }

                victim.Process.KillAndWait();
                Assert.Equal("", victim.Process.ErrorText);
                foreach (int message in record.HeldBy(victim.Number))
                    record.Deaths(message)++;
                living.Remove(victim);
                victim.Process.Dispose();
            }

            Eventually.True(() => IsAllDone(queue.GetInfo()), "everything that was appended is done", TimeSpan.FromMinutes(2));
        }
        finally
        {
            living.ForEach(one => one.Process.Dispose());
        }

        int again = 0;
        int died = 0;
        for (int i = 0; i < messages; i++)
        {
            Assert.True(record.Ended(i) == 1 || (record.Ended(i) == 0 && record.Ending(i) > 0 && record.Deaths(i) > 0),
                $"{i}: ended={record.Ended(i)}, ending={record.Ending(i)}, deaths={record.Deaths(i)}");
            Assert.InRange(record.Handed(i), 1, 1 + record.Rejected(i) + record.Deaths(i));
            again += record.Handed(i) - 1;
            died += record.Deaths(i);
        }

        TestContext.Current.TestOutputHelper?.WriteLine($"came again={again}, in hand at deaths={died}, stopped={stopped}");
        Assert.True(died > kills, $"Too few messages were in hand when members died: {died}.");
    }

    private static bool IsAllDone(MappedFileQueueInfo info) => info.Groups[0].FloorOffset == info.PublishedOffset;

    private static PeerAgent Start(CrashStore store, List<PeerAgent> all)
    {
        PeerAgent agent = store.StartAttached();
        all.Add(agent);
        agent.Ask("member");
        agent.Send(string.Create(CultureInfo.InvariantCulture, $"work seed={all.Count}"));
        return agent;
    }
}
