using System.Diagnostics;

namespace MappedFileQueues.Tests.Interop;

/// <summary>What the C library says when the system refuses a call: the disk's error, and never something else.</summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class CDiskErrorTests
{
    /// <summary>
    /// A folder above the store could not be entered any more, for want of rights or because it has become a link to itself. The
    /// store counted as deleted.
    /// </summary>
    [Fact]
    public void Wait_FolderAboveCannotBeEntered_IsNoDeletion()
    {
        using var store = new TempStore();
        string above = store.PathOf("above"), path = Path.Combine(above, "store");
        Directory.CreateDirectory(above);
        new MappedFileQueue(new MappedFileQueueOptions { StorePath = path }).Dispose();
        foreach (string[] program in (string[][])[[CLibrary.Fast], PythonPackage.Program])
        {
            using ChildProcess run = ChildProcess.Start(
                new ProcessStartInfo(program[0], [.. program[1..], "follow", path, "1", "10000"]), PythonPackage.Variables);
            run.WaitForLine("opened 0");
            Directory.Move(above, above + "-2");
            File.CreateSymbolicLink(above, above);
            Assert.NotEqual(0, run.WaitForExit());
            Assert.DoesNotContain("deleted", run.ErrorText, StringComparison.OrdinalIgnoreCase);
            Assert.Contains("40", run.ErrorText, StringComparison.Ordinal);
            File.Delete(above);
            Directory.Move(above + "-2", above);
        }
    }

    /// <summary>
    /// A lock that the system refuses was tried for a second and more, then segments were said to be removed. That of the meta
    /// page was a store that was deleted.
    /// </summary>
    [Theory]
    [InlineData("commitlog/00000000000000000000.log")]
    [InlineData("queue.meta")]
    public void Open_FileCannotBeLocked_SaysSo(string file)
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using ChildProcess run = Trace(
            store.PathOf(file), "flock:error=ENOLCK", "produce", store.StorePath, "shared", "message", "0", "1");
        Assert.Equal(1, run.WaitForExit());
        Assert.StartsWith("open: disk: A system call failed: errno=37", run.ErrorText, StringComparison.Ordinal);
    }

    /// <summary>
    /// A folder whose listing broke off counted as a shorter one: see CReaderTests.Attach_ConsumersCannotBeListed_IsRefused.
    /// </summary>
    [Fact]
    public void Attach_ListOfConsumersBreaksOff_IsRefused()
    {
        using var store = new TempStore(createStoreFolder: true);
        Vectors.CopyTo(Path.Combine(Vectors.Folder, "alone-cursor"), store.StorePath);
        using ChildProcess run = Trace(store.PathOf("offset/consumers"), "getdents64:error=EIO", "attach", store.StorePath);
        run.ExpectExit();
        Assert.Equal(["consume recovery 0", "produce recovery"], run.Lines.Skip(1));
    }

    /// <summary>`ulimit -f` is less than a segment: the program was ended by SIGXFSZ.</summary>
    [Fact]
    public void Produce_NextSegmentIsLongerThanFilesMayBe_IsAnErrorOfTheDisk()
    {
        using var store = new TempStore();
        using MappedFileQueue queue = InteropStore.Open(store);
        using ChildProcess run = ChildProcess.Start(new ProcessStartInfo("sh", [
            "-c", "ulimit -f 32; exec \"$@\"", "sh", CLibrary.Fast, "produce", store.StorePath, "shared", "m", "0", "10000",
        ]));
        Assert.Equal(1, run.WaitForExit());
        Assert.StartsWith("produce: disk: A system call failed: errno=27", run.ErrorText, StringComparison.Ordinal);
        Assert.Equal(run.Lines.Count - 1, InteropStore.ReadAll(store).Count);
        queue.Producer.Produce(InteropStore.Message(0));
        Assert.Equal(run.Lines.Count, InteropStore.ReadAll(store).Count);
    }

    /// <summary>Old kernels and sandboxes refuse the rename that never replaces; a link is no worse.</summary>
    [Theory]
    [InlineData("EINVAL")]
    [InlineData("ENOSYS")]
    [InlineData("EPERM")]
    public void Produce_RenameWithoutReplacingIsRefused_MakesSegmentsByLinks(string error)
    {
        using var store = new TempStore(createStoreFolder: true);
        Vectors.CopyTo(Path.Combine(Vectors.Folder, "in-order"), store.StorePath);
        using ChildProcess run = Trace(
            store.StorePath, $"renameat2:error={error}", "produce", store.StorePath, "shared", "m", "0", "300");
        run.ExpectExit();
        Assert.StartsWith("m 299 ", InteropStore.ReadAll(store)[^1], StringComparison.Ordinal);
        Assert.Empty(Directory.GetFiles(store.PathOf("commitlog"), "*.tmp"));
    }

    /// <summary>
    /// Some file systems have no sync of folders, which says nothing about the disk. The whole store was poisoned.
    /// </summary>
    [Theory]
    [InlineData("commitlog", "produce", "shared", "m", "0", "300")]
    [InlineData("offset/consumers", "consume", "c", "1", "1000")]
    public void Calls_FoldersCannotBeSynced_Work(string folder, string verb, params string[] arguments)
    {
        using var store = new TempStore(createStoreFolder: true);
        Vectors.CopyTo(Path.Combine(Vectors.Folder, "in-order"), store.StorePath);
        using ChildProcess run = Trace(store.PathOf(folder), "fsync:error=EINVAL", [verb, store.StorePath, .. arguments]);
        run.ExpectExit();
        Assert.False(File.Exists(store.PathOf("poison")));
    }

    /// <summary>Starts the library under strace, which lets calls with a path fail.</summary>
    private static ChildProcess Trace(string path, string calls, params IEnumerable<string> arguments)
    {
        Assert.SkipUnless(InteropTools.Has("strace"), "strace is not installed");
        return ChildProcess.Start(new ProcessStartInfo("strace", [
            "-qq", "-o", "/dev/null", "-P", path, "-e", $"inject={calls}", CLibrary.Fast, .. arguments,
        ]));
    }
}
