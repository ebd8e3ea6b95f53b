using System.Diagnostics;
using System.Text;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Interop;

/// <summary>The C library over the vectors, over damaged stores, and beside queues of this process.</summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class CReaderTests() : ReaderContract(followCount: 5000, roomCount: 2000)
{
    [Fact]
    public void Read_EveryVector_GivesWhatItSays() => CompareVectors(CLibrary.Fast);

    [Fact]
    public void Read_EveryVectorUnderSanitizers_GivesWhatItSays() => CompareVectors(CLibrary.Checked);

    [Fact]
    public void Read_EveryVectorAsCpp_GivesWhatItSays() => CompareVectors(CLibrary.AsCpp);

    [Fact]
    public void Attach_EveryVector_GivesWhatItSays() => CompareAttaching(arguments => Start(arguments));

    [Fact]
    public void Crc_TableAndInstruction_AreTheSame()
    {
        using ChildProcess run = CLibrary.Start(CLibrary.Checked, "crc");
        run.ExpectExit();
        Assert.Equal("same, check=e3069283", run.Lines[^1]);
    }

    [Fact]
    public void Calls_WithoutAHandle_AreRefused()
    {
        using ChildProcess run = CLibrary.Start(CLibrary.Checked, "nothing");
        run.ExpectExit();
    }

    /// <summary>
    /// A child that ends through atexit, one that starts a program, and one that opens handles of its own and has a child itself:
    /// the parent's locks stay, and each process's own handles release theirs. The last one's stayed, because its parent was the
    /// first that had opened a store, and the lock on the cursor's file was not ended by anybody.
    /// </summary>
    [Fact]
    public void Fork_ChildrenOfEveryKind_EachHandleReleasesWhatItsProcessTook()
    {
        using var store = new TempStore();
        InteropStore.Open(store).Dispose();
        using ChildProcess run = CLibrary.Start(CLibrary.Checked, "fork", store.StorePath);
        run.ExpectExit();
        Assert.Equal(
            [.. Enumerable.Range(0, 3).Select(i => $"{i}: child 0, name in-use, store in-use"), "closed: name ok, store ok"],
            run.Lines);
    }

    /// <summary>
    /// Too few descriptors end in an error of the system, which passes. A consumer's offset was called damaged, the store deleted
    /// or in need of a recovery: words on which operators reset consumers.
    /// </summary>
    [Fact]
    public void Open_TooFewDescriptors_SaysSoAndLeavesNoneOpen()
    {
        string[] expected = ["reader disk ok", "consumer disk ok", "producer disk ok"];
        using var store = new TempStore();
        using (MappedFileQueue queue = InteropStore.Open(store))
        {
            for (int i = 0; i < 10; i++)
                queue.Producer.Produce(InteropStore.Message(i));
            Assert.Equal(expected, Limits(store));
        }

        Assert.Equal(expected, Limits(store));

        static IReadOnlyList<string> Limits(TempStore store)
        {
            using ChildProcess run = CLibrary.Start(CLibrary.Checked, "limits", store.StorePath);
            run.ExpectExit();
            return run.Lines;
        }
    }

    /// <summary>
    /// A folder that may not be listed counted as an empty one. A producer that was alone appended where a consumer's offset was
    /// beyond the end: to that consumer, those messages would have been read already.
    /// </summary>
    [Fact]
    public void Attach_ConsumersCannotBeListed_IsRefused()
    {
        Assert.SkipUnless(InteropTools.Has("strace"), "strace is not installed");
        using var store = new TempStore(createStoreFolder: true);
        Vectors.CopyTo(Path.Combine(Vectors.Folder, "alone-cursor"), store.StorePath);
        using ChildProcess run = ChildProcess.Start(new ProcessStartInfo("strace", [
            "-qq", "-o", "/dev/null", "-P", "offset/consumers", "-e", "trace=openat", "-e", "inject=openat:error=EACCES",
            CLibrary.Fast, "attach", store.StorePath,
        ]));
        run.ExpectExit();
        Assert.Equal(["consume recovery 0", "produce recovery"], run.Lines.Skip(1));
    }

    /// <summary>
    /// A checkpoint that could not be opened counted as none: the next one was written over the newer slot, with the number of
    /// the first one, so that an older one was the newest.
    /// </summary>
    [Fact]
    public void Attach_CheckpointCannotBeOpened_SaysSo()
    {
        Assert.SkipUnless(InteropTools.Has("strace"), "strace is not installed");
        using var store = new TempStore();
        InteropStore.Open(store).Dispose();
        using ChildProcess run = ChildProcess.Start(new ProcessStartInfo("strace", [
            "-qq", "-o", "/dev/null", "-P", "offset/producer.checkpoint", "-e", "trace=openat",
            "-e", "inject=openat:error=EMFILE", CLibrary.Fast, "attach", store.StorePath,
        ]));
        run.ExpectExit();
        Assert.Equal(["consume disk 0", "produce disk"], run.Lines.Skip(1));
    }

    /// <summary>
    /// Without a control page, a record of the log's start that could not be opened counted as none: the reader began at messages
    /// that had been removed.
    /// </summary>
    [Fact]
    public void Open_LogStartCannotBeRead_SaysSo()
    {
        Assert.SkipUnless(InteropTools.Has("strace"), "strace is not installed");
        using ChildProcess run = ChildProcess.Start(new ProcessStartInfo("strace", [
            "-qq", "-o", "/dev/null", "-P", "offset/log-start", "-e", "trace=openat", "-e", "inject=openat:error=EMFILE",
            CLibrary.Fast, "dump", Path.Combine(Vectors.Folder, "trimmed-without-control"),
        ]));
        run.ExpectExit();
        Assert.Equal(["open disk"], run.Lines.Skip(1));
    }

    /// <summary>
    /// Alone in a store that had no checkpoint for long it walked as long as that took, with `open` held: others gave up after
    /// 30 s, and said that the store was in use.
    /// </summary>
    [Fact]
    public void Attach_WalkTakesMoreThanTenSeconds_LeavesTheStoreToARecovery()
    {
        using var store = new TempStore();
        using (MappedFileQueue queue = InteropStore.Open(store))
            queue.Producer.Produce(InteropStore.Message(0));
        using ChildProcess run = CLibrary.StartStopping("RecoveryWalked", 1, "attach", store.StorePath);
        Eventually.Equal(true, () => ProcFiles.IsStopped(run.Id));
        Thread.Sleep(TimeSpan.FromSeconds(10.1));
        run.Continue();
        run.ExpectExit();
        Assert.StartsWith("consume recovery", run.Lines[1], StringComparison.Ordinal);
    }

    /// <summary>Calls that meet missing files said that the disk had failed.</summary>
    [Fact]
    public void Calls_StoreIsGone_SayThatItWasDeleted()
    {
        using var store = new TempStore();
        InteropStore.Open(store).Dispose();
        using ChildProcess run = CLibrary.Start(CLibrary.Checked, "outlive", store.StorePath);
        run.WaitForLine("opened");
        Directory.Delete(store.StorePath, recursive: true);
        run.Input.Close();
        run.ExpectExit();
        // What fits the segment that is mapped is appended, though nobody will read it.
        Assert.Equal(
            ["opened", "flush deleted", "wait deleted", "produce deleted", "flush deleted", "roll deleted", "roll deleted"],
            run.Lines);
    }

    /// <summary>
    /// The files in a store's folder were removed, and a new store was made there. The producer of the old one, when it closed,
    /// wrote its checkpoint over the newest one of the new store.
    /// </summary>
    [Fact]
    public void Close_AnotherStoreIsInTheFolder_LeavesItsCheckpointAlone()
    {
        using var store = new TempStore();
        InteropStore.Open(store).Dispose();
        using ChildProcess run = CLibrary.Start(CLibrary.Checked, "outlive", store.StorePath);
        run.WaitForLine("opened");
        foreach (string entry in Directory.GetDirectories(store.StorePath))
            Directory.Delete(entry, recursive: true);
        foreach (string entry in Directory.GetFiles(store.StorePath))
            File.Delete(entry);
        using (MappedFileQueue queue = InteropStore.Open(store))
            queue.Producer.Produce(InteropStore.Message(0));
        byte[] checkpoint = File.ReadAllBytes(store.PathOf("offset", "producer.checkpoint"));
        run.Input.Close();
        run.ExpectExit();
        Assert.Equal(["opened", "flush deleted", "wait deleted"], run.Lines.Take(3));
        Assert.Equal(checkpoint, File.ReadAllBytes(store.PathOf("offset", "producer.checkpoint")));
    }

    /// <summary>
    /// Another seed each day: the run prints what it needs to be made again. In memory where that can be had, because consumers
    /// and producers sync.
    /// </summary>
    [Fact]
    public void Open_DamagedStores_NeverCrashesAndGivesNoWrongMessage()
    {
        using TempStore scratch = TempStore.InMemory();
        int seed = DateTime.UtcNow.DayOfYear;
        using ChildProcess run = CLibrary.Start(
            CLibrary.Checked, "mutate", Vectors.Folder, scratch.Root, "10000", "30", $"{seed}");
        run.ExpectExit(deadline: TimeSpan.FromMinutes(5));
        Assert.EndsWith(", 0 wrong messages", run.Lines[^1], StringComparison.Ordinal);
    }

    /// <summary>
    /// A short run; the head of interop/c/fuzz_reader.c has the command of the long ones. Without clang its inputs are blind.
    /// </summary>
    [Fact]
    public void Fuzz_DamagedStores_NeverCrashesAndGivesNoWrongMessage()
    {
        using TempStore stores = TempStore.InMemory();
        Vectors.MakeIn(stores.Root);
        var start = new ProcessStartInfo(
            CLibrary.Fuzzer,
            // The stores are mapped, and count for the memory.
            ["-runs=100000", "-max_total_time=12", "-len_control=0", "-max_len=128", "-timeout=60", "-rss_limit_mb=0"]);
        using ChildProcess run = ChildProcess.Start(
            start, new Dictionary<string, string> { ["MFQ_VECTORS"] = stores.Root });
        run.ExpectExit(deadline: TimeSpan.FromMinutes(5));
        Assert.Matches("^[1-9][0-9]* damaged stores, .*, 0 wrong messages$", run.Lines[^1]);
    }

    [Fact]
    public void Consume_InTurns_EachContinuesWhereTheOtherCommitted()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        for (int i = 0; i < 300; i++)
            queue.Producer.Produce(InteropStore.Message(i));
        for (int i = 0; i < 300; i += 100)
        {
            Assert.Equal(Enumerable.Range(i, 50).Select(InteropStore.Text), Consume(store, "Workers", 50));
            using MappedFileConsumer consumer = queue.OpenConsumer("Workers");
            for (int k = i + 50; k < i + 100; k++)
            {
                Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
                Assert.Equal(InteropStore.Text(k), Encoding.UTF8.GetString(message));
                consumer.Commit();
            }
        }
    }

    /// <summary>Nobody else has the store open, and nothing has to be repaired.</summary>
    [Fact]
    public void Consume_AloneAfterAnOrderlyEnd_Works()
    {
        using var store = new TempStore();
        using (MappedFileQueue queue = InteropStore.Open(store))
        {
            for (int i = 0; i < 20; i++)
                queue.Producer.Produce(InteropStore.Message(i));
        }

        Assert.Equal(Enumerable.Range(0, 10).Select(InteropStore.Text), Consume(store, "", 10));
        using MappedFileQueue again = InteropStore.Open(store);
        using MappedFileConsumer consumer = again.OpenConsumer("");
        Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> message));
        Assert.Equal(InteropStore.Text(10), Encoding.UTF8.GetString(message));
    }

    /// <summary>What a dead producer left behind is repaired by C# alone.</summary>
    [Fact]
    public void Consume_AloneWhereARecoveryIsNeeded_IsRefused()
    {
        using var store = new TempStore();
        using (MappedFileQueue queue = InteropStore.Open(store))
            queue.Producer.Produce("message"u8);
        using (FileStream control = File.OpenWrite(store.PathOf("control")))
        {
            // "Exclusive at work"; the checksum over it does not fit any longer either.
            control.Position = 1024;
            control.WriteByte(1);
        }

        using ChildProcess run = Start("consume", store.StorePath, "c", "1", WaitMs);
        Assert.Equal(1, run.WaitForExit());
        Assert.Contains("open: recovery: ", run.ErrorText, StringComparison.Ordinal);
    }

    private protected override ChildProcess Start(params IEnumerable<string> arguments) =>
        CLibrary.Start(CLibrary.Checked, arguments);

    private static void CompareVectors(string program) =>
        CompareVectors(arguments => CLibrary.Start(program, arguments));
}
