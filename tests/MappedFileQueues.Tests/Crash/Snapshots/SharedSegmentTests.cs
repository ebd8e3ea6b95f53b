using System.Globalization;
using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Tests.Crash.Cuts;
using MappedFileQueues.Tests.Platform;

namespace MappedFileQueues.Tests.Crash.Snapshots;

/// <summary>
/// A store and its snapshot share files. What happens to one of them, and recovers, leaves the other as it was.
/// </summary>
[Trait("Category", "Slow")]
public sealed partial class SharedSegmentTests : IDisposable
{
    private const long SegmentSize = 4096;

    private readonly TempStore _temp = new();

    private string Target => Path.Combine(_temp.Root, "snapshot");

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// Two processes produce while snapshots are taken: every snapshot is a whole log up to one offset, and goes its own way.
    /// They go on until they see that a snapshot is there: a fixed number of messages was at an end before it on a busy machine.
    /// </summary>
    [Fact]
    public void Snapshot_TwoProcessesProduce_EachIsAWholeBeginning()
    {
        using var store = new CrashStore(1 << 20);
        using MappedFileQueue queue = store.Open();
        using PeerAgent left = store.StartAttached();
        using PeerAgent right = store.StartAttached();
        string nextLeft = "0";
        string nextRight = "0";
        for (int round = 0; round < 3; round++)
        {
            long before = queue.GetInfo().PublishedOffset;
            string target = Invariant($"{Target}-{round}");
            string stop = target + ".taken";
            left.Send($"pour prefix=left size=100 count=2000 first={nextLeft} until={stop}");
            right.Send($"pour prefix=right size=300 count=2000 first={nextRight} until={stop}");
            Eventually.True(() => queue.GetInfo().PublishedOffset > before + (3 << 20), "both produce");
            long end = queue.Snapshot(target);
            File.WriteAllBytes(stop, []);
            nextLeft = AnswerOk(left);
            nextRight = AnswerOk(right);

            Assert.True(queue.GetInfo().PublishedOffset > end, "Nobody produced beside the snapshot.");
            Assert.Equal(end, StoreInspector.Inspect(target).PublishedOffset);
            ExpectBeginning(ReadTrace(target));
            using MappedFileQueue copy = OpenAt(target);
            CrashStore.Append(copy, "own");
            using MappedFileConsumer last = copy.OpenConsumer("last", QueueStart.FromOffset(end));
            Assert.Equal("own", CrashMessage.Read(last.Consume()));
        }

        List<string> all = CrashStore.ReadAll(queue, "look");
        Assert.Equal(Number(nextLeft) + Number(nextRight), all.Count);
        ExpectBeginning(all);

        static int Number(string text) => int.Parse(text, CultureInfo.InvariantCulture);
    }

    [Fact]
    public void Snapshot_FullSegments_AreLinkedAndTheLastIsACopy()
    {
        using var store = new CrashStore(SegmentSize);
        using MappedFileQueue queue = store.Open();
        List<string> texts = Append(queue, 200);
        long end = queue.Snapshot(Target);
        long lastStart = end - (end % SegmentSize);

        Assert.True(lastStart >= 3 * SegmentSize);
        for (long start = 0; start <= lastStart; start += SegmentSize)
        {
            int names = start < lastStart ? 2 : 1;
            Assert.Equal((uint)names, CountNames(Path.Combine(store.Path, StoreNames.Segment(start))));
            Assert.Equal((uint)names, CountNames(Path.Combine(Target, StoreNames.Segment(start))));
            Assert.Equal(SegmentSize, new FileInfo(Path.Combine(Target, StoreNames.Segment(start))).Length);
        }

        Assert.Equal(texts, ReadTrace(Target));
    }

    /// <summary>A reader that may write nothing reads a snapshot that nobody has opened.</summary>
    [Fact]
    public void Snapshot_ReadWithoutATrace_StaysAsItWas()
    {
        using var store = new CrashStore(SegmentSize);
        using MappedFileQueue queue = store.Open();
        List<string> texts = Append(queue, 200);
        queue.Snapshot(Target);
        string[] before = Directory.GetFileSystemEntries(Target, "*", SearchOption.AllDirectories);

        using (MappedFileReader reader = MappedFileReader.Open(Target))
        {
            foreach (string text in texts)
            {
                Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
                Assert.Equal(text, CrashMessage.Read(message));
            }

            Assert.False(reader.TryRead(out _));
        }

        Assert.Equal(before.Order(), Directory.GetFileSystemEntries(Target, "*", SearchOption.AllDirectories).Order());
    }

    /// <summary>Both recover as after a power loss, each in a boot of its own, and both continue afterwards.</summary>
    [Fact]
    public void PowerCut_OfSourceAndSnapshot_BothAreWhole()
    {
        using var store = new CrashStore(SegmentSize);
        List<string> texts;
        using (MappedFileQueue queue = store.Open())
        {
            texts = Append(queue, 200);
            queue.Snapshot(Target);
            Append(queue, 100, 200);
        }

        foreach (string path in new[] { store.Path, Target })
        {
            using PeerAgent opener = PeerAgent.Start(Guid.NewGuid());
            opener.Ask($"open path={path}");
            opener.Ask("append prefix=own size=100 count=50");
            opener.Ask("close");
        }

        Assert.Equal(texts, ReadTrace(Target).Take(200));
        Assert.Equal("own-49", ReadTrace(Target)[^1]);
        Assert.Equal(texts, ReadTrace(store.Path).Take(200));
        Assert.Equal("own-49", ReadTrace(store.Path)[^1]);
    }

    /// <summary>
    /// The source's checkpoint is lost, and a message that the snapshot holds too cannot be read any more: the source's log ends
    /// there. The cut zeroes what is after it in that segment, which was one file of both.
    /// </summary>
    [Fact]
    public void PowerCut_SourceIsCutBelowTheSnapshotsEnd_SnapshotKeepsWhatIsBehindIt()
    {
        using CutStore cut = CutStore.Make(SegmentSize, 60, flushes: true);
        using (MappedFileQueue queue = cut.Store.Open())
            queue.Snapshot(Target);
        string segment = Path.Combine(Target, StoreNames.Segment(SegmentSize));
        using (var words = new StoreWords(cut.Store.Path))
            words.ResetCheckpoint();
        int damaged = cut.Offsets.FindIndex(offset => offset > SegmentSize + 1000);
        cut.Damage(damaged);
        byte[] before = File.ReadAllBytes(segment);

        cut.Recover();

        Assert.Equal(cut.Texts.Take(damaged), ReadTrace(cut.Store.Path));
        Assert.Equal(before, File.ReadAllBytes(segment));
        Assert.Equal(1u, CountNames(segment));
        using MappedFileQueue copy = OpenAt(Target, CorruptionPolicy.SkipMessage);
        Assert.Equal(
            cut.Texts.Where((_, index) => index != damaged), CrashStore.ReadAll(copy, "look"));
    }

    /// <summary>After poison the source gets new files; the snapshot keeps the ones that were flushed.</summary>
    [Fact]
    public void Poison_OfTheSource_LeavesTheSnapshot()
    {
        using var store = new CrashStore(SegmentSize);
        List<string> texts;
        using (MappedFileQueue queue = store.Open())
        {
            texts = Append(queue, 200);
            queue.Snapshot(Target);
            Append(queue, 100, 200);
        }

        File.WriteAllBytes(Path.Combine(store.Path, StoreNames.Poison), []);
        using (MappedFileQueue queue = store.Open())
            Append(queue, 10, 300);

        Assert.Equal(texts, ReadTrace(Target));
        using MappedFileQueue copy = OpenAt(Target);
        CrashStore.Append(copy, "own");
        Assert.Equal([.. texts, "own"], CrashStore.ReadAll(copy, "look"));
    }

    /// <summary>The disk of the target is full: the error says so, nothing is left, and the source continues.</summary>
    [Fact]
    public void Snapshot_TargetsDiskIsFull_ThrowsAndLeavesNothing()
    {
        using var store = new CrashStore(1 << 20);
        using MappedFileQueue queue = store.Open();
        List<string> texts = Append(queue, 20_000, size: 500);
        using MountedFileSystem disk = MountedFileSystem.Make("ext4", _temp.Root, 8);
        string target = disk.PathOf("snapshot");

        QueueDiskException full = Assert.Throws<QueueDiskException>(() => queue.Snapshot(target));

        Assert.Equal(28, full.Errno);
        Assert.False(Directory.Exists(target));
        Append(queue, 10, 20_000);
        queue.Snapshot(Target);
        Assert.Equal(texts, ReadTrace(Target).Take(20_000));
    }

    /// <summary>Another file system: every segment is copied.</summary>
    [Fact]
    public void Snapshot_ToAnotherFileSystem_IsACopy()
    {
        using var store = new CrashStore(SegmentSize);
        using MappedFileQueue queue = store.Open();
        List<string> texts = Append(queue, 200);
        using MountedFileSystem disk = MountedFileSystem.Make("tmpfs", _temp.Root, 16);
        string target = disk.PathOf("snapshot");

        queue.Snapshot(target);

        Assert.Equal(1u, CountNames(Path.Combine(store.Path, StoreNames.Segment(0))));
        Assert.Equal(texts, ReadTrace(target));
        using MappedFileQueue copy = OpenAt(target);
        CrashStore.Append(copy, "own");
        Assert.Equal([.. texts, "own"], CrashStore.ReadAll(copy, "look"));
    }

    private static MappedFileQueue OpenAt(string path, CorruptionPolicy corruption = CorruptionPolicy.Throw) => new(
        new MappedFileQueueOptions
        {
            StorePath = path,
            CreateIfMissing = false,
            Durability = DurabilityLevel.PageCache,
            Corruption = corruption,
        });

    private static List<string> Append(MappedFileQueue queue, int count, int from = 0, int size = 100)
    {
        List<string> texts = [];
        using MappedFileProducer producer = queue.OpenProducer();
        for (int i = from; i < from + count; i++)
        {
            texts.Add(Invariant($"m-{i}"));
            producer.Produce(CrashMessage.Make(texts[^1], size));
        }

        return texts;
    }

    private static List<string> ReadTrace(string path)
    {
        using MappedFileReader reader = MappedFileReader.Open(path);
        List<string> texts = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            texts.Add(CrashMessage.Read(message));
        return texts;
    }

    /// <summary>Of each producer the first messages, without a gap and in order.</summary>
    private static void ExpectBeginning(List<string> texts)
    {
        foreach (string prefix in new[] { "left", "right" })
        {
            List<string> own = [.. texts.Where(text => text.StartsWith(prefix, StringComparison.Ordinal))];
            Assert.NotEmpty(own);
            Assert.Equal(Enumerable.Range(0, own.Count).Select(i => Invariant($"{prefix}-{i}")), own);
        }
    }

    private static string AnswerOk(PeerAgent agent)
    {
        string answer = agent.Answer();
        Assert.StartsWith("ok ", answer, StringComparison.Ordinal);
        return answer[3..];
    }

    private static string Invariant(FormattableString text) => text.ToString(CultureInfo.InvariantCulture);

    private static uint CountNames(string path)
    {
        // struct stat of x64 and arm64 differ; statx(2) has one layout: stx_nlink is the word at 16.
        Span<byte> state = stackalloc byte[256];
        nint number = RuntimeInformation.ProcessArchitecture == Architecture.Arm64 ? 291 : 332;
        Assert.Equal(0, Statx(number, -100, path, 0, 4, ref MemoryMarshal.GetReference(state)));
        return BitConverter.ToUInt32(state[16..]);
    }

    [LibraryImport("libc", EntryPoint = "syscall", StringMarshalling = StringMarshalling.Utf8)]
    private static partial nint Statx(nint number, nint directory, string path, nint flags, nint mask, ref byte result);
}
