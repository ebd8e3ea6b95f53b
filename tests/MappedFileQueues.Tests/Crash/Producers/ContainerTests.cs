using System.Diagnostics;
using System.Text.Json;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>
/// Processes in namespaces of their own, as in two containers of one machine: what is told of a process comes from locks of the
/// kernel, and its id, which somebody else may have here, counts for nothing.
/// </summary>
[Collection(ProcessCollection.Name)]
[Trait("Category", "Slow")]
public sealed class ContainerTests
{
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

    private static void SkipWithoutNamespaces() => Assert.SkipUnless(
        OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess && File.Exists("/usr/bin/unshare"),
        "Namespaces need root on Linux.");
}
