using System.Diagnostics;
using System.Runtime.Versioning;
using MappedFileQueues.Files;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Tests.Platform;

/// <summary>
/// Every file was given the bits of its directory by force: with a umask of 077, in a folder that all may use, logs, locks, packs
/// and volumes came out as 0666. Real processes, because the umask belongs to the process.
/// </summary>
[SupportedOSPlatform("linux")]
[Trait("Category", "Slow")]
public sealed class CreateModeTests : IDisposable
{
    private const UnixFileMode Rights = (UnixFileMode)0x1FF; // 0777

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("077", "777", false)]
    [InlineData("077", "777", true)]
    [InlineData("022", "777", false)]
    [InlineData("022", "2770", true)]
    [InlineData("000", "777", false)]
    [InlineData("000", "777", true)]
    [InlineData("027", "", false)]
    [InlineData("077", "", true)]
    public void Make_NoModeNamed_NothingIsWiderThanTheUmaskAndTheFolder(string umask, string folder, bool portable)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The umask is one of Unix.");
        foreach (string name in new[] { "queue", "pack", "log" }.Where(_ => folder.Length > 0))
            File.SetUnixFileMode(Directory.CreateDirectory(Path.Combine(_temp.Root, name)).FullName, Octal(folder));
        Make(umask, portable);
        UnixFileMode forbidden = Octal(umask) | UnixFileMode.OtherWrite;
        List<string> made = [.. Entries().Where(path => folder.Length == 0 || Path.GetDirectoryName(path) != _temp.Root)];
        Assert.All(made, path => Assert.Equal(UnixFileMode.None, File.GetUnixFileMode(path) & forbidden));
        Assert.All(
            folder.Length == 0 ? [] : made,
            path => Assert.Equal(
                Octal(folder) & ~forbidden & (File.Exists(path) ? (UnixFileMode)0x1B6 : Rights),
                File.GetUnixFileMode(path) & Rights));
        AssertAllKinds(made);
    }

    [Theory]
    [InlineData("077", "660", false)]
    [InlineData("077", "666", true)]
    [InlineData("000", "600", false)]
    [InlineData("022", "640", true)]
    public void Make_ModeNamed_AllGetIt(string umask, string mode, bool portable)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The umask is one of Unix.");
        Make(umask, portable, mode);
        List<string> made = [.. Entries()];
        UnixFileMode files = Octal(mode);
        UnixFileMode folders = files | (UnixFileMode)(((int)files >> 2 | (int)files >> 1) & 0x49); // and the right to enter
        Assert.All(made, path => Assert.Equal(File.Exists(path) ? files : folders, File.GetUnixFileMode(path) & Rights));
        AssertAllKinds(made);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Make_StoreOfAGroup_LaterFilesAreTheGroupsWhateverTheUmaskOfTheirMaker(bool portable)
    {
        // Would a member with another umask make the next segment for itself alone, all others would fail there.
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The umask is one of Unix.");
        Make("022", portable, "660");
        HashSet<string> before = [.. Entries()];
        Make("077", portable);
        List<string> later =
            [.. Entries().Where(path => !before.Contains(path) && !path.Contains("/log/", StringComparison.Ordinal))];
        Assert.Contains(later, static path => path.Contains("/queue/commitlog/", StringComparison.Ordinal));
        Assert.Contains(later, static path => path.Contains("/pack/volumes/", StringComparison.Ordinal));
        Assert.All(later, static path => Assert.Equal(Octal("660"), File.GetUnixFileMode(path)));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Make_FolderOfAGroup_SubfoldersHandTheGroupOnToo(bool portable)
    {
        // chmod without the set-group-ID bit takes it away, and the files of the next user would belong to another group.
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Groups of folders are those of Unix.");
        foreach (string name in new[] { "queue", "pack" })
            File.SetUnixFileMode(Directory.CreateDirectory(Path.Combine(_temp.Root, name)).FullName, Octal("2770"));
        Make("022", portable, "660");
        List<string> folders = [.. Entries().Where(path => Directory.Exists(path) && Path.GetDirectoryName(path) != _temp.Root)];
        Assert.NotEmpty(folders);
        Assert.All(folders, static path => Assert.Equal(Octal("2770"), File.GetUnixFileMode(path)));
    }

    /// <summary>What docs/OPTIONS.md says about a new store, and about a new pack.</summary>
    [Theory]
    [InlineData("000", false)]
    [InlineData("000", true)]
    [InlineData("022", false)]
    public void Make_NoModeNamedAndNoFolder_IsTheOwnersAlone(string umask, bool portable)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The umask is one of Unix.");
        Make(umask, portable);
        string log = Path.Combine(_temp.Root, "log");
        List<string> made = [.. Entries().Where(path => !path.StartsWith(log, StringComparison.Ordinal))];
        Assert.Contains(made, static path => path.Contains("/queue/commitlog/0", StringComparison.Ordinal));
        Assert.All(
            made, path => Assert.Equal(Octal(File.Exists(path) ? "600" : "700"), File.GetUnixFileMode(path) & Rights));
    }

    /// <summary>
    /// The framework's binder takes 640 as the decimal number of a mode with the sticky bit, which the owner may not read.
    /// </summary>
    [Theory]
    [InlineData("077", "640", "640", "750")]
    [InlineData("000", "0600", "600", "700")]
    public void Start_ModeOfTheConfiguration_IsOctalWhateverTheUmask(string umask, string mode, string files, string folders)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The umask is one of Unix.");
        string store = Path.Combine(_temp.Root, "queue");
        string script = $"umask {umask}; exec env --default-signal=INT dotnet exec \"$@\"";
        ProcessStartInfo start = new("bash", ["-c", script, "bash", Repository.HostPeerPath, store, "run"]);
        using ChildProcess host = ChildProcess.Start(
            start, new Dictionary<string, string> { ["MappedFileQueues__orders__UnixCreateMode"] = mode });
        Eventually.True(() => File.Exists(Path.Combine(store, "offset", "consumer.cursor")), "the consumer has begun");
        host.Signal(2);
        host.ExpectExit();

        List<string> made = [store, .. Directory.EnumerateFileSystemEntries(store, "*", SearchOption.AllDirectories)];
        Assert.Contains(made, static path => path.EndsWith("queue.meta", StringComparison.Ordinal));
        Assert.All(
            made, path => Assert.Equal(Octal(File.Exists(path) ? files : folders), File.GetUnixFileMode(path) & Rights));
    }

    /// <summary>Octal and decimal taken for each other, and what the owner itself could not open.</summary>
    [Theory]
    [InlineData(600)]
    [InlineData(640)]
    [InlineData(777)]
    [InlineData(0x980)] // 04600
    [InlineData(0x120)] // 0440
    [InlineData(0x036)] // 066
    [InlineData(0)]
    public void Options_ModeThatIsNone_IsRefusedByItsName(int mode)
    {
        var wrong = (UnixFileMode)mode;
        string path = _temp.PathOf("none");
        Exception[] errors =
        [
            Assert.Throws<ArgumentOutOfRangeException>(
                () => new MappedFileQueueOptions { StorePath = path, UnixCreateMode = wrong }.Validate()),
            Assert.Throws<ArgumentOutOfRangeException>(() => new PackOptions { UnixCreateMode = wrong }),
            Assert.Throws<ArgumentOutOfRangeException>(
                () => new AppendFileStream(path, new AppendFileOptions { UnixCreateMode = wrong })),
        ];
        Assert.All(
            errors,
            error => Assert.Matches("must be permissions in octal.*UnixCreateMode", error.Message.ReplaceLineEndings(" ")));
        Assert.False(Path.Exists(path));
    }

    private static UnixFileMode Octal(string mode) => (UnixFileMode)Convert.ToInt32(mode, 8);

    private static void AssertAllKinds(List<string> made)
    {
        string[] kinds =
        [
            "/queue/queue.meta", "/queue/control", "/queue/commitlog/0", "/queue/offset/consumers/reader.cursor",
            "/queue/locks/open", "/queue/offset/producer.checkpoint", "/pack/pack.meta", "/pack/volumes/", "/pack/locks/writer",
            "/log/app.log", "/log/app.log.lock", "/log/app.roll-000004.log",
        ];
        foreach (string kind in kinds)
            Assert.Contains(made, path => path.Contains(kind, StringComparison.Ordinal));
    }

    private IEnumerable<string> Entries() =>
        Directory.EnumerateFileSystemEntries(_temp.Root, "*", SearchOption.AllDirectories);

    private void Make(string umask, bool portable, params string[] mode)
    {
        string[] platform = portable ? ["--portable"] : [];
        ProcessStartInfo start = new(
            "bash",
            [
                "-c", $"umask {umask}; exec dotnet exec \"$@\"", "bash", Repository.TestPeerPath, .. platform, "make", _temp.Root,
                .. mode,
            ]);
        using ChildProcess child = ChildProcess.Start(start);
        child.ExpectExit();
    }
}
