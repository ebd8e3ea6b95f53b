using System.Globalization;
using System.Text.RegularExpressions;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Packs;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Hostile;

/// <summary>
/// A disk that cannot give a page of a store. The story: one bad sector under a mapped segment ended the process that read it
/// with exit code 134 (SIGBUS), where the same sector met by an opener was an exception. Nothing could be caught, and whoever
/// started the process again ran into the same sector.
/// </summary>
[Trait("Category", "Slow")]
public sealed partial class BadSectorTests : IDisposable
{
    private const int Count = 6_001;
    private const int Bad = 4_000;
    private const int Page = 4096;
    private const long SegmentSize = 4 << 20;

    private readonly TempStore _temp = new();
    private readonly List<long> _offsets = [];

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// All ways to read: what is before the bad page is read, the rest is an exception that says where. A queue is open
    /// beside, so that no opener reads the log before.
    /// </summary>
    [Theory]
    [InlineData("consume", false)]
    [InlineData("consume", true)]
    [InlineData("batch", false)]
    [InlineData("async", false)]
    [InlineData("read", false)]
    [InlineData("read", true)]
    public void Read_APageThatTheDiskCannotGive_Throws(string what, bool portable)
    {
        using MountedFileSystem disk = MountedFileSystem.Make("btrfs", _temp.Root, lengthMiB: 256);
        string path = MakeWithChecksums(disk);
        using MappedFileQueue beside = Open(path);
        Fill(beside);
        disk.Spoil(SegmentOf(path), Message(Bad));

        List<(int Count, int Errno, string Message)> answers = Ask(path, what, portable);

        long badPage = (_offsets[Bad] + 8) / Page * Page;
        int whole = _offsets.Count(offset => offset + 8 + Message(0).Length <= badPage);
        Assert.All(answers, answer =>
        {
            Assert.Equal((whole, DiskErrors.EIO), (answer.Count, answer.Errno));
            Assert.Contains($"offset={badPage}", answer.Message, StringComparison.Ordinal);
            Assert.Contains(SegmentOf(path), answer.Message, StringComparison.Ordinal);
        });
    }

    /// <summary>The way in which it was found: the device of a mounted ext4 has become smaller.</summary>
    [Fact]
    public void Read_TheDeviceHasShrunk_Throws()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("ext4", _temp.Root, lengthMiB: 32);
        string path = disk.PathOf("store");
        using MappedFileQueue beside = Open(path);
        Fill(beside);
        long length = new FileInfo(disk.ImagePath).Length;
        disk.CutOffAt(SegmentOf(path), Message(Bad));

        (int count, int errno, string message) = Ask(path, "read", portable: false)[0];

        // Unmounting writes.
        disk.Resize(length);
        Assert.Equal(DiskErrors.EIO, errno);
        Assert.True(count is > 0 and <= Bad, message);
    }

    /// <summary>
    /// Whoever appends, flushes or seeks walks over the headers of others, by loads too.
    /// </summary>
    [Theory]
    [InlineData("flush", false)]
    [InlineData("flush", true)]
    [InlineData("seek", false)]
    [InlineData("produce", false)]
    [InlineData("produce", true)]
    public void Walk_OverAPageThatTheDiskCannotGive_Throws(string what, bool portable)
    {
        using MountedFileSystem disk = MountedFileSystem.Make("btrfs", _temp.Root, lengthMiB: 256);
        string path = MakeWithChecksums(disk);
        using MappedFileQueue beside = Open(path);
        Fill(beside, flushes: false);
        // A producer meets the page in which the log ends.
        disk.Spoil(SegmentOf(path), Message(what == "produce" ? Count - 1 : Bad));

        Assert.All(Ask(path, what, portable, _offsets[^1]), answer => Assert.Equal(DiskErrors.EIO, answer.Errno));
    }

    [Fact]
    public void OpenConsumer_ItsNextMessageIsNotToBeHad_Throws()
    {
        using MountedFileSystem disk = MountedFileSystem.Make("btrfs", _temp.Root, lengthMiB: 256);
        string path = MakeWithChecksums(disk);
        using (MappedFileQueue queue = Open(path))
        {
            Fill(queue);
            queue.OpenConsumer("stays", QueueStart.FromOffset(_offsets[Bad])).Dispose();
        }

        disk.Spoil(SegmentOf(path), Message(Bad));

        Assert.All(Ask(path, "name", portable: false), answer => Assert.Equal(DiskErrors.EIO, answer.Errno));
    }

    /// <summary>The pages that everybody maps and nobody reads otherwise.</summary>
    [Theory]
    [InlineData("control", "open")]
    [InlineData("control", "read")]
    [InlineData("offset/consumer.cursor", "consume")]
    [InlineData("locks/slots", "produce")]
    public void Open_ASmallFileThatTheDiskCannotGive_Throws(string file, string what)
    {
        using MountedFileSystem disk = MountedFileSystem.Make("btrfs", _temp.Root, lengthMiB: 256);
        string path = MakeWithChecksums(disk);
        using (MappedFileQueue queue = Open(path))
        {
            Fill(queue);
            queue.Consumer.Consume();
            queue.Consumer.Commit();
        }

        byte[] content = File.ReadAllBytes(Path.Combine(path, file));
        disk.Spoil(Path.Combine(path, file), content.AsSpan(0, Page));

        Assert.All(Ask(path, what, portable: false), answer => Assert.Equal(DiskErrors.EIO, answer.Errno));
    }

    /// <summary>What a mapped file has lost cannot be looked at either; the reader is in it already.</summary>
    [Fact]
    public void Consume_SegmentTruncatedUnderTheReader_Throws()
    {
        using CrashStore store = new(SegmentSize);
        using (MappedFileQueue queue = store.Open())
            CrashStore.Append(queue, Enumerable.Range(0, 50_000).Select(i => $"message-{i}"));
        using PeerAgent agent = store.StartAttached();
        Assert.Equal("message-0", agent.Ask("consume count=1"));

        using (FileStream segment = new(SegmentOf(store.Path), FileMode.Open, FileAccess.Write, FileShare.ReadWrite))
            segment.SetLength(1 << 20);

        string error = agent.AskForError("consume count=50000");
        Assert.StartsWith(nameof(QueueCorruptException), error, StringComparison.Ordinal);
        Assert.Contains($"length={1 << 20}", error, StringComparison.Ordinal);
        agent.Ask("close");
    }

    /// <summary>
    /// A member of a group that goes back in a segment may come to pages which it has jumped over and never asked for. It took
    /// them for asked for, and what was no longer there ended the process.
    /// </summary>
    [Fact]
    public void TakeReturned_SegmentTruncatedBetweenWhatTheMemberHasRead_Throws()
    {
        const int Length = 1 << 20;
        string path = Path.Combine(_temp.Root, "store");
        using (MappedFileQueue queue = Open(path))
            Fill(queue);

        (int count, _, string message) = Ask(path, "group", portable: false, Length)[0];

        Assert.Equal(_offsets.Count(offset => offset + 8 + Message(0).Length <= Length) - 1, count);
        Assert.Contains($"length={Length}", message, StringComparison.Ordinal);
    }

    /// <summary>
    /// A store whose files btrfs keeps checksums of, by which it notices what <see cref="MountedFileSystem.Spoil"/> changes. It
    /// has none of files that are overwritten in place, which those of a store are, unless it was copied.
    /// </summary>
    private string MakeWithChecksums(MountedFileSystem disk)
    {
        string made = Path.Combine(_temp.Root, "made");
        Open(made).Dispose();
        MountedFileSystem.Run("cp", "-r", made, disk.PathOf("store"));
        return disk.PathOf("store");
    }

    private static MappedFileQueue Open(string path) => new(new MappedFileQueueOptions
    {
        StorePath = path,
        SegmentSize = SegmentSize,
        Durability = DurabilityLevel.PageCache,
    });

    private static string SegmentOf(string path) => Path.Combine(path, "commitlog", new string('0', 20) + ".log");

    private static byte[] Message(int number) => PackBytes.Make(500, number);

    /// <summary>Flushed, so that the next opener has nothing to read.</summary>
    private void Fill(MappedFileQueue queue, bool flushes = true)
    {
        using MappedFileProducer producer = queue.OpenProducer();
        for (int number = 0; number < Count; number++)
            _offsets.Add(producer.Produce(Message(number)));
        if (flushes)
            queue.Flush();
    }

    private static List<(int Count, int Errno, string Message)> Ask(string path, string what, bool portable, long offset = 0)
    {
        string[] platform = portable ? ["--portable"] : [];
        using ChildProcess child = ChildProcess.StartPeer(
            [.. platform, "bad-sector", path, what, offset.ToString(CultureInfo.InvariantCulture)]);
        child.ExpectExit();
        return [.. child.Lines.Select(line => AnswerPattern().Match(line)).Where(match => match.Success)
            .Select(match => (Number(match, 1), Number(match, 2), match.Groups[3].Value))];
    }

    private static int Number(Match match, int group) => int.Parse(match.Groups[group].Value, CultureInfo.InvariantCulture);

    [GeneratedRegex(@"^count=(\d+) errno=(\d+) (.*)$")]
    private static partial Regex AnswerPattern();
}
