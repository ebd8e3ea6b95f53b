using System.Runtime.Versioning;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Platform.Contract;

/// <summary>
/// What both implementations promise, run for each of them on this machine. This file: directories and names; the others:
/// files and mappings, locks, waiting.
/// </summary>
[SupportedOSPlatform("linux")]
public abstract partial class PlatformContractTests : IDisposable
{
    private const UnixFileMode OwnerOnly = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute;

    private readonly TempStore _temp = new();
    private HeldDirectory? _directory;

    private protected abstract OperatingSystemServices Services { get; }

    /// <summary>The other implementation, which may have the same store open.</summary>
    private protected abstract OperatingSystemServices Other { get; }

    /// <summary>The store's directory, made when first asked for.</summary>
    private protected HeldDirectory Store => _directory ??= Services.OpenDirectory(_temp.StorePath, create: true, mode: null)!;

    private protected TempStore Temp => _temp;

    public void Dispose()
    {
        _directory?.Dispose();
        _temp.Dispose();
        GC.SuppressFinalize(this);
    }

    [Fact]
    public void OpenDirectory_Missing_IsNullAndMakesNothing()
    {
        Assert.Null(Services.OpenDirectory(_temp.StorePath, create: false, mode: null));
        Assert.False(Directory.Exists(_temp.StorePath));
    }

    [Fact]
    public void OpenDirectory_MissingWithParents_MakesItForItsOwnerAlone()
    {
        string path = Path.Combine(_temp.Root, "a", "b", "store");
        using HeldDirectory? made = Services.OpenDirectory(path + "/", create: true, mode: null);
        Assert.Equal(path, made!.Path);
        Assert.Equal(OwnerOnly, File.GetUnixFileMode(path));
        Assert.True(made.IsStillInPlace);
    }

    [Fact]
    public void OpenDirectory_ModeNamed_IsTheModeWhateverTheUmask()
    {
        const UnixFileMode Mode = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.GroupRead
            | UnixFileMode.GroupWrite | UnixFileMode.OtherWrite;
        using HeldDirectory? made = Services.OpenDirectory(_temp.StorePath, create: true, Mode);
        Assert.Equal(Mode | UnixFileMode.UserExecute | UnixFileMode.GroupExecute | UnixFileMode.OtherExecute,
            File.GetUnixFileMode(_temp.StorePath));
    }

    [Theory]
    [InlineData("file", true)]
    [InlineData("file", false)]
    [InlineData("file/store", true)]
    public void OpenDirectory_FileInTheWay_Throws(string name, bool create)
    {
        File.WriteAllText(Path.Combine(_temp.Root, "file"), "mine");
        string path = Path.Combine(_temp.Root, name);
        QueueDiskException error = Assert.Throws<QueueDiskException>(() => Services.OpenDirectory(path, create, mode: null));
        Assert.Equal(DiskErrors.ENOTDIR, error.Errno);
        Assert.Equal(path, error.Path);
        Assert.Contains($"path={path}, errno=20", error.Message, StringComparison.Ordinal);
        Assert.Equal("mine", File.ReadAllText(Path.Combine(_temp.Root, "file")));
    }

    /// <summary>
    /// The name is taken and nothing is there: the error said that the directory was removed at once, or that it was none.
    /// </summary>
    [Theory]
    [InlineData("link")]
    [InlineData("link/store")]
    public void OpenDirectory_LinkThatLeadsNowhere_IsNamed(string name)
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "Links need rights there.");
        string link = Path.Combine(_temp.Root, "link");
        string target = Path.Combine(_temp.Root, "nowhere");
        Directory.CreateSymbolicLink(link, target);
        string path = Path.Combine(_temp.Root, name);

        Assert.Null(Services.OpenDirectory(path, create: false, mode: null));
        Action make = () => Services.OpenDirectory(path, create: true, mode: null);
        QueueDiskException error = Assert.Throws<QueueDiskException>(make);

        Assert.Equal((DiskErrors.ENOENT, path), (error.Errno, error.Path));
        string words = $"the symbolic link {link} leads to {target}, which does not exist: path={path}";
        Assert.Contains(words, error.Message, StringComparison.Ordinal);
        Assert.False(Directory.Exists(target));
    }

    [Fact]
    public void Open_Missing_IsNull()
    {
        Assert.Null(Store.Open("file", FileOpening.Read));
        Assert.Null(Store.Open("file", FileOpening.ReadWrite));
        Assert.Null(Store.Open("folder/file", FileOpening.Read));
        Assert.Empty(Store.List(""));
    }

    [Fact]
    public void Open_MissingFolder_ThrowsWhenItShouldBeMadeThere()
    {
        foreach (FileOpening opening in new[] { FileOpening.ReadWriteOrCreate, FileOpening.CreateNew })
        {
            QueueDiskException error = Assert.Throws<QueueDiskException>(() => Store.Open("folder/file", opening));
            Assert.Equal(DiskErrors.ENOENT, error.Errno);
        }
    }

    [Fact]
    public void Open_CreateTwice_OpensWhatTheFirstMade()
    {
        WriteFile("file", "content", FileOpening.ReadWriteOrCreate);
        using PlatformFile? again = Store.Open("file", FileOpening.ReadWriteOrCreate);
        Assert.Equal(7, again!.Length);
        Assert.Equal(Path.Combine(_temp.StorePath, "file"), again.Path);
    }

    [Fact]
    public void Open_CreateNewTwice_SecondIsNull()
    {
        WriteFile("file", "content", FileOpening.CreateNew);
        Assert.Null(Store.Open("file", FileOpening.CreateNew));
        Assert.Equal("content", File.ReadAllText(_temp.PathOf("file")));
    }

    [Fact]
    public void Open_FolderInTheWay_Throws()
    {
        Assert.True(Store.CreateSubdirectory("folder"));
        foreach (FileOpening opening in new[] { FileOpening.Read, FileOpening.ReadWrite, FileOpening.ReadWriteOrCreate })
        {
            QueueDiskException error = Assert.Throws<QueueDiskException>(() => Store.Open("folder", opening));
            Assert.Equal(DiskErrors.EISDIR, error.Errno);
        }
    }

    [Fact]
    public void Open_ModeNamed_NewOnesHaveItWhateverTheUmask()
    {
        const UnixFileMode GroupBits = UnixFileMode.GroupRead | UnixFileMode.GroupWrite | UnixFileMode.GroupExecute;
        using HeldDirectory shared = Services.OpenDirectory(_temp.StorePath, create: true, OwnerOnly | GroupBits)!;
        shared.Open("file", FileOpening.CreateNew)!.Dispose();
        shared.TryLock("lock", LockKind.Shared)!.Dispose();
        Assert.True(shared.CreateSubdirectory("folder"));
        const UnixFileMode Expected = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.GroupRead
            | UnixFileMode.GroupWrite;
        Assert.Equal(Expected, File.GetUnixFileMode(_temp.PathOf("file")));
        Assert.Equal(Expected, File.GetUnixFileMode(_temp.PathOf("lock")));
        Assert.Equal(OwnerOnly | GroupBits, File.GetUnixFileMode(_temp.PathOf("folder")));
    }

    [Fact]
    public void AdoptModeOf_File_NewOnesHaveItsMode()
    {
        const UnixFileMode Group = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.GroupRead
            | UnixFileMode.GroupWrite;
        Store.AdoptModeOf("missing");
        WriteFile("file", "content");
        Store.AdoptModeOf("file");
        // It changes while the directory is open: whoever keeps a store open for months must hear of it too.
        File.SetUnixFileMode(_temp.PathOf("file"), Group);
        Store.Open("next", FileOpening.CreateNew)!.Dispose();
        Store.TryLock("lock", LockKind.Shared)!.Dispose();
        Assert.True(Store.CreateSubdirectory("folder"));
        Assert.Equal(Group, File.GetUnixFileMode(_temp.PathOf("next")));
        Assert.Equal(Group, File.GetUnixFileMode(_temp.PathOf("lock")));
        Assert.Equal(Group | UnixFileMode.UserExecute | UnixFileMode.GroupExecute, File.GetUnixFileMode(_temp.PathOf("folder")));
    }

    [Fact]
    public void RenameWithoutReplacing_Free_Renames()
    {
        WriteFile("from", "content");
        Assert.True(Store.RenameWithoutReplacing("from", "to"));
        Assert.Equal(["to"], Store.List(""));
        Assert.Equal("content", File.ReadAllText(_temp.PathOf("to")));
    }

    [Fact]
    public void RenameWithoutReplacing_Taken_ChangesNothing()
    {
        WriteFile("from", "new");
        WriteFile("to", "old");
        Assert.False(Store.RenameWithoutReplacing("from", "to"));
        Assert.Equal("new", File.ReadAllText(_temp.PathOf("from")));
        Assert.Equal("old", File.ReadAllText(_temp.PathOf("to")));
    }

    [Fact]
    public void Rename_MissingSource_Throws()
    {
        Action[] renames = [() => Store.RenameWithoutReplacing("from", "to"), () => Store.Rename("from", "to")];
        foreach (Action rename in renames)
            Assert.Equal(DiskErrors.ENOENT, Assert.Throws<QueueDiskException>(rename).Errno);
    }

    [Fact]
    public void RenameWithoutReplacing_RaceOfThreads_HasExactlyOneWinner()
    {
        const int ThreadCount = 8;
        const int RoundCount = 100;
        using Barrier barrier = new(ThreadCount);
        bool[] hasWon = new bool[ThreadCount];
        List<string> failures = [];
        ForEachThread(ThreadCount, thread =>
        {
            for (int round = 0; round < RoundCount; round++)
            {
                WriteFile($"temp-{thread}", thread.ToString());
                barrier.SignalAndWait(Eventually.DefaultDeadline);
                hasWon[thread] = Store.RenameWithoutReplacing($"temp-{thread}", $"segment-{round}");
                barrier.SignalAndWait(Eventually.DefaultDeadline);
                if (thread == 0)
                {
                    int winner = Array.IndexOf(hasWon, true);
                    if (hasWon.Count(won => won) != 1 || File.ReadAllText(_temp.PathOf($"segment-{round}")) != winner.ToString())
                        failures.Add($"round {round}: winners {string.Join(',', hasWon)}");
                    if (Store.List("").Count(name => name.StartsWith("temp-", StringComparison.Ordinal)) != ThreadCount - 1)
                        failures.Add($"round {round}: a loser's file is gone");
                }

                barrier.SignalAndWait(Eventually.DefaultDeadline);
                _ = Store.Delete($"temp-{thread}");
            }
        });
        Assert.Empty(failures);
    }

    [Fact]
    public void Rename_Taken_Replaces()
    {
        WriteFile("from", "new");
        WriteFile("to", "old");
        Store.Rename("from", "to");
        Assert.Equal(["to"], Store.List(""));
        Assert.Equal("new", File.ReadAllText(_temp.PathOf("to")));
    }

    [Fact]
    public void Delete_ThereAndMissing_TellsThemApart()
    {
        WriteFile("file", "content");
        Assert.True(Store.Delete("file"));
        Assert.False(Store.Delete("file"));
        Assert.False(Store.Delete("folder/file"));
        Assert.Empty(Store.List(""));
    }

    [Fact]
    public void List_FilesAndFolders_GivesNamesInOrder()
    {
        Assert.Empty(Store.List("folder"));
        Assert.True(Store.CreateSubdirectory("folder"));
        string[] names = [.. Enumerable.Range(0, 700).Select(index => $"{index:d20}.log"), "ünïcode"];
        foreach (string name in names.Reverse())
            WriteFile($"folder/{name}", "");
        Assert.Equal(names, Store.List("folder"));
        Assert.Equal(["folder"], Store.List(""));
        Store.FlushEntries("folder");
        Store.FlushEntries("");
    }

    [Fact]
    public void CreateSubdirectory_Twice_OnlyTheFirstMadeIt()
    {
        Assert.True(Store.CreateSubdirectory("folder"));
        Assert.False(Store.CreateSubdirectory("folder"));
        WriteFile("file", "content");
        Assert.Equal(DiskErrors.EEXIST, Assert.Throws<QueueDiskException>(() => Store.CreateSubdirectory("file")).Errno);
    }

    [Fact]
    public void Identify_FileReplaced_IsAnotherFile()
    {
        Assert.Null(Store.Identify("file"));
        WriteFile("file", "old");
        using PlatformFile old = Store.Open("file", FileOpening.Read)!;
        Assert.Equal(old.Identity, Store.Identify("file"));
        WriteFile("new", "new");
        Store.Rename("new", "file");

        // Portable cannot tell them apart and says so in its contract.
        Assert.Equal(Services.IsPortable, old.Identity == Store.Identify("file"));
        Assert.True(Store.Delete("file"));
        Assert.Null(Store.Identify("file"));
    }

    [Fact]
    public void IsStillInPlace_DeletedOrReplaced_IsFalse()
    {
        Assert.True(Store.IsStillInPlace);
        Directory.Move(_temp.StorePath, _temp.StorePath + "-moved");
        Assert.False(Store.IsStillInPlace);
        Directory.CreateDirectory(_temp.StorePath);
        Assert.Equal(Services.IsPortable, Store.IsStillInPlace);
    }

    [Fact]
    public void UnsafeFileSystem_LocalDisk_IsNull() => Assert.Null(Store.UnsafeFileSystem);

    /// <summary>Runs the action once for each number on threads of its own, and throws what they threw.</summary>
    private protected static void ForEachThread(int count, Action<int> action)
    {
        List<Exception> errors = [];
        Thread[] threads = [.. Enumerable.Range(0, count).Select(number => new Thread(() =>
        {
            try
            {
                action(number);
            }
            catch (Exception error)
            {
                lock (errors)
                    errors.Add(error);
            }
        }))];
        foreach (Thread thread in threads)
            thread.Start();
        foreach (Thread thread in threads)
            Assert.True(thread.Join(Eventually.DefaultDeadline), "a thread did not end");
        if (errors.Count > 0)
            throw new AggregateException(errors);
    }

    private protected void WriteFile(string name, string content, FileOpening opening = FileOpening.ReadWriteOrCreate)
    {
        using PlatformFile file = Store.Open(name, opening)!;
        file.WriteAt(System.Text.Encoding.UTF8.GetBytes(content), 0);
    }
}
