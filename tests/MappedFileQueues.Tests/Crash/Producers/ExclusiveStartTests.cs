using System.Diagnostics;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>docs/DESIGN.md section 1: an Exclusive producer that starts beside the remains of another one.</summary>
[Trait("Category", "Slow")]
public sealed class ExclusiveStartTests
{
    /// <summary>
    /// The kernel closes a dying process's descriptors one by one. An Exclusive producer that got the producers' lock while
    /// the dead one's slot was still locked met a claim that seemed to live, and said that locks do not work here.
    /// </summary>
    [Fact]
    public void OpenProducer_SlotOfTheDeadIsStillLocked_WaitsForTheKernel()
    {
        using var store = new CrashStore();
        using MappedFileQueue attached = store.Open();
        CrashStore.Append(attached, "before");
        using (PeerAgent child = store.StartAttached())
        {
            child.Trap("PayloadWritten", 1);
            child.Send("append prefix=never size=300");
            child.ExpectKilled();
        }

        int slot = Directory.GetFiles(Path.Combine(store.Path, "locks"), "slot-*").Length - 1;
        using var words = new StoreWords(store.Path);
        PlatformLock? dying = words.TryLock(StoreNames.SlotLock(slot), LockKind.Exclusive);
        Assert.NotNull(dying);
        using MappedFileQueue exclusive = store.Open(ProducerMode.Exclusive);
        BackgroundCall opening = BackgroundCall.Start(() => exclusive.Producer.Produce(CrashMessage.Make("after", 64)));
        Eventually.True(() => opening.IsWaiting || opening.HasEnded, "the producer waits");
        dying.Dispose();

        opening.Join();
        Assert.Equal(["before", "after"], CrashStore.ReadAll(attached, "all"));
    }

    /// <summary>A claim that does live, beside a producers' lock that is free: somebody writes without the lock.</summary>
    [Fact]
    public void OpenProducer_ClaimLivesOn_RefusedAndNothingStaysMapped()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        PlatformScope.Use(portable: false);
        using var store = new CrashStore();
        using (MappedFileQueue attached = store.Open())
        {
            using PeerAgent child = store.StartAttached();
            child.Trap("PayloadWritten", 1);
            child.Send("append prefix=never size=300");
            child.ExpectKilled();
            int slot = Directory.GetFiles(Path.Combine(store.Path, "locks"), "slot-*").Length - 1;
            using var words = new StoreWords(store.Path);
            using PlatformLock? living = words.TryLock(StoreNames.SlotLock(slot), LockKind.Exclusive);
            using MappedFileQueue exclusive = store.Open(ProducerMode.Exclusive);
            long began = Stopwatch.GetTimestamp();
            Assert.Throws<QueueInUseException>(() => exclusive.Producer);
            Assert.True(Stopwatch.GetElapsedTime(began) < Eventually.DefaultDeadline);
        }

        Assert.DoesNotContain(
            File.ReadLines("/proc/self/maps"), line => line.Contains(store.Path + "/commitlog", StringComparison.Ordinal));
    }

    /// <summary>
    /// A producer that could not flush the directory before it entered a segment kept its reference on it: the mapping
    /// outlived the queue.
    /// </summary>
    [Fact]
    public void Produce_DirectoryCannotBeFlushed_ThrowsAndNothingStaysMapped()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "What a process has mapped is read from /proc.");
        PlatformScope.Use(portable: false);
        using var store = new CrashStore(mode: ProducerMode.Shared);
        string segments = Path.Combine(store.Path, "commitlog");
        using (MappedFileQueue queue = store.Open())
        {
            CrashStore.Append(queue, "before");
            // The consumer has the segment mapped, so that entering it needs no file; the directory's flush does.
            Assert.NotEqual(0, queue.Consumer.Consume().Length);
            using MappedFileProducer producer = queue.OpenProducer();
            using (var words = new StoreWords(store.Path))
                words.ForgetDirectoryFlush();
            Directory.Move(segments, segments + ".away");
            Assert.ThrowsAny<MappedFileQueueException>(() => producer.Produce([1]));
            Directory.Move(segments + ".away", segments);
            producer.Produce(CrashMessage.Make("after", 64));
        }

        Assert.DoesNotContain(
            File.ReadLines("/proc/self/maps"), line => line.Contains(store.Path + "/commitlog", StringComparison.Ordinal));
        Assert.Equal(["before", "after"], store.Peek());
    }
}
