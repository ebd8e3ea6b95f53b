using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Tests.Platform;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>
/// Stores that this user may not write, or that are where nobody may. Root may everything, so a child takes the rights of
/// nobody.
/// </summary>
public sealed class RightsTests : IDisposable
{
    private const int Eacces = 13;
    private const int Erofs = 30;

    private readonly TempStore _temp = new();

    public RightsTests() => TempStore.MakeReadable(_temp.Root);

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("attach")]
    [InlineData("produce")]
    [InlineData("read")]
    public void Open_StoreOfAnotherUser_IsRefused(string how)
    {
        Refusal.MakeStore(_temp.StorePath);
        RefusedAsNobody(how, _temp.StorePath, Eacces, "rights");
    }

    [Fact]
    public void Open_FolderThatMayNotBeMade_IsRefused() => RefusedAsNobody("attach", _temp.StorePath, Eacces, "rights");

    /// <summary>Reading needs no more than the right to read, and a consumer, which stores its offset, needs more.</summary>
    [Fact]
    public void Open_StoreThatMayOnlyBeRead_ReaderReadsAndConsumerIsRefused()
    {
        Refusal.MakeStore(_temp.StorePath);
        foreach (string path in Directory.EnumerateFileSystemEntries(_temp.StorePath, "*", SearchOption.AllDirectories)
            .Append(_temp.StorePath))
            TempStore.MakeReadable(path);
        Assert.Equal("OK 3", AsNobody("read", _temp.StorePath));
        RefusedAsNobody("attach", _temp.StorePath, Eacces, "rights");
        RefusedAsNobody("produce", _temp.StorePath, Eacces, "rights");
    }

    [Fact]
    public void Open_ReadOnlyFileSystem_ReaderReadsAndOthersAreRefused()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        string path = disk.PathOf("store");
        Refusal.MakeStore(path);
        MountedFileSystem.Run("mount", "-o", "remount,ro", disk.Path);

        Assert.Equal(Erofs, Refusal.Of<QueueDiskException>(_temp, path, () => Refusal.Attach(path), "MappedFileReader").Errno);
        Assert.Equal(
            Erofs, Refusal.Of<QueueDiskException>(_temp, disk.PathOf("new"), () => Refusal.Attach(disk.PathOf("new"))).Errno);
        Assert.Equal(3, Refusal.CountMessages(path));
        Assert.Equal(path, StoreInspector.Inspect(path).StorePath);
    }

    /// <summary>Mappings of a FUSE file system are not the same memory in all processes, nor need its locks be.</summary>
    [Fact]
    public void Open_FuseFileSystem_IsRefusedUnlessAllowed()
    {
        string source = Path.Combine(_temp.Root, "source");
        string mounted = Path.Combine(_temp.Root, "mounted");
        Directory.CreateDirectory(source);
        Directory.CreateDirectory(mounted);
        Assert.SkipUnless(TryMountFuse(source, mounted), "No FUSE file system can be mounted here (bindfs, root, /dev/fuse).");
        try
        {
            string path = Path.Combine(mounted, "store");
            Directory.CreateDirectory(path);
            Refusal.Of<QueueFormatException>(_temp, path, () => Refusal.Attach(path), "FUSE", "DangerouslyAllowFileSystem");

            using ChildProcess child = ChildProcess.StartPeer("open", "produce", path);
            child.ExpectExit();
            Assert.Equal(["OK 1"], child.Lines);
        }
        finally
        {
            MountedFileSystem.Run("umount", mounted);
        }
    }

    private static bool TryMountFuse(string source, string mounted)
    {
        try
        {
            MountedFileSystem.Run("bindfs", source, mounted);
            return true;
        }
        catch (Exception error) when (error is Xunit.Sdk.XunitException or System.ComponentModel.Win32Exception)
        {
            return false;
        }
    }

    private void RefusedAsNobody(string how, string path, int errno, string inMessage)
    {
        string[] before = StoreSnapshot.Of(_temp.Root);
        string said = AsNobody(how, path);
        string start = string.Create(CultureInfo.InvariantCulture, $"ERROR {nameof(QueueDiskException)} {errno} ");
        Assert.StartsWith(start, said, StringComparison.Ordinal);
        Refusal.CheckMessage(said[start.Length..], path, inMessage);
        Assert.Equal(before, StoreSnapshot.Of(_temp.Root));
    }

    private static string AsNobody(string how, string path)
    {
        using ChildProcess child = ChildProcess.StartPeerAsNobody("open", how, path);
        child.ExpectExit();
        return Assert.Single(child.Lines);
    }
}
