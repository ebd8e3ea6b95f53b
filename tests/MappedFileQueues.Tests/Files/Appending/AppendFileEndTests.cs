using System.Globalization;
using MappedFileQueues.Files;
using MappedFileQueues.Memory;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Files.Appending;

/// <summary>
/// Where a file ends. The default options took zeros at the end for room that nobody wrote to: a stream that had written
/// `010203 0000000000` and was closed lost five bytes at the next opening, and a file of 1,000 zeros all of them.
/// </summary>
public sealed class AppendFileEndTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);

    private string FilePath => _temp.PathOf("app.log");

    private string MarkPath => FilePath + ".roll-room";

    public void Dispose() => _temp.Dispose();

    [Theory]
    [MemberData(nameof(PlatformScope.Platforms), MemberType = typeof(PlatformScope))]
    public void Open_DefaultOptions_KeepsTheZerosThatWereWritten(bool portable)
    {
        PlatformScope.Use(portable);
        byte[] first = [1, 2, 3, 0, 0, 0, 0, 0];
        using (AppendFileStream stream = new(FilePath))
            stream.Write(first);
        using (AppendFileStream stream = new(FilePath))
            stream.Write([9]);
        Assert.Equal([.. first, 9], File.ReadAllBytes(FilePath));

        string zeros = _temp.PathOf("zeros");
        File.WriteAllBytes(zeros, new byte[1000]);
        new AppendFileStream(zeros).Dispose();
        Assert.Equal(new byte[1000], File.ReadAllBytes(zeros));
    }

    /// <summary>
    /// Zeros that a killed process left as room are known by the mark beside the file, also to one who says nothing of text.
    /// </summary>
    [Theory]
    [InlineData(false, FilePreallocation.WrittenZeros)]
    [InlineData(false, FilePreallocation.ZeroRange)]
    [InlineData(true, FilePreallocation.WrittenZeros)]
    [Trait("Category", "Slow")]
    public void Open_AfterAKill_CutsTheRoomAndNothingElse(bool portable, FilePreallocation preallocation)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Children are killed by signals on Linux only.");
        PlatformScope.Use(portable);
        Kill(portable, preallocation);
        Assert.True(File.Exists(MarkPath));
        Assert.Equal(0, File.ReadAllBytes(FilePath)[^1]);

        new AppendFileStream(FilePath).Dispose();
        byte[] bytes = File.ReadAllBytes(FilePath);
        Assert.DoesNotContain((byte)0, bytes);
        Assert.False(File.Exists(MarkPath));

        // Once more: the mark is gone, and so nothing is room.
        File.WriteAllBytes(FilePath, [.. bytes, 0, 0]);
        new AppendFileStream(FilePath).Dispose();
        Assert.Equal(bytes.Length + 2, new FileInfo(FilePath).Length);
    }

    /// <summary>
    /// NTFS gives a file the time of creation of the one that had its name up to 15 seconds before, also when it is renamed. A
    /// file that a roll began was marked before it had its name, and kept the zeros of its room after a kill.
    /// </summary>
    [Fact]
    public void Open_TheRollChangedTheTimeOfCreation_CutsTheRoom()
    {
        PlatformScope.Use(portable: true);
        DateTimeOffset birth = DateTimeOffset.UnixEpoch;
        _ = new FaultyDisk
        {
            Birth = () => birth,
            Before = (call, name) =>
            {
                if (call == DiskCall.Renamed && name == "app.log")
                    birth += TimeSpan.FromDays(1);
            },
        };
        AppendFileOptions options = new()
        {
            RollLength = 1000,
            Preallocation = FilePreallocation.WrittenZeros,
            Content = FileContent.Text,
        };
        string copy = _temp.PathOf("copy.log");
        using (AppendFileStream stream = new(FilePath, options))
        {
            stream.Write(Enumerable.Repeat((byte)'x', 1000).ToArray());
            stream.Write("next"u8);
            stream.Flush();
            // What a kill would leave.
            File.WriteAllBytes(copy, TempStore.ReadOpenFile(FilePath));
            File.Copy(MarkPath, copy + ".roll-room");
        }

        Assert.Equal(0, File.ReadAllBytes(copy)[^1]);
        new AppendFileStream(copy).Dispose();
        Assert.Equal("next", File.ReadAllText(copy));
    }

    [Fact]
    public void Open_AfterAKillAndARestore_IsAnotherFileAndStaysWhole()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Children are killed by signals on Linux only.");
        Kill(portable: false, FilePreallocation.WrittenZeros);
        byte[] bytes = new byte[3000];
        File.WriteAllBytes(_temp.PathOf("restored"), bytes);
        File.Move(_temp.PathOf("restored"), FilePath, overwrite: true);
        new AppendFileStream(FilePath).Dispose();
        Assert.Equal(bytes, File.ReadAllBytes(FilePath));
    }

    /// <summary>
    /// A small ext4 has inodes without a time of creation, and gives the number of a deleted file to the next one: a restored
    /// file of a million bytes that ended with zeros lost most of them.
    /// </summary>
    [Fact]
    public void Open_MarkKnowsNoTimeOfCreation_NothingIsCut()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Children are killed by signals on Linux only.");
        Kill(portable: false, FilePreallocation.WrittenZeros);
        long length = new FileInfo(FilePath).Length;
        byte[] mark = File.ReadAllBytes(MarkPath);
        mark.AsSpan(16, sizeof(long)).Clear();
        BitConverter.TryWriteBytes(mark.AsSpan(32), Crc32C.Compute(mark.AsSpan(0, 32)));
        File.WriteAllBytes(MarkPath, mark);
        new AppendFileStream(FilePath).Dispose();
        Assert.Equal(length, new FileInfo(FilePath).Length);
    }

    [Fact]
    public void Open_MarkIsDamaged_NothingIsCut()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Children are killed by signals on Linux only.");
        Kill(portable: false, FilePreallocation.WrittenZeros);
        long length = new FileInfo(FilePath).Length;
        byte[] mark = File.ReadAllBytes(MarkPath);
        mark[24] ^= 1;
        File.WriteAllBytes(MarkPath, mark);
        new AppendFileStream(FilePath).Dispose();
        Assert.Equal(length, new FileInfo(FilePath).Length);
    }

    /// <summary>
    /// The first entry after a crash was after the torn line before it, on the same line: no parser took either.
    /// </summary>
    [Theory]
    [MemberData(nameof(PlatformScope.Platforms), MemberType = typeof(PlatformScope))]
    public void Open_LinesAndATornOne_BeginsOnANewLine(bool portable)
    {
        PlatformScope.Use(portable);
        AppendFileOptions lines = new() { Content = FileContent.Lines, Durability = AppendDurability.PageCache };
        File.WriteAllText(FilePath, "whole\n{\"torn");
        using (AppendFileStream stream = new(FilePath, lines))
        {
            Assert.Equal(0, stream.AcceptedLength);
            stream.Write("next\n"u8);
            stream.Flush(durable: true);
            Assert.Equal((5, 5), (stream.WrittenLength, stream.FlushedLength));
        }

        new AppendFileStream(FilePath, lines).Dispose();
        Assert.Equal("whole\n{\"torn\nnext\n", File.ReadAllText(FilePath));

        // Nothing is put before the first line of an empty file, nor into a text that is none of lines.
        File.WriteAllText(FilePath, "");
        new AppendFileStream(FilePath, lines).Dispose();
        Assert.Equal("", File.ReadAllText(FilePath));
        File.WriteAllText(FilePath, "torn");
        new AppendFileStream(FilePath, lines with { Content = FileContent.Text }).Dispose();
        Assert.Equal("torn", File.ReadAllText(FilePath));
    }

    [Theory]
    [InlineData(4095)]
    [InlineData(4096)]
    [InlineData(9999)]
    [InlineData(10_000)]
    public void Open_TornLineAtAnEdge_BeginsOnANewLineOrInTheNextFile(int length)
    {
        const int RollLength = 10_000;
        File.WriteAllText(FilePath, new string('t', length));
        AppendFileOptions options = new() { Content = FileContent.Lines, RollLength = RollLength };
        using (AppendFileStream stream = new(FilePath, options))
        {
            for (int i = 0; i < 5; i++)
                stream.Write("next\n"u8);
        }

        string all = string.Concat(
            Directory.EnumerateFiles(_temp.StorePath, "app.roll-0*").Order().Append(FilePath).Select(File.ReadAllText));
        string expected = new string('t', length) + (length < RollLength ? "\n" : "")
            + string.Concat(Enumerable.Repeat("next\n", 5));
        Assert.Equal(expected, all);
        Assert.All(
            Directory.EnumerateFiles(_temp.StorePath, "app.*log"),
            file => Assert.InRange(new FileInfo(file).Length, 0, RollLength));
    }

    private void Kill(bool portable, FilePreallocation preallocation)
    {
        string[] platform = portable ? ["--portable"] : [];
        using ChildProcess child = ChildProcess.StartPeer(
            [.. platform, "append", FilePath, preallocation.ToString(), "0", 0.ToString(CultureInfo.InvariantCulture)]);
        int flushes = 0;
        child.WaitForLine(line => line.StartsWith("flushed ", StringComparison.Ordinal) && ++flushes == 20);
        child.KillAndWait();
    }
}
