using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.StoreFiles;

/// <summary>How a producer with a limit finds the slowest consumer.</summary>
public sealed class ConsumerCursorsTests : IDisposable
{
    private const int Limit = 1000;

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// A process was killed in DeleteConsumer, after the cursor's file was gone and before it said so. Producers kept the mapping
    /// of the file: calls that do not wait were refused for good.
    /// </summary>
    [Theory]
    [InlineData(FullMode.Wait)]
    [InlineData(FullMode.Throw)]
    public void Produce_RemoverOfTheSlowestDied_GoesOn(FullMode mode)
    {
        using MappedFileQueue queue = OpenFull(mode);
        using (PeerAgent agent = PeerAgent.Start())
        {
            agent.Ask($"open path={_temp.StorePath}");
            agent.Trap("CursorDeleted", hit: 1);
            agent.Send("delete name=slow");
            agent.ExpectKilled();
        }

        CheckGoesOn(queue, mode);
    }

    /// <summary>The same after an operator's `rm`.</summary>
    [Theory]
    [InlineData(FullMode.Wait)]
    [InlineData(FullMode.Throw)]
    public void Produce_CursorOfTheSlowestWasRemovedByHand_GoesOn(FullMode mode)
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "A mapped file cannot be removed there.");
        using MappedFileQueue queue = OpenFull(mode);
        File.Delete(_temp.PathOf(StoreNames.Cursor("slow")));

        CheckGoesOn(queue, mode);
    }

    /// <summary>
    /// A call whose time is up looks at the cursors once more, for its message. Where that look failed, for want of a descriptor,
    /// its error took the place of the call's own.
    /// </summary>
    [Theory]
    [InlineData(FullMode.Wait)]
    [InlineData(FullMode.Throw)]
    public void Produce_CursorsCannotBeReadForTheMessage_IsTheCallsOwnError(FullMode mode)
    {
        // Portable reads the cursors at each look.
        PlatformScope.Use(portable: true);
        var disk = new FaultyDisk();
        using MappedFileQueue queue = OpenFull(mode);
        var timeout = new ProduceOptions { Timeout = TimeSpan.Zero };
        int looks = 0;
        disk.Before = (call, _) => looks += call == DiskCall.List ? 1 : 0;
        Type expected = Record.Exception(() => queue.Producer.Produce(new byte[400], timeout))!.GetType();

        int last = looks;
        looks = 0;
        disk.Before = (call, name) =>
        {
            if (call == DiskCall.List && ++looks == last)
                throw new QueueDiskException("No descriptor left.", DiskErrors.EMFILE, name);
        };
        Exception? error = Record.Exception(() => queue.Producer.Produce(new byte[400], timeout));

        Assert.Equal(last, looks);
        Assert.IsType(mode == FullMode.Wait ? typeof(TimeoutException) : typeof(QueueFullException), error);
        Assert.IsType(expected, error);
        Assert.Contains("slowest=unknown", error!.Message, StringComparison.Ordinal);
    }

    /// <summary>
    /// Each queue mapped every cursor of its store: 66,000 consumers took all the mappings that a process may have
    /// (vm.max_map_count), and the next one that anybody asked for ended the process.
    /// </summary>
    [Fact]
    [Trait("Category", "Slow")]
    public void TryProduce_ManyConsumers_MapsSomeAndMindsAll()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Mappings are listed on Linux only.");
        long first;
        long second;
        using (MappedFileQueue earlier = Open(FullMode.Wait))
            (first, second) = (earlier.Producer.Produce(new byte[64]), earlier.Producer.Produce(new byte[64]));
        byte[] page = new byte[CursorWord.FileLength];
        BitConverter.TryWriteBytes(page, CursorWord.From(second));
        for (int i = 0; i < PlaceFiles.MappedMax + 100; i++)
            File.WriteAllBytes(_temp.PathOf(StoreNames.Cursor($"c{i:D5}")), page);
        using MappedFileQueue queue = Open(FullMode.Wait);
        // The last one in the list is not mapped.
        using MappedFileConsumer slow = queue.OpenConsumer("zz", QueueStart.FromOffset(first));

        while (queue.Producer.TryProduce(new byte[64]))
        {
        }

        Assert.InRange(queue.Producer.Offset, first + Limit - 200, first + Limit + 200);
        int mapped = File.ReadLines("/proc/self/maps").Count(line => line.Contains(_temp.StorePath, StringComparison.Ordinal)
            && line.Contains(".cursor", StringComparison.Ordinal));
        Assert.InRange(mapped, 1, PlaceFiles.MappedMax + 1);
        slow.Consume();
        slow.Commit();
        Assert.True(queue.Producer.TryProduce(new byte[64]));
        Assert.False(queue.Producer.TryProduce(new byte[64]));
    }

    private static void CheckGoesOn(MappedFileQueue queue, FullMode mode) => Eventually.True(
        () =>
        {
            if (mode == FullMode.Wait)
                return queue.Producer.TryProduce(new byte[64]);
            try
            {
                queue.Producer.Produce(new byte[64]);
                return true;
            }
            catch (QueueFullException)
            {
                return false;
            }
        },
        "a message is taken");

    private MappedFileQueue OpenFull(FullMode mode)
    {
        MappedFileQueue queue = Open(mode);
        queue.OpenConsumer("slow", QueueStart.Earliest).Dispose();
        queue.OpenConsumer("other", QueueStart.Earliest).Dispose();
        while (queue.Producer.TryProduce(new byte[64]))
        {
        }

        queue.ResetConsumer("other", QueueStart.Latest);
        Assert.False(queue.Producer.TryProduce(new byte[64]));
        return queue;
    }

    private MappedFileQueue Open(FullMode mode) => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = 1 << 20,
        MaxUnconsumedBytes = Limit,
        FullMode = mode,
    });
}
