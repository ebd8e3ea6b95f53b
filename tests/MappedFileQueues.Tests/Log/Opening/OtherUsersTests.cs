using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Packs;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>Stores that several users have: a service and root, or the members of a group.</summary>
[Trait("Category", "Slow")]
public sealed class OtherUsersTests : IDisposable
{
    private const string Nobody = "65534";
    private const string Group = "4242";
    private const int SegmentLength = 65536;

    private readonly TempStore _temp = new();

    public OtherUsersTests()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess, "Giving files away needs root on Linux.");
        TempStore.MakeReadable(_temp.Root);
    }

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// One `sudo mfq …` left a lock, a cursor and segments that belonged to root, with the mode 0600. The service could not open
    /// its own store any more.
    /// </summary>
    [Fact]
    public void Open_ByRoot_EverythingBelongsToTheStoresOwner()
    {
        Fill("service", 1);
        MountedFileSystem.Run("chown", "-R", $"{Nobody}:{Nobody}", _temp.StorePath);

        Fill("root", 300);

        Assert.Equal("", NotOf("uid", Nobody));
        Assert.Equal("", NotOf("gid", Nobody));
        Assert.StartsWith("OK", AsUser(Nobody, "produce"), StringComparison.Ordinal);
    }

    /// <summary>A folder that was made for the service, in which root makes the store.</summary>
    [Fact]
    public void Create_ByRootInAFolderOfTheService_EverythingBelongsToTheService()
    {
        Directory.CreateDirectory(_temp.StorePath);
        MountedFileSystem.Run("chown", Nobody, _temp.StorePath);

        Fill("root", 300);

        Assert.Equal("", NotOf("uid", Nobody));
        Assert.StartsWith("OK", AsUser(Nobody, "produce"), StringComparison.Ordinal);
    }

    /// <summary>Root's snapshot: what is in it belonged to the service, but not its folder.</summary>
    [Fact]
    public void Snapshot_ByRoot_ItsFolderBelongsToTheStoresOwnerToo()
    {
        Fill("service", 1);
        MountedFileSystem.Run("chown", "-R", $"{Nobody}:{Nobody}", _temp.StorePath);
        string copy = Path.Combine(_temp.Root, "copy");

        using (var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
            queue.Snapshot(copy);

        Assert.Equal("", NotOf("uid", Nobody, copy));
        Assert.Equal("", NotOf("gid", Nobody, copy));
    }

    [Fact]
    public void OpenPack_ByRoot_EverythingBelongsToThePacksOwner()
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            pack.Put("first", new byte[100]);
        MountedFileSystem.Run("chown", "-R", $"{Nobody}:{Nobody}", _temp.StorePath);

        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            pack.Put("second", new byte[100]);
            pack.Compact();
        }

        Assert.Equal("", NotOf("uid", Nobody));
    }

    /// <summary>A slot that root had made ended every producer of the service, with 4,095 others free.</summary>
    [Fact]
    public void OpenProducer_FirstSlotIsAnotherUsers_TakesTheNext()
    {
        Fill("service", 1);
        MountedFileSystem.Run("chown", "-R", $"{Nobody}:{Nobody}", _temp.StorePath);
        MountedFileSystem.Run("chown", "root:root", _temp.PathOf("locks/slot-0000"));

        Assert.StartsWith("OK", AsUser(Nobody, "produce"), StringComparison.Ordinal);
        Assert.True(File.Exists(_temp.PathOf("locks/slot-0001")));
    }

    /// <summary>
    /// Two users that have a group as a supplementary one: what one of them makes has the group of the store, and the other one
    /// can use it, also where the folder does not pass its group on (set-group-ID).
    /// </summary>
    [Fact]
    public void Open_ByMembersOfTheStoresGroup_WhatTheyMakeBelongsToTheGroup()
    {
        FillShared("root");
        File.Delete(_temp.PathOf("locks/slot-0000"));

        Assert.StartsWith("OK", AsUser("65533", "produce"), StringComparison.Ordinal);

        Assert.Equal("", NotOf("gid", Group));
        Assert.StartsWith("OK", AsUser(Nobody, "produce"), StringComparison.Ordinal);
    }

    /// <summary>
    /// Whoever set the first dead letter of a shared queue aside made the letters' store for himself alone: the members of other
    /// users got an error for each letter of theirs, and their messages held retention back.
    /// </summary>
    [Fact]
    public void Reject_FirstDeadLetterOfASharedQueue_OtherUsersCanSetTheirsAsideToo()
    {
        FillShared(Nobody);
        string letters = _temp.StorePath + "-dead-letters";

        using (var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
        using (MappedFileGroupMember member = queue.OpenGroupMember("workers"))
        {
            member.Consume();
            member.Reject(member.MessageOffset, deadLetter: true);
        }

        Assert.Equal("", NotOf("uid", Nobody, letters));
        Assert.Equal("", NotOf("gid", Group, letters));
        Assert.StartsWith("OK", AsUser("65533", "produce", letters), StringComparison.Ordinal);
    }

    /// <summary>The folder of a snapshot was its maker's alone, though its files had the rights of the store's.</summary>
    [Fact]
    public void Snapshot_OfASharedQueue_OtherUsersCanOpenIt()
    {
        FillShared(Nobody);
        string copy = _temp.StorePath + "-copy";

        using (var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = _temp.StorePath }))
            queue.Snapshot(copy);

        Assert.Equal("", NotOf("gid", Group, copy));
        Assert.StartsWith("OK", AsUser("65533", "produce", copy), StringComparison.Ordinal);
    }

    /// <summary>A store whose group may read and write all of it.</summary>
    private void FillShared(string owner)
    {
        Fill("owner", 1);
        MountedFileSystem.Run("chown", "-R", $"{owner}:{Group}", _temp.StorePath);
        MountedFileSystem.Run("chmod", "-R", "g+rwX", _temp.StorePath);
    }

    private void Fill(string prefix, int count)
    {
        using var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = _temp.StorePath,
            SegmentSize = SegmentLength,
        });
        queue.OpenConsumer(prefix).Dispose();
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(CrashMessage.Make(string.Create(CultureInfo.InvariantCulture, $"{prefix}-{i}"), 1000));
    }

    /// <summary>What of the store belongs to others.</summary>
    private string NotOf(string kind, string id, string? path = null)
    {
        using Process find = Process.Start(
            new ProcessStartInfo("find", [path ?? _temp.StorePath, "!", $"-{kind}", id]) { RedirectStandardOutput = true })!;
        return find.StandardOutput.ReadToEnd();
    }

    private string AsUser(string user, string how, string? path = null)
    {
        string[] rights = [$"--reuid={user}", $"--regid={user}", $"--groups={Group}"];
        string[] program = ["dotnet", "exec", Repository.TestPeerPath, "open", how, path ?? _temp.StorePath];
        using ChildProcess child = ChildProcess.Start(
            new ProcessStartInfo("setpriv", [.. rights, .. program]),
            new Dictionary<string, string> { ["HOME"] = "/nonexistent" });
        Assert.Equal(0, child.WaitForExit(TimeSpan.FromMinutes(1)));
        return string.Join('\n', child.Lines) + child.ErrorText;
    }
}
