using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Crash.Consumers;

/// <summary>Consumers that are deleted or reset beside other processes, and deleters that are killed between the steps.</summary>
[Trait("Category", "Slow")]
public sealed class ConsumerRemovalTests
{
    [Fact]
    public void DeleteAndReset_AnotherProcessHoldsTheName_NameItAndWorkOnceItIsKilled()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        CrashStore.Append(queue, "a", "b", "c");
        using PeerAgent holder = store.StartAttached();
        holder.Ask("consumer name=billing");
        Assert.Equal("a b", holder.Ask("consume count=2"));

        QueueInUseException refused = Assert.Throws<QueueInUseException>(() => queue.DeleteConsumer("billing"));
        Assert.Throws<QueueInUseException>(() => queue.ResetConsumer("billing", QueueStart.Earliest));
        Assert.Equal([holder.Id], refused.HolderProcessIds);
        holder.Kill();

        queue.ResetConsumer("billing", QueueStart.Earliest);
        Assert.Equal(0, Assert.Single(queue.GetInfo().Consumers).Offset);
        Assert.True(queue.DeleteConsumer("billing"));
        Assert.Empty(queue.GetInfo().Consumers);
        Assert.Equal(["a", "b", "c"], CrashStore.ReadAll(queue, "billing"));
    }

    /// <summary>Only the lock's file is left over, which the next deletion of that name takes along.</summary>
    [Theory]
    [InlineData("CursorDeleted")]
    [InlineData("CursorDeletionFlushed")]
    public void Delete_KilledAtStep_ConsumerIsGoneAndTheNextDeletionCleansUp(string step)
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        CrashStore.Append(queue, "a", "b");
        queue.OpenConsumer("billing").Dispose();
        using (PeerAgent deleter = store.StartAttached())
        {
            deleter.Trap(step, 1);
            deleter.Send("delete name=billing");
            deleter.ExpectKilled();
        }

        string lockFile = Path.Combine(store.Path, StoreNames.ConsumerLock("billing"));
        Assert.True(File.Exists(lockFile));
        Assert.Empty(queue.GetInfo().Consumers);
        Assert.False(queue.DeleteConsumer("billing"));
        Assert.False(File.Exists(lockFile));
        Assert.Equal(["a", "b"], CrashStore.ReadAll(queue, "billing"));
    }

    /// <summary>
    /// The lock's file loses its name while another process waits for it: that one must not end up with a lock on the old file
    /// beside a consumer with a lock on the new one.
    /// </summary>
    [Fact]
    public void Delete_AnotherProcessWaitsForTheName_ItGetsTheNewLock()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        CrashStore.Append(queue, "a");
        queue.OpenConsumer("billing").Dispose();
        using PeerAgent deleter = store.StartAttached();
        deleter.Trap("CursorDeletionFlushed", 1, "stop");
        deleter.Send("delete name=billing");
        deleter.WaitUntilStopped();
        using PeerAgent waiting = PeerAgent.Start();
        waiting.Ask($"{store.OpenCommand} wait=60000");
        waiting.Send("consumer name=billing");

        deleter.Continue();

        Assert.Equal("ok True", deleter.Answer());
        Assert.Equal("ok", waiting.Answer());
        Assert.Throws<QueueInUseException>(() => queue.OpenConsumer("billing"));
        Assert.Equal("a", waiting.Ask("consume"));
    }

    /// <summary>A Portable process cannot tell whether a lock is on the file that the name means, so the file stays.</summary>
    [Fact]
    public void Delete_PortableProcessIsAttached_LockFileStays()
    {
        using var store = new CrashStore();
        using MappedFileQueue queue = store.Open();
        CrashStore.Append(queue, "a");
        queue.OpenConsumer("billing").Dispose();
        using ChildProcess portable = ChildProcess.StartPeer("--portable", "agent");
        portable.WaitForLine("ready");
        portable.Input.WriteLine(store.OpenCommand);
        portable.WaitForLine("ok");

        Assert.True(queue.DeleteConsumer("billing"));

        Assert.True(File.Exists(Path.Combine(store.Path, StoreNames.ConsumerLock("billing"))));
        portable.Input.WriteLine("exit");
        portable.ExpectExit();
    }

    /// <summary>What a power loss leaves of a deletion, or of a move, that has returned.</summary>
    [Fact]
    public void DeleteAndReset_PowerCutAfterwards_StandAsTheyWere()
    {
        using var store = new CrashStore();
        using (MappedFileQueue queue = store.Open())
        {
            CrashStore.Append(queue, "a", "b", "c");
            queue.Flush();
            queue.OpenConsumer("gone").Dispose();
            queue.OpenConsumer("moved", QueueStart.Latest).Dispose();
            Assert.True(queue.DeleteConsumer("gone"));
            queue.ResetConsumer("moved", QueueStart.Earliest);
        }

        using (PeerAgent opener = store.StartAttached(Guid.NewGuid()))
            opener.Ask("close");

        using MappedFileQueue after = store.Open();
        MappedFileConsumerInfo moved = Assert.Single(after.GetInfo().Consumers);
        Assert.Equal(("moved", 0L), (moved.Name, moved.Offset));
    }
}
