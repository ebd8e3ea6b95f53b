using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Platform;

/// <summary>A file that is replaced as a whole. What a crash leaves is the laboratory's business.</summary>
public sealed class WholeFileTests
{
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Install_OverAnOlderFile_LeavesTheNewContentsAlone(bool portable)
    {
        using var held = new Held(portable);
        File.WriteAllText(held.PathOf("name"), "what stood there before, and longer");
        File.WriteAllText(held.PathOf("name.tmp"), "what a crash left of an earlier try, longer still");

        WholeFile.Write(held.Directory, "name", file => file.WriteAt("new"u8, 0));
        Assert.Equal("what stood there before, and longer", File.ReadAllText(held.PathOf("name")));
        WholeFile.Install(held.Directory, "name");

        Assert.Equal("new", File.ReadAllText(held.PathOf("name")));
        Assert.False(File.Exists(held.PathOf("name.tmp")));
    }

    [Fact]
    public void Write_FillFails_LeavesTheOldFileAndNoTemporary()
    {
        using var held = new Held(portable: false);
        File.WriteAllText(held.PathOf("name"), "old");

        Assert.Throws<InvalidOperationException>(() => WholeFile.Write(held.Directory, "name", file =>
        {
            file.WriteAt("half of it"u8, 0);
            throw new InvalidOperationException();
        }));

        Assert.Equal("old", File.ReadAllText(held.PathOf("name")));
        Assert.False(File.Exists(held.PathOf("name.tmp")));
    }

    [Fact]
    public void CopyNonZero_FileWithAHole_CopiesTheBytesAndKeepsTheHole()
    {
        using var held = new Held(portable: false);
        const int HoleLength = 8 << 20;
        using (FileStream made = File.Create(held.PathOf("from")))
        {
            made.Write("skipped, then "u8);
            made.Write("head"u8);
            made.Position += HoleLength;
            made.Write("tail"u8);
        }

        long end = new FileInfo(held.PathOf("from")).Length;
        using PlatformFile from = held.Directory.Open("from", FileOpening.Read)!;
        using PlatformFile copy = held.Directory.Open("copy", FileOpening.CreateNew)!;
        from.CopyNonZero(copy, "skipped, then ".Length, end);

        Assert.Equal(File.ReadAllBytes(held.PathOf("from"))["skipped, then ".Length..], File.ReadAllBytes(held.PathOf("copy")));
        Assert.True(copy.AllocatedLength < HoleLength / 2, $"allocated={copy.AllocatedLength}");
    }

    private sealed class Held : IDisposable
    {
        private readonly TempStore _temp = new();

        public Held(bool portable)
        {
            PlatformScope.Use(portable);
            Directory = CurrentPlatform.Services.OpenDirectory(_temp.StorePath, create: true, mode: null)!;
        }

        public HeldDirectory Directory { get; }

        public string PathOf(string name) => Path.Combine(_temp.StorePath, name);

        public void Dispose()
        {
            Directory.Dispose();
            _temp.Dispose();
        }
    }
}
