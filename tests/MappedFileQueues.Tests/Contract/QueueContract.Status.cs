namespace MappedFileQueues.Tests.Contract;

public abstract partial class QueueContract
{
    [Theory, MemberData(nameof(Places))]
    public void GetInfo_TellsOffsetsConsumersAndWho(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, 50);
        using ConsumerUnderTest consumer = pair.Right.OpenConsumer("Named");
        consumer.Take(20);

        MappedFileQueueInfo info = pair.Right.GetInfo();

        Assert.Equal(pair.Path, info.StorePath);
        Assert.Equal(0, info.LogStart);
        Assert.Equal(pair.Producer.Offset, info.TailOffset);
        Assert.Equal(pair.Producer.Offset, info.PublishedOffset);
        Assert.Equal(_kind == QueueKind.Struct ? 24 : 0, info.StructSize);
        Assert.False(info.IsPoisoned);
        Assert.Empty(info.OpenClaims);
        Assert.True(info.SegmentCount > 0);
        Assert.True(info.BytesOnDisk > 0);
        MappedFileConsumerInfo named = Assert.Single(info.Consumers);
        Assert.Equal("named", named.Name);
        Assert.True(named.IsAttached);
        Assert.Equal(offsets[20], named.Offset);
        Assert.Equal(info.PublishedOffset - offsets[20], named.Lag);
        if (!_portable)
        {
            Assert.Contains(Environment.ProcessId, info.AttachedProcesses);
            Assert.Contains(Environment.ProcessId, info.ProducerProcesses);
        }

        consumer.Dispose();
        Assert.False(Assert.Single(pair.Left.GetInfo().Consumers).IsAttached);
    }

    [Theory, MemberData(nameof(Places))]
    public void GetInfo_BesideOpenConsumer_NeverTakesTheName(Segments segments, bool two)
    {
        // Asking for information probes the names' locks; an open beside it once found the name taken by nobody.
        using QueuePair pair = Open(segments, two);
        pair.Right.OpenConsumer("name").Dispose();
        bool stop = false;
        BackgroundCall asking = BackgroundCall.Start(() =>
        {
            while (!Volatile.Read(ref stop))
                pair.Left.GetInfo();
        });
        for (int i = 0; i < 30; i++)
            pair.Right.OpenConsumer("name").Dispose();
        Volatile.Write(ref stop, true);
        asking.Join();
    }

    [Theory, MemberData(nameof(Places))]
    public void Inspecting_LeavesNoTrace(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 100);
        pair.Consumer.Take(10);
        pair.Close();
        List<string> before = Listing(pair.Path);

        MappedFileQueueInfo info = StoreInspector.Inspect(pair.Path);
        using (MappedFileReader reader = MappedFileReader.Open(pair.Path))
        {
            int count = 0;
            while (reader.TryRead(out ReadOnlySpan<byte> message))
                count += message.Length > 0 ? 1 : 0;
            Assert.Equal(100, count);
            Assert.False(reader.TryRead(out _, TimeSpan.FromMilliseconds(3)));
            Assert.Equal(info.PublishedOffset, reader.NextOffset);
            Assert.Equal(info.PublishedOffset, reader.GetInfo().PublishedOffset);
            reader.Seek(QueueStart.Earliest);
            Assert.True(reader.TryRead(out _));
            Assert.Equal(0, reader.MessageOffset);
        }

        Assert.Equal(before, Listing(pair.Path));
        Assert.Empty(info.AttachedProcesses);
    }

    [Theory, MemberData(nameof(Places))]
    public void Inspecting_NoStore_ThrowsAndMakesNothing(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        string missing = Path.Combine(pair.Store.Root, "missing");

        Assert.Equal(missing, Assert.Throws<QueueNotFoundException>(() => StoreInspector.Inspect(missing)).Path);
        Assert.Throws<QueueNotFoundException>(() => MappedFileReader.Open(missing));
        Assert.Throws<QueueNotFoundException>(() => pair.OpenAnother(options =>
        {
            options.StorePath = missing;
            options.CreateIfMissing = false;
        }));
        Assert.False(Directory.Exists(missing));
    }

    [Theory, MemberData(nameof(Places))]
    public void Reopen_AnotherSegmentSize_TheStoredOneCounts(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        long stored = pair.Left.GetInfo().SegmentSize;
        ProduceMany(pair.Producer, 100);

        pair.Reopen(options => options.SegmentSize = stored * 2);

        ProduceMany(pair.Producer, 100, from: 100);
        Assert.Equal(stored, pair.Left.GetInfo().SegmentSize);
        Assert.Equal(Numbers(0, 200), pair.Consumer.Take(200));
    }

    [Fact]
    public void DefaultOptions_OfTheWholeLength_ProduceConsumeReopen()
    {
        PlatformScope.Use(_portable);
        using var pair = new QueuePair(_kind, two: true, inMemory: false, options => options.ProducerMode = _mode);
        ProduceMany(pair.Producer, Many);
        Assert.Equal(64 << 20, pair.Left.GetInfo().SegmentSize);
        Assert.Equal(Numbers(0, Many / 2), pair.Consumer.Take(Many / 2));

        pair.Reopen();

        ProduceMany(pair.Producer, Many, from: Many);
        Assert.Equal(Numbers(Many / 2, Many), pair.Consumer.Take(Many));
    }

    [Theory]
    [InlineData(nameof(MappedFileQueueOptions.StorePath))]
    [InlineData(nameof(MappedFileQueueOptions.SegmentSize))]
    [InlineData(nameof(MappedFileQueueOptions.PrepareAhead))]
    [InlineData(nameof(MappedFileQueueOptions.ConsumerSpinWaitDuration))]
    [InlineData(nameof(MappedFileQueueOptions.ConsumerRetryInterval))]
    [InlineData(nameof(MappedFileQueueOptions.ProducerForceFlushIntervalCount))]
    [InlineData(nameof(MappedFileQueueOptions.ProducerMode))]
    [InlineData(nameof(MappedFileQueueOptions.Durability))]
    [InlineData(nameof(MappedFileQueueOptions.Checksum))]
    [InlineData(nameof(MappedFileQueueOptions.LockTimeout))]
    [InlineData(nameof(MappedFileQueueOptions.TimeProvider))]
    public void Options_OutOfRange_RefusedByNameAndNothingMade(string option)
    {
        using TempStore store = new();
        var options = new MappedFileQueueOptions { StorePath = store.StorePath, ProducerMode = _mode };
        Action spoil = option switch
        {
            nameof(options.StorePath) => () => options.StorePath = " ",
            nameof(options.SegmentSize) => () => options.SegmentSize = 0,
            nameof(options.PrepareAhead) => () => options.PrepareAhead = -1,
            nameof(options.ConsumerSpinWaitDuration) => () => options.ConsumerSpinWaitDuration = TimeSpan.FromSeconds(-1),
            nameof(options.ConsumerRetryInterval) => () => options.ConsumerRetryInterval = TimeSpan.Zero,
            nameof(options.ProducerForceFlushIntervalCount) => () => options.ProducerForceFlushIntervalCount = -1,
            nameof(options.ProducerMode) => () => options.ProducerMode = (ProducerMode)9,
            nameof(options.Durability) => () => options.Durability = (DurabilityLevel)9,
            nameof(options.Checksum) => () => options.Checksum = (ChecksumMode)9,
            nameof(options.LockTimeout) => () => options.LockTimeout = TimeSpan.FromSeconds(-2),
            _ => () => options.TimeProvider = null!,
        };
        spoil();

        var error = Assert.ThrowsAny<ArgumentException>(() => QueueUnderTest.Open(_kind, options));

        Assert.Equal(option, error.ParamName);
        Assert.False(Directory.Exists(store.StorePath));
    }

    [Theory, MemberData(nameof(Places))]
    public void Options_ChangedAfterwards_Copied(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two, NoInterval);
        pair.Options.StorePath = "elsewhere";
        pair.Options.ProducerMode = _mode == ProducerMode.Shared ? ProducerMode.Exclusive : ProducerMode.Shared;
        pair.Options.ProducerForceFlushIntervalCount = 1;

        pair.Producer.Produce(0);

        Assert.Equal(0, pair.Producer.ConfirmedOffset);
        Assert.Equal(0, pair.Consumer.Consume());
        Assert.Equal(pair.Path, pair.Left.GetInfo().StorePath);
    }

    private static List<string> Listing(string path) =>
    [
        .. new DirectoryInfo(path).EnumerateFileSystemInfos("*", SearchOption.AllDirectories)
            .Select(entry => $"{entry.FullName} {(entry as FileInfo)?.Length} {entry.LastWriteTimeUtc.Ticks}")
            .Order(StringComparer.Ordinal),
    ];
}
