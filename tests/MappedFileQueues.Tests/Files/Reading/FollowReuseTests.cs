using System.Globalization;
using System.Runtime.Versioning;
using System.Text;
using MappedFileQueues.Files;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Files.Reading;

/// <summary>What a reader that follows a log must not take for new lines, or for lines at all.</summary>
[SupportedOSPlatform("linux")]
public sealed class FollowReuseTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);

    public FollowReuseTests() => Assert.SkipUnless(OperatingSystem.IsLinux(), "Inodes are Linux's here.");

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A reader that was slow kept reading a closed file while the stream wrote it again (ReuseOldFiles): it returned 49 to 57
    /// lines that began in the old content and ended in the new one, or were cut.
    /// </summary>
    [Theory]
    [InlineData(0, 1)]
    [InlineData(1, 1)]
    [InlineData(1, 4)]
    [InlineData(2, 2)]
    [InlineData(3, 5)]
    public void Follow_FileIsWrittenAgainMeanwhile_EveryLineIsWholeAndInOrder(int retained, int files)
    {
        const int RollLength = 100_000;
        int next = 0;
        List<int> read = [];
        using AppendFileStream stream = new(FilePath, new AppendFileOptions
        {
            RollLength = RollLength,
            BufferLength = 8192,
            RetainedFileCount = retained,
            ReuseOldFiles = true,
            Content = FileContent.Lines,
            Durability = AppendDurability.PageCache,
        });
        WriteUpTo(RollLength / 2);
        using MappedFileLines lines = MappedFileLines.Open(
            FilePath, new MappedFileLinesOptions { BlockSize = 4096, BlocksAhead = 1, FollowRolls = true, Follow = true });
        Read();
        for (int round = 0; round < 4; round++)
        {
            WriteUpTo(RollLength * files);
            for (int i = 0; i < 100; i++)
                Read();
        }

        stream.Dispose();
        lines.StopFollowing();
        while (Read())
        {
        }

        Assert.Equal(read.Distinct().Order(), read);
        Assert.Equal(next - 1, read[^1]);

        bool Read()
        {
            if (!lines.TryRead(out ReadOnlySpan<byte> line))
                return false;
            string text = Encoding.UTF8.GetString(line);
            int number = int.Parse(text.AsSpan(0, 8), CultureInfo.InvariantCulture);
            Assert.Equal(LineOf(number).TrimEnd(), text);
            read.Add(number);
            return true;
        }

        void WriteUpTo(int length)
        {
            for (int written = 0; written < length;)
            {
                byte[] line = Encoding.UTF8.GetBytes(LineOf(next++));
                stream.Write(line);
                written += line.Length;
            }

            stream.Flush();
        }
    }

    /// <summary>`cp app.log app.log.1; rm app.log`: 1,174 lines came twice, once from the file and once from its copy.</summary>
    [Fact]
    public async Task Follow_FileIsCopiedAndDeleted_EveryLineComesOnce()
    {
        const int Count = 1000;
        File.WriteAllText(FilePath, Lines(0, Count));
        using MappedFileLines lines = MappedFileLines.Open(
            FilePath, new MappedFileLinesOptions { FollowRolls = true, Follow = true });
        for (int i = 0; i < Count; i++)
            Assert.Equal(LineOf(i).TrimEnd(), Next());

        // The last line was written after the copy was made.
        MountedFileSystem.Run("cp", FilePath, FilePath + ".1");
        File.AppendAllText(FilePath, LineOf(Count));
        File.Delete(FilePath);
        File.WriteAllText(FilePath, Lines(Count + 1, Count));
        await Task.Run(() =>
        {
            for (int i = Count; i < 2 * Count; i++)
                Assert.Equal(LineOf(i).TrimEnd(), Next());
        }).WaitAsync(TimeSpan.FromSeconds(60));

        string Next()
        {
            Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
            return Encoding.UTF8.GetString(line);
        }
    }

    /// <summary>
    /// A program that begins each file with the same line and was started twice: the second file was taken for a copy of the
    /// first, which was deleted by then, and its line left out.
    /// </summary>
    [Fact]
    public async Task Follow_AnotherFileBeginsAsTheDeletedOne_ItsLinesCome()
    {
        File.WriteAllText(FilePath, Lines(0, 2));
        using MappedFileLines lines = MappedFileLines.Open(
            FilePath, new MappedFileLinesOptions { FollowRolls = true, Follow = true });
        Assert.True(lines.TryRead(out _));
        Assert.True(lines.TryRead(out _));

        // The kernel's clock of files moves each 4 ms at the slowest.
        Thread.Sleep(20);
        File.Move(FilePath, FilePath + ".1");
        File.WriteAllText(FilePath + ".new", Lines(0, 1));
        File.Delete(FilePath + ".1");
        File.Move(FilePath + ".new", FilePath + ".1");
        Thread.Sleep(20);
        File.WriteAllText(FilePath, Lines(2, 1));

        await Task.Run(() =>
        {
            foreach (int number in new[] { 0, 2 })
            {
                Assert.True(lines.TryRead(out ReadOnlySpan<byte> line));
                Assert.Equal(LineOf(number).TrimEnd(), Encoding.UTF8.GetString(line));
            }
        }).WaitAsync(TimeSpan.FromSeconds(60));
    }

    private static string Lines(int first, int count) => string.Concat(Enumerable.Range(first, count).Select(LineOf));

    private static string LineOf(int number) =>
        string.Create(CultureInfo.InvariantCulture, $"{number:D8} {new string('x', number % 97)} {number:D8}\n");
}
