using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Packs;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Crash.Openers;

/// <summary>
/// A cleaner of temporary files removed the lock files of a store that was open (systemd#30760). The next process made them anew
/// and held a second lock of each name: two Exclusive producers overwrote each other, and several hundred acknowledged messages
/// were lost without an error; two consumers had one name; of a pack, all that the first writer had acknowledged was gone.
/// </summary>
[Trait("Category", "Slow")]
public sealed class RemovedLocksTests
{
    /// <summary>The rival is refused with the holder's name; what is open works on, and afterwards all is well.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Open_LocksRemovedUnderAProducer_IsRefused(bool removesFolder)
    {
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        using PeerAgent holder = store.StartAttached();
        holder.Ask("append prefix=c count=3");
        RemoveLocks(store.Path, removesFolder);

        QueueInUseException error = Assert.Throws<QueueInUseException>(() => store.Open());

        Assert.Contains("Lock files were removed", error.Message, StringComparison.Ordinal);
        Assert.Contains($"path={store.Path}", error.Message, StringComparison.Ordinal);
        Assert.Contains(
            string.Create(CultureInfo.InvariantCulture, $"pid {holder.Id}"), error.Message, StringComparison.Ordinal);
        holder.Ask("append prefix=c first=3 count=2");
        Assert.Equal(["c-0", "c-1", "c-2", "c-3", "c-4"], store.Peek());
        holder.Ask("close");
        store.ExpectHealthy(["c-0", "c-1", "c-2", "c-3", "c-4"]);
    }

    /// <summary>The BCL's locks and those of Linux count for each other here too.</summary>
    [Fact]
    public void Open_LocksRemovedUnderAnotherPlatform_IsRefused()
    {
        BackgroundCall[] cases = [.. from holder in new[] { false, true } from opener in new[] { false, true }
            select BackgroundCall.Start(() => ExpectRefused(holder, opener))];
        foreach (BackgroundCall each in cases)
            each.Join();
    }

    /// <summary>A queue that was open already takes no name either, and says why.</summary>
    [Theory]
    [InlineData("", false)]
    [InlineData("", true)]
    [InlineData("producers", false)]
    [InlineData("producers", true)]
    public void OpenProducer_LocksRemovedUnderARival_IsRefused(string file, bool portable)
    {
        PlatformScope.Use(portable);
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        using MappedFileQueue first = store.Open();
        using MappedFileQueue second = store.Open();
        first.Producer.Produce(CrashMessage.Make("m-0", 0));
        if (file.Length == 0)
            RemoveLocks(store.Path, folder: false);
        else
            File.Delete(Path.Combine(store.Path, "locks", file));

        QueueDeletedException error = Assert.Throws<QueueDeletedException>(() => second.OpenProducer());

        Assert.Contains("close every queue on the store", error.Message, StringComparison.Ordinal);
        first.Producer.Produce(CrashMessage.Make("m-1", 0));
        Assert.Equal(["m-0", "m-1"], store.Peek());
    }

    /// <summary>Whoever found a name stuck removed its lock's file: two consumers shared a cursor.</summary>
    [Fact]
    public void OpenConsumer_LockOfItsNameRemoved_IsRefused()
    {
        using var store = new CrashStore();
        using PeerAgent holder = store.StartAttached();
        holder.Ask("append prefix=c count=3");
        holder.Ask("consumer name=one");
        holder.Ask("consume count=1");
        using MappedFileQueue queue = store.Open();
        File.Delete(Path.Combine(store.Path, "locks", "consumer-one"));

        BackgroundCall opening = BackgroundCall.Start(() => queue.OpenConsumer("one"));
        Assert.IsType<QueueDeletedException>(opening.JoinSilently());
        Assert.Throws<QueueDeletedException>(() => queue.DeleteConsumer("one"));

        Assert.Equal("c-1", holder.Ask("consume count=1"));
        holder.Kill();
        using MappedFileConsumer next = queue.OpenConsumer("one");
        Assert.Equal("c-2", CrashMessage.Read(next.Consume()));
    }

    /// <summary>The claim of a living producer was taken for a dead one's when the file of its slot's lock was gone.</summary>
    [Fact]
    public void Consume_LockOfAProducersSlotRemoved_TakesNoClaimAway()
    {
        using var store = new CrashStore();
        using PeerAgent holder = store.StartAttached();
        holder.Ask("append prefix=c");
        holder.Send("hold text=held");
        holder.NextLine(line => line == "held");
        using MappedFileQueue queue = store.Open();
        File.Delete(Path.Combine(store.Path, "locks", "slot-0000"));

        CrashStore.Append(queue, "m-0");
        using MappedFileConsumer consumer = queue.OpenConsumer("one");
        Assert.True(consumer.TryConsume(out _));
        consumer.Advance();
        Assert.Throws<QueueDeletedException>(() => consumer.TryConsume(out _));
        holder.Send("publish");
        holder.Answer();

        Assert.Equal(["c-0", "held", "m-0"], CrashStore.ReadAll(queue, "all"));
    }

    /// <summary>Beside others a table of slots that was made anew would know no generation.</summary>
    [Fact]
    public void Open_SlotTableRemoved_IsRefused()
    {
        using var store = new CrashStore();
        using MappedFileQueue first = store.Open();
        File.Delete(Path.Combine(store.Path, "locks", "slots"));
        Assert.Throws<QueueInUseException>(() => store.Open());
        first.Dispose();
        store.Open().Dispose();
    }

    /// <summary>Two writers: all that the first one had acknowledged was gone, and `verify` found nothing wrong.</summary>
    [Fact]
    public void OpenPack_LocksRemovedUnderAWriter_IsRefused()
    {
        using var temp = new TempStore();
        var options = new PackOptions { CreateIfMissing = true };
        using (PackStore first = PackStore.Open(temp.StorePath, options))
        {
            first.Put("one", [1]);
            RemoveLocks(temp.StorePath, folder: true);
            Assert.Throws<PackInUseException>(() => PackStore.Open(temp.StorePath, options));
            first.Put("two", [2]);
        }

        using PackStore next = PackStore.Open(temp.StorePath, options);
        Assert.Equal(2, next.GetInfo().Count);
    }

    /// <summary>systemd-tmpfiles skips a directory whose lock it cannot get, with everything below it.</summary>
    [Fact]
    public void Open_Store_CleanersSkipIt()
    {
        using var store = new CrashStore();
        using (store.Open())
            Assert.NotEqual(0, TryLockFolder(store.Path));
        Assert.Equal(0, TryLockFolder(store.Path));
    }

    /// <summary>
    /// A reader took the owner of the claim for dead, stepped over its message, and never returned it once it was published.
    /// </summary>
    [Fact]
    public void Read_AnOpenClaimIsInTheWay_IsNotSteppedOver()
    {
        using var store = new CrashStore(mode: ProducerMode.Shared);
        using MappedFileQueue holder = store.Open();
        CrashStore.Append(holder, "m-0");
        using (MessageClaim claim = holder.Producer.DangerousClaim(1))
        {
            foreach (string slot in Directory.GetFiles(Path.Combine(store.Path, "locks"), "slot-*"))
                File.Delete(slot);
            using MappedFileReader reader = MappedFileReader.Open(store.Path);
            Assert.True(reader.TryRead(out _));
            Assert.Throws<QueueDeletedException>(() => reader.TryRead(out _));
        }
    }

    /// <summary>
    /// With the table of slots the whole folder was gone, as in a copy, which has no owners: the claim was stepped over.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Read_AnOpenClaimIsInTheWayAndAllLocksAreGone_WaitsForIt(bool portable)
    {
        using var store = new CrashStore(mode: ProducerMode.Shared);
        using MappedFileQueue holder = store.Open();
        CrashStore.Append(holder, "m-0");
        using MessageClaim claim = holder.Producer.DangerousClaim(1);
        RemoveLocks(store.Path, folder: true);
        PlatformScope.Use(portable);
        using MappedFileReader reader = MappedFileReader.Open(store.Path);
        Assert.True(reader.TryRead(out _));
        Assert.False(reader.TryRead(out _));

        claim.Span[0] = 7;
        claim.Publish(1);

        Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
        Assert.Equal(7, message[0]);
    }

    /// <summary>
    /// .NET locks each file that it opens, so a program that copied the lock files ended an opener here and there.
    /// </summary>
    [Theory]
    [InlineData("producers")]
    [InlineData("consumer-one")]
    public void Open_AnotherProgramReadsTheLockFile_IsNotRefused(string file)
    {
        using var store = new CrashStore(mode: ProducerMode.Exclusive);
        using (MappedFileQueue first = store.Open())
        {
            first.OpenConsumer("one").Dispose();
            first.OpenProducer().Dispose();
        }

        using FileStream copied = File.OpenRead(Path.Combine(store.Path, "locks", file));
        int tries = 0;
        var disk = new FaultyDisk();
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.Lock && name.EndsWith(file, StringComparison.Ordinal) && ++tries == 3)
                copied.Dispose();
        };
        using MappedFileQueue queue = store.Open();
        queue.OpenConsumer("one").Dispose();
        queue.OpenProducer().Dispose();
        Assert.True(tries >= 3, $"tries={tries}");
    }

    private static int TryLockFolder(string path)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "flock is a tool of Linux");
        using var flock = Process.Start("flock", ["--nonblock", path, "true"]);
        flock.WaitForExit();
        return flock.ExitCode;
    }

    private static void ExpectRefused(bool portableHolder, bool portableOpener)
    {
        PlatformScope.Use(portableHolder);
        using var store = new CrashStore();
        using MappedFileQueue holder = store.Open();
        CrashStore.Append(holder, "m-0");
        RemoveLocks(store.Path, folder: false);
        PlatformScope.Use(portableOpener);
        Assert.Throws<QueueInUseException>(() => store.Open());
        holder.Dispose();
        store.ExpectHealthy(["m-0"]);
    }

    private static void RemoveLocks(string store, bool folder)
    {
        string locks = Path.Combine(store, "locks");
        foreach (string file in Directory.GetFiles(locks))
            File.Delete(file);
        if (folder)
            Directory.Delete(locks);
    }
}
