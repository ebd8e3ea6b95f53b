using System.Diagnostics;
using System.Text;
using System.Text.Json;
using MappedFileQueues.Packs;
using MappedFileQueues.Tests.Platform;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Packs;

/// <summary>`mfq pack` on directories.</summary>
[Trait("Category", "Slow")]
public sealed class PackToolTests : IDisposable
{
    private readonly TempStore _temp = new();

    private string Source => Path.Combine(_temp.Root, "source");

    private string Target => Path.Combine(_temp.Root, "target");

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void AddListGetExtractVerify_Tree_ComesBackAsItWas()
    {
        Dictionary<string, byte[]> files = MakeTree();
        ToolRun.Of("pack", "create", _temp.StorePath, "--volume-size", "65536").Expect(0);
        ToolRun.Of("pack", "create", _temp.StorePath).ExpectError(_temp.StorePath);

        string added = ToolRun.Of("pack", "add", _temp.StorePath, Source).Expect(0).Text;
        Assert.Contains("added 42 files", added, StringComparison.Ordinal);
        string[] list = ToolRun.Of("pack", "list", _temp.StorePath).Expect(0).Lines;
        Assert.Equal(files.Select(file => $"{file.Value.Length}\t{file.Key}").Order(), list.Order());
        Assert.Equal(files["sub/deep/ünï"], ToolRun.Of("pack", "get", _temp.StorePath, "sub/deep/ünï").Expect(0).Output);
        ToolRun.Of("pack", "get", _temp.StorePath, "sub/none").ExpectError("sub/none");
        Assert.Contains("all whole", ToolRun.Of("pack", "verify", _temp.StorePath).Expect(0).Text, StringComparison.Ordinal);

        ToolRun.Of("pack", "extract", _temp.StorePath, Target).Expect(0);
        Assert.Equal(files.Keys.Order(), TreeOf(Target).Keys.Order());
        foreach ((string key, byte[] data) in TreeOf(Target))
            Assert.Equal(files[key], data);

        // A second time everything is there already.
        string refused = ToolRun.Of("pack", "extract", _temp.StorePath, Target).Expect(1).Error;
        Assert.Equal(42, refused.Split('\n').Count(line => line.Length > 0));
        ToolRun.Of("pack", "extract", _temp.StorePath, Target, "--overwrite").Expect(0);
    }

    /// <summary>
    /// The pack's own directory was recognised by its text alone: with a slash at its end, as a shell completes it, or through a
    /// link, the pack was put into itself, and doubled at each call.
    /// </summary>
    [Theory]
    [InlineData("source/own.pack/")]
    [InlineData("link/own.pack")]
    public void Add_PackLiesInTheTree_IsLeftOut(string pack)
    {
        MakeTree();
        Directory.CreateSymbolicLink(Path.Combine(_temp.Root, "link"), Source);
        string path = Path.Combine(_temp.Root, pack);
        for (int i = 0; i < 2; i++)
            ToolRun.Of("pack", "add", path, Source).Expect(0);

        Assert.Equal(42, ToolRun.Of("pack", "list", path).Expect(0).Lines.Length);
    }

    /// <summary>One file that could not be put ended the command: those after it were not in the pack, untold.</summary>
    [Fact]
    public void Add_OneFileCannotBePut_IsNamedAndTheOthersAreAdded()
    {
        Directory.CreateDirectory(Source);
        File.WriteAllText(Path.Combine(Source, "a"), "a");
        File.WriteAllText(Path.Combine(Source, "c"), "c");
        using (FileStream large = File.Create(Path.Combine(Source, "b")))
            large.SetLength(300 * 1024 * 1024);

        ToolRun added = ToolRun.Of("pack", "add", _temp.StorePath, Source).Expect(1);

        Assert.Contains("Too long for a pack", added.Error, StringComparison.Ordinal);
        Assert.Contains("added 2 files", added.Text, StringComparison.Ordinal);
        Assert.Equal(["1\ta", "1\tc"], ToolRun.Of("pack", "list", _temp.StorePath).Expect(0).Lines.Order());
    }

    /// <summary>The same for a file and a folder of another user.</summary>
    [Fact]
    public void Add_FileAndFolderMayNotBeRead_AreNamedAndTheOthersAreAdded()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess, "Becoming another user needs root.");
        Directory.CreateDirectory(Path.Combine(Source, "closed"));
        foreach (string name in new[] { "a", "b", "c", "closed/d" })
            File.WriteAllText(Path.Combine(Source, name), name);
        MountedFileSystem.Run("chmod", "000", Path.Combine(Source, "b"), Path.Combine(Source, "closed"));
        Directory.CreateDirectory(_temp.StorePath);
        MountedFileSystem.Run("chmod", "755", _temp.Root);
        MountedFileSystem.Run("chown", "65534:65534", _temp.StorePath);
        string[] rights = ["--reuid=65534", "--regid=65534", "--clear-groups"];
        ProcessStartInfo start = new(
            "setpriv", [.. rights, "dotnet", "exec", Repository.ToolPath, "pack", "add", _temp.StorePath, Source]);
        start.Environment["HOME"] = "/nonexistent";

        ToolRun added = ToolRun.Start(start, []).Expect(1);

        Assert.Contains("Cannot be read (errno=13), left out: path=", added.Error, StringComparison.Ordinal);
        Assert.Contains("The folder cannot be listed, left out: path=", added.Error, StringComparison.Ordinal);
        Assert.Contains("added 2 files", added.Text, StringComparison.Ordinal);
    }

    /// <summary>"added 2 files", and the pack held one: the second had replaced the first.</summary>
    [Fact]
    public void Add_TwoFilesOfOneKey_AreRefused()
    {
        string[] folders = [Path.Combine(_temp.Root, "x1"), Path.Combine(_temp.Root, "x2")];
        foreach (string folder in folders)
        {
            Directory.CreateDirectory(folder);
            File.WriteAllText(Path.Combine(folder, "same"), folder);
        }

        ToolRun.Of("pack", "add", _temp.StorePath, folders[0], folders[1]).ExpectError("Two files have one key: key=same");
        Assert.False(Directory.Exists(_temp.StorePath));
        ToolRun.Of("pack", "add", _temp.StorePath, folders[0], folders[0]).Expect(0);
    }

    /// <summary>What could not be written stayed half under its name, and what was there before was gone.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Extract_DiskIsFull_LeavesWhatWasThere(bool overwrite)
    {
        const int Length = 1_500_000;
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            for (int i = 0; i < 3; i++)
                pack.Put($"{i}", PackBytes.Make(Length, i));
        }

        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root);
        File.WriteAllText(disk.PathOf("2"), "former");

        string[] arguments = ["pack", "extract", _temp.StorePath, disk.Path];
        ToolRun.Of(overwrite ? [.. arguments, "--overwrite"] : arguments).ExpectError("Not extracted: key=2");

        Assert.Equal(["0", "1", "2"], Directory.GetFileSystemEntries(disk.Path).Select(Path.GetFileName).Order());
        Assert.Equal(PackBytes.Make(Length, 1), File.ReadAllBytes(disk.PathOf("1")));
        Assert.Equal("former", File.ReadAllText(disk.PathOf("2")));
    }

    /// <summary>In a container each run has the same process id. After one that was killed, no object was extracted.</summary>
    [Fact]
    public void Extract_KilledOneHadTheSameProcessId_WorksAndRemovesNothing()
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            pack.Put("key", "data"u8);
        string left = Path.Combine(Directory.CreateDirectory(Target).FullName, $".mfq-extract-{Environment.ProcessId}.tmp");
        File.WriteAllText(left, "of somebody else");

        ToolRun.Of("pack", "extract", _temp.StorePath, Target).Expect(0);

        Assert.Equal("of somebody else", File.ReadAllText(left));
        Assert.Equal("data", File.ReadAllText(Path.Combine(Target, "key")));
    }

    [Fact]
    public void Use_ValuesThatDoNotFitThePack_AreErrorsOfTheUser()
    {
        ToolRun.Of("pack", "create", _temp.StorePath).Expect(0);
        string file = Path.Combine(_temp.Root, "file");
        File.WriteAllText(file, "x");
        string error = ToolRun.Of("pack", "add", _temp.StorePath, file, "--max-bytes", "100MiB").Expect(1).Error;
        Assert.StartsWith("mfq: --max-bytes is less than two volumes", error, StringComparison.Ordinal);
        Assert.DoesNotContain("Parameter", error, StringComparison.Ordinal);
        error = ToolRun.Of("pack", "get", _temp.StorePath, new string('k', 70_000)).Expect(1).Error;
        Assert.StartsWith("mfq: The key is too long", error, StringComparison.Ordinal);
    }

    /// <summary>The pack was made first, and stayed behind empty.</summary>
    [Fact]
    public void Add_FirstObjectFitsNoPack_MakesNone()
    {
        string file = Path.Combine(_temp.Root, "file");
        File.WriteAllBytes(file, new byte[9000]);

        ToolRun.Of("pack", "add", _temp.StorePath, file, "--max-bytes", "8192").ExpectError("length=9048");
        ToolRun.Of("pack", "add", _temp.StorePath, file, "--prefix", new string('k', 70_000)).ExpectError("key is too long");

        Assert.False(Directory.Exists(_temp.StorePath));
    }

    /// <summary>The first file that was too long ended the command, without its name; those after it were not added.</summary>
    [Fact]
    public void Add_OneObjectFitsNoPack_AddsTheOthersAndNamesIt()
    {
        string[] files = [.. new[] { "a", "b", "c" }.Select(name => Path.Combine(_temp.Root, name))];
        foreach (string file in files)
            File.WriteAllBytes(file, new byte[file == files[1] ? 20_000 : 100]);

        ToolRun run = ToolRun.Of(["pack", "add", _temp.StorePath, .. files, "--max-bytes", "16384"]).Expect(1);

        Assert.Contains($"left out: path={files[1]}", run.Error, StringComparison.Ordinal);
        Assert.Equal(2, ToolRun.Of("pack", "list", _temp.StorePath).Expect(0).Lines.Length);
    }

    /// <summary>`mfq pack add texts.pack *`: the pack is among the files, and its own ones were put into it.</summary>
    [Fact]
    public void Add_ThePackItself_IsLeftOut()
    {
        ToolRun.Of("pack", "create", _temp.StorePath).Expect(0);

        ToolRun.Of("pack", "add", _temp.StorePath, _temp.StorePath).Expect(0);

        Assert.Empty(ToolRun.Of("pack", "list", _temp.StorePath).Expect(0).Lines);
    }

    [Fact]
    public void StatCompact_AfterOverwriting_FreesTheOldOnes()
    {
        MakeTree();
        for (int i = 0; i < 3; i++)
        {
            foreach (string path in Directory.GetFiles(Source, "*", SearchOption.AllDirectories))
                File.WriteAllBytes(path, PackBytes.Make(1000, i));
            ToolRun.Of("pack", "add", _temp.StorePath, Source, "--durable").Expect(0);
        }

        JsonElement before = Stat();
        ToolRun.Of("pack", "compact", _temp.StorePath).Expect(0);
        JsonElement after = Stat();

        Assert.Equal(42, after.GetProperty("count").GetInt32());
        Assert.Equal(before.GetProperty("liveLength").GetInt64(), after.GetProperty("liveLength").GetInt64());
        Assert.True(after.GetProperty("length").GetInt64() < before.GetProperty("length").GetInt64() / 2);
        Assert.Matches(@"objects +42\n", ToolRun.Of("pack", "stat", _temp.StorePath).Expect(0).Text);
        ToolRun.Of("pack", "verify", _temp.StorePath).Expect(0);
    }

    /// <summary>The same files a second time doubled the pack, and nothing said so.</summary>
    [Fact]
    public void Add_TheSameFilesAgain_AreLeftAsTheyAre()
    {
        Dictionary<string, byte[]> files = MakeTree();
        ToolRun.Of("pack", "add", _temp.StorePath, Source).Expect(0);
        long length = Stat().GetProperty("length").GetInt64();
        string again = ToolRun.Of("pack", "add", _temp.StorePath, Source).Expect(0).Text;
        Assert.Contains("42 were there unchanged", again, StringComparison.Ordinal);
        Assert.Equal(length, Stat().GetProperty("length").GetInt64());

        File.WriteAllText(Path.Combine(Source, "empty"), "not any more");
        JsonElement added = Json("add", Source);
        Assert.Equal((1, 41), (added.GetProperty("added").GetInt32(), added.GetProperty("unchanged").GetInt32()));
        Assert.Equal("not any more", ToolRun.Of("pack", "get", _temp.StorePath, "empty").Expect(0).Text.TrimEnd());
        Assert.Equal(files.Count, Json("stat").GetProperty("count").GetInt32());
    }

    [Fact]
    public void Delete_Keys_AreGoneAndMissingOnesAreNamed()
    {
        MakeTree();
        ToolRun.Of("pack", "delete", _temp.StorePath, "empty").ExpectError(_temp.StorePath);
        ToolRun.Of("pack", "add", _temp.StorePath, Source).Expect(0);

        Assert.Contains("deleted 2 objects",
            ToolRun.Of("pack", "delete", _temp.StorePath, "empty", "1.bin", "--durable").Expect(0).Text,
            StringComparison.Ordinal);
        ToolRun again = ToolRun.Of("pack", "delete", _temp.StorePath, "empty", "5.bin", "--output", "json").Expect(1);
        Assert.Contains("key=empty", again.Error, StringComparison.Ordinal);
        JsonElement result = JsonDocument.Parse(again.Output).RootElement;
        Assert.Equal((1, 1), (result.GetProperty("deleted").GetInt32(), result.GetProperty("missing").GetInt32()));
        Assert.Equal(39, ToolRun.Of("pack", "list", _temp.StorePath).Expect(0).Lines.Length);
        ToolRun.Of("pack", "get", _temp.StorePath, "1.bin").ExpectError("1.bin");
    }

    /// <summary>Two commands had no output for programs.</summary>
    [Fact]
    public void CreateAddGet_Json_IsOneObject()
    {
        JsonElement created = Json("create", "--volume-size", "4096");
        Assert.Equal((0, 4096), (created.GetProperty("count").GetInt32(), created.GetProperty("volumeSize").GetInt32()));
        Directory.CreateDirectory(Source);
        for (int i = 0; i < 100; i++)
            File.WriteAllBytes(Path.Combine(Source, $"{i:D3}"), PackBytes.Make(300, i));

        JsonElement added = Json("add", Source, "--max-bytes", "16384");
        Assert.Equal(100, added.GetProperty("added").GetInt32());
        int left = Json("stat").GetProperty("count").GetInt32();
        Assert.Equal(100, left + added.GetProperty("evicted").GetInt32());
        Assert.InRange(left, 20, 48);
        JsonElement got = Json("get", "099");
        Assert.Equal(("099", 300), (got.GetProperty("key").GetString(), got.GetProperty("length").GetInt32()));
        Assert.Equal(PackBytes.Make(300, 99), got.GetProperty("data").GetBytesFromBase64());
        ToolRun.Of("pack", "get", _temp.StorePath, "000", "--output", "json").ExpectError("000");
        Assert.Equal(
            Enumerable.Range(90, 10).Select(i => $"300\t0{i}"),
            ToolRun.Of("pack", "list", _temp.StorePath, "--prefix", "09").Expect(0).Lines);
    }

    /// <summary>A wrong value is wrong usage, as for every other command: exit code 2, and the option's name.</summary>
    [Theory]
    [InlineData("create", "--volume-size", "4095")]
    [InlineData("create", "--volume-size", "17179869185")]
    [InlineData("create", "--volume-size", "many")]
    [InlineData("create", "--output", "xml")]
    [InlineData("get", "--output", "xml")]
    [InlineData("add", "--max-bytes", "8191")]
    [InlineData("compact", "--garbage", "1.5")]
    [InlineData("compact", "--garbage", "-0.1")]
    [InlineData("compact", "--garbage", "0,1")]
    [InlineData("stat", "--output", "xml")]
    [InlineData("verify", "--output", "table")]
    public void AnyCommand_WrongValue_IsWrongUsage(string command, string option, string value)
    {
        ToolRun run = ToolRun.Of("pack", command, _temp.StorePath, option, value).Expect(2);
        Assert.Contains(value, run.Error + run.Text, StringComparison.Ordinal);
        Assert.False(Directory.Exists(_temp.StorePath));
    }

    [Fact]
    public void OutputJson_OfEveryCommand_IsOneObject()
    {
        MakeTree();
        Assert.Equal(42, Json("add", Source).GetProperty("added").GetInt32());
        JsonElement verification = Json("verify");
        Assert.True(verification.GetProperty("isWhole").GetBoolean());
        Assert.Equal(0, verification.GetProperty("damages").GetArrayLength());
        Assert.Equal(0, Json("compact").GetProperty("volumesSkipped").GetInt32());
        Assert.Equal(42, Json("extract", Target).GetProperty("extracted").GetInt32());
        string[] lines = ToolRun.Of("pack", "list", _temp.StorePath, "--output", "json").Expect(0).Lines;
        Assert.Equal(42, lines.Length);
        Assert.Equal(
            TreeOf(Source).Keys.Order(),
            lines.Select(line => JsonDocument.Parse(line).RootElement.GetProperty("key").GetString()!).Order());
    }

    [Fact]
    public void Extract_HostileKeys_NothingLeavesTheTarget()
    {
        string outside = Path.Combine(_temp.Root, "outside");
        Directory.CreateDirectory(outside);
        Directory.CreateDirectory(Target);
        Directory.CreateSymbolicLink(Path.Combine(Target, "link"), outside);
        File.CreateSymbolicLink(Path.Combine(Target, "file-link"), Path.Combine(outside, "victim"));
        File.WriteAllText(Path.Combine(outside, "victim"), "untouched");
        string[] hostile =
        [
            "../outside/up", "a/../../outside/up", $"{outside}/absolute", "/absolute", "link/through", "link/deep/through",
            "", ".", "..", "a//b", "a/./b", "a/", "nul\0byte", "plain/over/../../../outside/up",
        ];
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            foreach (string key in hostile)
                pack.Put(key, "evil"u8);
            pack.Put(new byte[] { 0xFF, 0xFE, (byte)'/', (byte)'x' }, "evil"u8);
            pack.Put("file-link", "good"u8);
            pack.Put("good/file", "good"u8);
            pack.Put("good/file/below a file", "evil"u8);
            pack.Put("\u001b[2Jspeaks to the terminal", "good"u8);
        }

        ToolRun run = ToolRun.Of("pack", "extract", _temp.StorePath, Target, "--overwrite").Expect(1);

        Assert.Equal("untouched", File.ReadAllText(Path.Combine(outside, "victim")));
        Assert.Equal("victim", Path.GetFileName(Assert.Single(Directory.GetFileSystemEntries(outside))));
        Assert.Equal("good", File.ReadAllText(Path.Combine(Target, "good/file")));
        Assert.Equal("good", File.ReadAllText(Path.Combine(Target, "file-link")));
        Assert.Null(new FileInfo(Path.Combine(Target, "file-link")).LinkTarget);
        string[] refused = [.. run.Error.Split('\n').Where(line => line.StartsWith("mfq: ", StringComparison.Ordinal))];
        // Windows has no names with control characters.
        Assert.True(refused.Length == hostile.Length + (OperatingSystem.IsWindows() ? 3 : 2), run.Error);
        Assert.Equal(["outside", "source", "store", "target"], Directory.GetFileSystemEntries(_temp.Root)
            .Select(path => Path.GetFileName(path)).Append("source").Distinct().Order());
        Assert.DoesNotContain("\u001b", ToolRun.Of("pack", "list", _temp.StorePath).Expect(0).Text, StringComparison.Ordinal);
    }

    [Fact]
    public void Add_LinksAndPipes_AreLeftOutAndNamed()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Named pipes are made on Linux only");
        Directory.CreateDirectory(Source);
        File.WriteAllText(Path.Combine(Source, "file"), "text");
        Directory.CreateSymbolicLink(Path.Combine(Source, "loop"), Source);
        Platform.MountedFileSystem.Run("mkfifo", Path.Combine(Source, "pipe"));

        ToolRun run = ToolRun.Of("pack", "add", _temp.StorePath, Source).Expect(1);

        Assert.Contains("loop", run.Error, StringComparison.Ordinal);
        Assert.Contains("pipe", run.Error, StringComparison.Ordinal);
        Assert.Equal("4\tfile", Assert.Single(ToolRun.Of("pack", "list", _temp.StorePath).Expect(0).Lines));
    }

    /// <summary>.NET cannot open such a file. The tool said "Not a regular file", and a folder ended it.</summary>
    [Fact]
    public void Add_NameIsNoUtf8_IsLeftOutAndTheReasonIsNamed()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Names of bytes are made on Linux only");
        Directory.CreateDirectory(Source);
        Platform.MountedFileSystem.Run(
            "bash", "-c", "cd \"$0\" && echo text > good && echo bad > $'b\\xe4d' && mkdir $'f\\xe4d'", Source);

        ToolRun run = ToolRun.Of("pack", "add", _temp.StorePath, Source).Expect(1);

        string[] errors = run.Error.Split('\n', StringSplitOptions.RemoveEmptyEntries);
        Assert.Equal(2, errors.Length);
        Assert.All(errors, error => Assert.Contains("The name is no UTF-8, left out: path=", error, StringComparison.Ordinal));
        Assert.Equal("5\tgood", Assert.Single(ToolRun.Of("pack", "list", _temp.StorePath).Expect(0).Lines));
        ToolRun.Start(
            new("bash", ["-c", $"exec dotnet exec '{Repository.ToolPath}' pack add '{_temp.StorePath}' '{Source}'/$'b\\xe4d'"]),
            [])
            .ExpectError("The name is no UTF-8");
        // .NET cannot delete them either.
        Platform.MountedFileSystem.Run("rm", "-r", Source);
    }

    [Fact]
    public void Verify_DamagedObject_SaysWhereAndFails()
    {
        MakeTree();
        ToolRun.Of("pack", "add", _temp.StorePath, Source).Expect(0);
        string volume = _temp.PathOf("volumes", "00000001-00000001-0000.pack");
        byte[] bytes = File.ReadAllBytes(volume);
        bytes[^30] ^= 1;
        File.WriteAllBytes(volume, bytes);

        ToolRun run = ToolRun.Of("pack", "verify", _temp.StorePath).Expect(3);

        Assert.Contains("DAMAGED", run.Text, StringComparison.Ordinal);
        Assert.Contains("file=volumes/00000001-00000001-0000.pack, position=", run.Error, StringComparison.Ordinal);
        Assert.Equal(41, TreeAfterExtraction());
    }

    [Fact]
    public void AnyReadingCommand_NoPackThere_OneLineAndNothingMade()
    {
        foreach (string command in (string[])["list", "verify", "stat", "compact"])
            ToolRun.Of("pack", command, _temp.StorePath).ExpectError(_temp.StorePath);
        ToolRun.Of("pack", "extract", _temp.StorePath, Target).ExpectError(_temp.StorePath);
        Assert.False(Directory.Exists(_temp.StorePath));
        Assert.False(Directory.Exists(Target));
    }

    private static Dictionary<string, byte[]> TreeOf(string root) =>
        Directory.GetFiles(root, "*", SearchOption.AllDirectories)
            .ToDictionary(path => Path.GetRelativePath(root, path).Replace('\\', '/'), File.ReadAllBytes);

    private int TreeAfterExtraction()
    {
        ToolRun.Of("pack", "extract", _temp.StorePath, Target).Expect(1);
        return TreeOf(Target).Count;
    }

    private JsonElement Stat() => Json("stat");

    private JsonElement Json(string command, params string[] more) =>
        JsonDocument.Parse(ToolRun.Of(["pack", command, _temp.StorePath, .. more, "--output", "json"]).Expect(0).Output)
            .RootElement;

    private Dictionary<string, byte[]> MakeTree()
    {
        Dictionary<string, byte[]> files = [];
        for (int i = 0; i < 40; i++)
            files[$"{(i % 2 == 0 ? "even/" : "")}{(i % 3 == 0 ? "third/" : "")}{i}.bin"] = PackBytes.Make(i * 100, i);
        files["sub/deep/ünï"] = Encoding.UTF8.GetBytes("text of it");
        files["empty"] = [];
        foreach ((string key, byte[] data) in files)
        {
            string path = Path.Combine(Source, key);
            Directory.CreateDirectory(Path.GetDirectoryName(path)!);
            File.WriteAllBytes(path, data);
        }

        return files;
    }
}
