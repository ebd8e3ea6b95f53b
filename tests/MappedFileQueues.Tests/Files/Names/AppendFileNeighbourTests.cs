using MappedFileQueues.Files;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Files.Names;

/// <summary>
/// What lies beside the file, and other names for it: the names of others are left alone, and two names are one file.
/// </summary>
public sealed class AppendFileNeighbourTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// Retention deleted `app.20260101.log`, which another program had put beside `app.log`: any six digits between the dots were
    /// taken for the number of a closed file.
    /// </summary>
    [Theory]
    [InlineData(false, false)]
    [InlineData(false, true)]
    [InlineData(true, false)]
    public void Roll_OthersFilesBesideTheLog_Stay(bool portable, bool reuses)
    {
        PlatformScope.Use(portable);
        string[] names =
        [
            "app.20260101.log", "app.202601.log", "app.000001.log", "app.1.log", "app.log.1", "app.log.next", "app-20260101.log",
            "app.roll-1.log", "app.roll-000001.log.gz", "app.roll-0000001.log", "app.roll-00000a.log", "APP.ROLL-000001.LOG",
            "other.roll-000001.log", "roll-000001.log", "app.roll--00001.log", "app.roll-next.txt",
        ];
        foreach (string name in names)
            File.WriteAllText(_temp.PathOf(name), name);
        AppendFileOptions options = new()
        {
            RollLength = 1000,
            RetainedFileCount = 1,
            ReuseOldFiles = reuses,
            Content = FileContent.Text,
            Durability = AppendDurability.PageCache,
        };
        using (AppendFileStream stream = new(FilePath, options))
        {
            for (int i = 0; i < 60; i++)
                stream.Write("a line of nearly a hundred bytes, so that there are some files that have to be deleted again\n"u8);
        }

        Assert.All(names, name => Assert.Equal(name, File.ReadAllText(_temp.PathOf(name))));
        IEnumerable<string?> rolled = Directory.EnumerateFiles(_temp.StorePath, "app.roll-0?????.log")
            .Select(Path.GetFileName).Except(names);
        Assert.Single(rolled);
    }

    /// <summary>
    /// A symbolic or hard link was another name with a lock of its own: two streams wrote to one file, each over the lines of the
    /// other, and 1,000 of 2,000 were gone.
    /// </summary>
    [Theory]
    [InlineData(false, false)]
    [InlineData(true, false)]
    [InlineData(false, true)]
    public void Open_ByALink_IsTheSameFile(bool portable, bool isHardLink)
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "Links need rights there.");
        PlatformScope.Use(portable);
        string link = Path.Combine(_temp.Root, "link.log");
        using (AppendFileStream first = new(FilePath))
        {
            MakeLink(link, isHardLink);
            QueueInUseException error = Assert.Throws<QueueInUseException>(() => new AppendFileStream(link));
            Assert.Contains(isHardLink ? link : FilePath, error.Message, StringComparison.Ordinal);
            first.Write("first\n"u8);
        }

        using (AppendFileStream second = new(link))
        {
            Assert.Equal(isHardLink ? link : FilePath, second.Path);
            Assert.Throws<QueueInUseException>(() => new AppendFileStream(FilePath));
            second.Write("second\n"u8);
        }

        Assert.Equal("first\nsecond\n", File.ReadAllText(FilePath));
    }

    /// <summary>
    /// Whoever reads, by .NET with any sharing or by a program that locks by flock(2), is not kept away by the lock.
    /// </summary>
    [Fact]
    public void Open_Readers_AreLetInBeforeAndAfter()
    {
        File.WriteAllText(FilePath, "before\n");
        using FileStream reader = new(FilePath, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete);
        using AppendFileStream stream = new(FilePath);
        stream.Write("after\n"u8);
        stream.Flush();
        using FileStream other = new(FilePath, FileMode.Open, FileAccess.Read, FileShare.ReadWrite);
        Assert.Equal("before\nafter\n".Length, other.Length);
    }

    [Fact]
    public void Open_SymbolicLinkThatRolls_LinkStaysAndTheFileRolls()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "Links need rights there.");
        string link = Path.Combine(_temp.Root, "current.log");

        // What it leads to is not there yet.
        File.CreateSymbolicLink(link, "store/app.log");
        using (AppendFileStream stream = new(link, new AppendFileOptions { RollLength = 10 }))
        {
            stream.Write("one line\n"u8);
            stream.Write("another\n"u8);
        }

        Assert.Equal("another\n", File.ReadAllText(link));
        Assert.Equal("one line\n", File.ReadAllText(_temp.PathOf("app.roll-000001.log")));
        Assert.NotNull(new FileInfo(link).LinkTarget);
        Assert.Equal(["current.log", "store"], Directory.EnumerateFileSystemEntries(_temp.Root).Select(Path.GetFileName).Order());
    }

    /// <summary>
    /// The folder above a linked folder is the one above the real folder. It was found by the text of the path, and the lines
    /// went to a file of that name beside the link.
    /// </summary>
    [Theory]
    [InlineData("current.log", "linked/../app.log")]
    [InlineData("current.log", "linked/./deep/../../app.log")]
    [InlineData("linked/current.log", "../app.log")]
    public void Open_LinkLeadsUpFromALinkedFolder_IsTheFileThatTheSystemFinds(string name, string target)
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "Links need rights there.");
        Directory.CreateDirectory(_temp.PathOf("real", "deep"));
        Directory.CreateSymbolicLink(Path.Combine(_temp.Root, "linked"), "store/real");
        string link = Path.Combine(_temp.Root, name);
        File.CreateSymbolicLink(link, target);
        File.WriteAllText(FilePath, "before\n");

        // The system itself follows the link.
        Assert.Equal("before\n", File.ReadAllText(link));
        using (AppendFileStream stream = new(link))
        {
            Assert.Throws<QueueInUseException>(() => new AppendFileStream(FilePath));
            stream.Write("after\n"u8);
        }

        Assert.Equal("before\nafter\n", File.ReadAllText(FilePath));
    }

    [Fact]
    public void Open_LinksThatLeadToEachOther_IsAnErrorOfTheDisk()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "Links need rights there.");
        File.CreateSymbolicLink(FilePath, "other.log");
        File.CreateSymbolicLink(_temp.PathOf("other.log"), "app.log");
        QueueDiskException error = Assert.Throws<QueueDiskException>(() => new AppendFileStream(FilePath));
        Assert.Equal(DiskErrors.ELOOP, error.Errno);
    }

    /// <summary>A closed file that somebody keeps by a hard link was overwritten when it was used again.</summary>
    [Fact]
    public void Roll_ReusesFiles_NotOneThatSomebodyKeepsByALink()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The portable platform knows no links.");
        string kept = Path.Combine(_temp.Root, "kept.log");
        AppendFileOptions options = new()
        {
            RollLength = 100,
            RetainedFileCount = 1,
            ReuseOldFiles = true,
            Content = FileContent.Text,
        };
        using (AppendFileStream stream = new(FilePath, options))
        {
            for (int i = 0; i < 10; i++)
            {
                stream.Write(LineOf(i));
                stream.Flush();
                if (i == 1)
                    Link(_temp.PathOf("app.roll-000001.log"), kept);
            }
        }

        Assert.Equal(LineOf(0), File.ReadAllBytes(kept));
        Assert.Equal(LineOf(9), File.ReadAllBytes(FilePath));
        Assert.Equal(LineOf(8), File.ReadAllBytes(_temp.PathOf("app.roll-000009.log")));
    }

    private static byte[] LineOf(int number)
    {
        byte[] line = new byte[90];
        line.AsSpan().Fill((byte)('0' + number));
        return line;
    }

    private static void Link(string path, string link)
    {
        using ChildProcess child = ChildProcess.Start(new System.Diagnostics.ProcessStartInfo("ln", [path, link]));
        child.ExpectExit();
    }

    private void MakeLink(string link, bool isHardLink)
    {
        if (isHardLink)
            Link(FilePath, link);
        else
            File.CreateSymbolicLink(link, FilePath);
    }
}
