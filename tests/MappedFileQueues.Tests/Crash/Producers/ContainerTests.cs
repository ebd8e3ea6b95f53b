using System.Diagnostics;
using System.Text.Json;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>
/// Processes in namespaces of their own, as in two containers of one machine: what is told of a process comes from locks of the
/// kernel, and its id, which somebody else may have here, counts for nothing.
/// </summary>
[Trait("Category", "Slow")]
public sealed class ContainerTests
{
    /// <summary>What LXD and systemd-nspawn do.</summary>
    private const string OtherBootId = "cat /proc/sys/kernel/random/uuid > /dev/shm/$$"
        + " && mount --bind /dev/shm/$$ /proc/sys/kernel/random/boot_id && rm /dev/shm/$$";

    /// <summary>What systemd does for ProcSubset=pid.</summary>
    private const string HiddenBootId = "mount -t proc -o subset=pid proc /proc";

    [Fact]
    public void Produce_KilledInAnotherNamespace_ItsClaimIsGivenUpAndItsMessagesStay()
    {
        SkipWithoutNamespaces();
        using var store = new CrashStore();
        using MappedFileQueue here = store.Open();
        using (PeerAgent there = PeerAgent.StartInNamespaces())
        {
            there.Ask($"open path={store.Path}");
            there.Ask("append prefix=there size=64 count=1");
            there.Trap("Claimed", hit: 1);
            there.Send("append prefix=never size=64 count=1");
            there.ExpectKilled();
        }

        CrashStore.Append(here, "here");

        Assert.Equal(["there-0", "here"], CrashStore.ReadAll(here, "reader"));
        Assert.Equal(1, here.GetInfo().RepairCount);
    }

    [Fact]
    public void OpenConsumer_HeldInAnotherNamespace_IsRefusedUntilThatOneIsKilled()
    {
        SkipWithoutNamespaces();
        using var store = new CrashStore();
        using MappedFileQueue here = store.Open();
        CrashStore.Append(here, "first", "second");
        using (PeerAgent there = PeerAgent.StartInNamespaces())
        {
            there.Ask($"open path={store.Path}");
            Assert.Equal("first", there.Ask("consume count=1"));
            Assert.NotEmpty(Assert.Throws<QueueInUseException>(() => here.OpenConsumer("")).HolderProcessIds);
            // A third container sees that the name is taken, and not by whom.
            JsonElement info = JsonElement.Parse(ToolRun.Start(
                new ProcessStartInfo(
                    "unshare",
                    [
                        .. PeerAgent.Namespaces, "dotnet", "exec", Repository.ToolPath, "info", store.Path, "--output", "json",
                    ]),
                []).Expect(0).Text);
            Assert.True(info.GetProperty("consumers")[0].GetProperty("isAttached").GetBoolean());
            Assert.Equal(0, info.GetProperty("attachedProcesses").GetArrayLength());
            there.Kill();
        }

        using MappedFileConsumer mine = here.OpenConsumer("");
        Assert.Equal("second", CrashMessage.Read(mine.Consume()));
    }

    /// <summary>
    /// LXD and systemd-nspawn give each container a boot id of its own, and a unit with ProcSubset=pid sees none. A queue that
    /// was opened there beside a living process of the host waited for 30 s, then said that the control page was damaged.
    /// </summary>
    [Theory]
    [InlineData(OtherBootId)]
    [InlineData(HiddenBootId)]
    public void Open_ContainerWithABootIdOfItsOwn_JoinsTheLivingAtOnce(string prepare)
    {
        SkipWithoutNamespaces();
        using var store = new CrashStore();
        using MappedFileQueue here = store.Open();
        CrashStore.Append(here, "here");
        using PeerAgent there = PeerAgent.StartInNamespaces(prepare);
        var watch = Stopwatch.StartNew();

        there.Ask($"open path={store.Path}");

        Assert.InRange(watch.Elapsed, TimeSpan.Zero, TimeSpan.FromSeconds(25));
        Assert.Equal("here", there.Ask("consume count=1"));
        there.Ask("append prefix=there size=64 count=1");
        Assert.Equal(["here", "there-0"], CrashStore.ReadAll(here, "reader"));
    }

    /// <summary>
    /// After a kill of everybody the next opener saw another boot id than the last one, took the kill for a power loss, and moved
    /// what was published after a dead producer's claim to `salvage/`.
    /// </summary>
    [Theory]
    [InlineData(OtherBootId)]
    [InlineData(HiddenBootId)]
    public void Open_AloneAfterAKillWithAnotherBootId_KeepsWhatFollowsADeadClaim(string prepare)
    {
        SkipWithoutNamespaces();
        SkipWithoutMemoryId();
        using var store = new CrashStore();
        using (PeerAgent holder = PeerAgent.StartInNamespaces(OtherBootId))
        using (PeerAgent other = PeerAgent.StartInNamespaces(prepare))
        {
            holder.Ask($"open path={store.Path}");
            other.Ask($"open path={store.Path}");
            other.Ask("append prefix=before size=64 count=1");
            other.Trap("Claimed", hit: 1);
            other.Send("append prefix=never size=64 count=1");
            other.ExpectKilled();
            holder.Ask("append prefix=after size=64 count=5");
            holder.Kill();
        }

        using (PeerAgent next = PeerAgent.StartInNamespaces(prepare))
            next.Ask($"open path={store.Path}");

        using MappedFileQueue here = store.Open();
        Assert.Equal(["before-0", .. Enumerable.Range(0, 5).Select(i => $"after-{i}")], CrashStore.ReadAll(here, "reader"));
        Assert.Equal(0, here.GetInfo().Epoch);
        Assert.False(Directory.Exists(Path.Combine(store.Path, "salvage")));
    }

    /// <summary>A reader that leaves no trace believed the checkpoint alone there, and waited at a dead claim for ever.</summary>
    [Fact]
    public void Read_ContainerWithABootIdOfItsOwn_StepsOverADeadClaim()
    {
        SkipWithoutNamespaces();
        SkipWithoutMemoryId();
        using var store = new CrashStore();
        using MappedFileQueue here = store.Open();
        using (PeerAgent dying = store.StartAttached())
        {
            dying.Trap("Claimed", hit: 1);
            dying.Send("append prefix=never size=64 count=1");
            dying.ExpectKilled();
        }

        CrashStore.Append(here, "after");
        using PeerAgent there = PeerAgent.StartInNamespaces(OtherBootId);
        Assert.Equal("after", there.Ask($"read path={store.Path}"));
    }

    /// <summary>
    /// The clock of delays is that of the machine. In a container with a time namespace of its own (runc, LXC, CRIU) it was the
    /// container's: a message that was given back there for an hour came back here at once, or after days.
    /// </summary>
    [Fact]
    public void Reject_InAnotherTimeNamespace_TheDelayIsTheSameEverywhere()
    {
        SkipWithoutNamespaces();
        Assert.SkipUnless(File.Exists("/proc/self/timens_offsets"), "Linux has time namespaces since 5.6.");
        using var store = new CrashStore();
        using MappedFileQueue here = store.Open();
        CrashStore.Append(here, "first");
        using var there = PeerAgent.StartUnder("unshare", "--time", "--monotonic", "864000", "--fork", "--kill-child");
        there.Ask($"open path={store.Path}");
        there.Ask("member");
        there.Ask("take");

        there.Ask("reject text=first delay=3600000");

        TimeSpan left = Assert.Single(here.GetInfo().Groups).NextDue!.Value - DateTimeOffset.UtcNow;
        Assert.InRange(left, TimeSpan.FromMinutes(50), TimeSpan.FromMinutes(61));
    }

    private static void SkipWithoutMemoryId() =>
        Assert.SkipUnless(CurrentPlatform.Services.MemoryId != 0, "Linux tells the id of its memory since 5.17.");

    private static void SkipWithoutNamespaces() => Assert.SkipUnless(
        OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess && File.Exists("/usr/bin/unshare"),
        "Namespaces need root on Linux.");
}
