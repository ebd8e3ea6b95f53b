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

            HashSet<string> ended = [];
            Eventually.True(() => IsAllDone(queue), "everything that was appended is done");
            foreach (string text in all.SelectMany(agent => agent.After("ended")))
                Assert.True(ended.Add(text), $"{text} was ended twice");
            // Of the last call of one that was killed nobody knows whether it was made; it was, or another one has ended them.
            HashSet<string> begun = [.. all.SelectMany(agent => agent.After("ending"))];
            Assert.All(Enumerable.Range(0, count), i => Assert.Contains($"m-{i}", begun));
            Assert.InRange(count - ended.Count, 0, Kills * 20);
        }
        finally
        {
            foreach (PeerAgent agent in all)
                agent.Dispose();
        }
    }

    private static bool IsAllDone(MappedFileQueue queue)
    {
        MappedFileQueueInfo info = queue.GetInfo();
        return info.Groups[0].FloorOffset == info.PublishedOffset;
    }

    private static PeerAgent Start(CrashStore store, List<PeerAgent> all)
    {
        PeerAgent agent = store.StartAttached();
        all.Add(agent);
        agent.Ask("member");
        agent.Send(string.Create(CultureInfo.InvariantCulture, $"work seed={all.Count}"));
        return agent;
    }
}
