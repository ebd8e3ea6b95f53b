using System.Runtime.InteropServices;
using MappedFileQueues.Files;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Tests.Queues;

/// <summary>What a program reads off an error beside its message: who is in the way, and what is disposed.</summary>
public sealed class ErrorContractTests : IDisposable
{
    private readonly TempStore _temp = new();

    private MappedFileQueueOptions Options => new() { StorePath = _temp.StorePath, LockTimeout = TimeSpan.Zero };

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void InUse_QueuePackAndFile_NamesTheHolders()
    {
        if (!OperatingSystem.IsLinux())
            Assert.Skip("The system does not tell who holds a lock.");
        MappedFileQueueOptions options = Options;
        options.ProducerMode = ProducerMode.Exclusive;
        using (MappedFileQueue queue = new(options))
        {
            using MappedFileConsumer consumer = queue.OpenConsumer("c");
            using MappedFileProducer producer = queue.OpenProducer();
            using MappedFileQueue second = new(options);
            NamesThisProcess(() => queue.OpenConsumer("c"));
            NamesThisProcess(() => second.OpenConsumer("c"));
            NamesThisProcess(() => second.OpenProducer());
            NamesThisProcess(() => MappedFileQueue.Delete(_temp.StorePath));
        }

        string pack = Path.Combine(_temp.Root, "pack");
        using (PackStore.Open(pack))
        {
            Assert.Equal(
                [Environment.ProcessId], Assert.Throws<PackInUseException>(() => PackStore.Open(pack)).HolderProcessIds);
        }

        string file = Path.Combine(_temp.Root, "lines.log");
        using (new AppendFileStream(file))
            NamesThisProcess(() => new AppendFileStream(file));

        static void NamesThisProcess(Action act) =>
            Assert.Equal([Environment.ProcessId], Assert.Throws<QueueInUseException>(act).HolderProcessIds);
    }

    /// <summary>They said LogAppender, LogStore, LogConsumer, which no user has ever seen.</summary>
    [Fact]
    public async Task Disposed_EveryObject_IsNamedByItsPublicType()
    {
        MappedFileQueue queue = new(Options);
        MappedFileProducer producer = queue.OpenProducer();
        MappedFileConsumer consumer = queue.OpenConsumer("c");
        MappedFileReader reader = queue.OpenReader();
        producer.Produce([1]);
        producer.Dispose();
        consumer.Dispose();
        reader.Dispose();

        Names(typeof(MappedFileProducer), () => producer.Produce([1]));
        Names(typeof(MappedFileProducer), () => producer.Produce(1, 0, static (span, _) => span.Clear()));
        await NamesAsync(typeof(MappedFileProducer), async () => await producer.ProduceAsync(new byte[1]));
        Names(typeof(MappedFileConsumer), () => consumer.TryConsume(out _));
        Names(typeof(MappedFileConsumer), consumer.Commit);
        await NamesAsync(typeof(MappedFileConsumer), async () => await consumer.ConsumeAsync());
        Names(typeof(MappedFileReader), () => reader.TryRead(out _));
        queue.Dispose();
        Names(typeof(MappedFileQueue), () => queue.Flush());
        Names(typeof(MappedFileQueue), () => queue.OpenConsumer("d"));
        Names(typeof(MappedFileQueue), () => queue.OpenProducer());
        await NamesAsync(typeof(MappedFileQueue), async () => await queue.FlushAsync());
    }

    /// <summary>A batch of nothing was 0 messages, or ended at the tail, of what is disposed.</summary>
    [Theory]
    [InlineData(ProducerMode.Shared)]
    [InlineData(ProducerMode.Exclusive)]
    public async Task Disposed_BatchOfNothing_IsRefused(ProducerMode mode)
    {
        MappedFileQueueOptions options = Options;
        options.ProducerMode = mode;
        using MappedFileQueue<long> queue = new(options);
        MappedFileProducer<long> producer = queue.OpenProducer();
        producer.Produce(1);
        producer.Dispose();
        Names(typeof(MappedFileProducer), () => producer.ProduceBatch([]));
        Names(typeof(MappedFileProducer), () => producer.ProduceBatch([], default(ProduceOptions)));
        Names(typeof(MappedFileProducer), () => producer.ProduceBatch([], [], default));
        await NamesAsync(typeof(MappedFileProducer), async () => await producer.ProduceBatchAsync(Memory<long>.Empty));
        MappedFileIdempotentProducer<long> numbered = queue.OpenProducer("a");
        numbered.Dispose();
        Names(typeof(MappedFileProducer), () => numbered.TryProduceBatch([], 1));
        MappedFileConsumer<long> consumer = queue.OpenConsumer("c");
        consumer.Dispose();
        Names(typeof(MappedFileConsumer), () => consumer.ConsumeBatch([]));
        await NamesAsync(typeof(MappedFileConsumer), async () => await consumer.ConsumeBatchAsync(Memory<long>.Empty));
        MappedFileGroupMember<long> member = queue.OpenGroupMember("g");
        member.Dispose();
        Names(typeof(MappedFileGroupMember), () => member.ConsumeBatch([], []));

        options.StorePath += "-messages";
        using MappedFileQueue messages = new(options);
        MappedFileProducer sender = messages.OpenProducer();
        sender.Produce([1]);
        sender.Dispose();
        Names(typeof(MappedFileProducer), () => sender.ProduceBatch([]));
        await NamesAsync(
            typeof(MappedFileProducer), async () => await sender.ProduceBatchAsync(Memory<ReadOnlyMemory<byte>>.Empty));
    }

    /// <summary>The queue ends while the calls wait.</summary>
    [Fact]
    public async Task DisposedWhileWaiting_IsNamedByThePublicType()
    {
        MappedFileQueue queue = new(Options);
        MappedFileConsumer consumer = queue.OpenConsumer("c");
        MappedFileConsumer other = queue.OpenConsumer("d");
        Task<ObjectDisposedException> waiting =
            Task.Run(() => Assert.Throws<ObjectDisposedException>(() => { other.Consume(); }));
        ValueTask<ReadOnlyMemory<byte>> pending = consumer.ConsumeAsync();
        await Task.Delay(50);
        queue.Dispose();

        Assert.StartsWith("MappedFileQueues.MappedFile", (await waiting).ObjectName, StringComparison.Ordinal);
        await NamesAsync(typeof(MappedFileConsumer), async () => await pending);
    }

    /// <summary>They were told that a consumer had ended, which their program never had.</summary>
    [Fact]
    public async Task GroupMemberDisposedWhileWaiting_IsNamedByItsOwnType()
    {
        MappedFileQueue queue = new(Options);
        MappedFileGroupMember member = queue.OpenGroupMember("g");
        MappedFileGroupMember other = queue.OpenGroupMember("g");
        Task waiting = Task.Run(() => Names(typeof(MappedFileGroupMember), () => { other.Consume(); }));
        ValueTask<ReadOnlyMemory<byte>> pending = member.ConsumeAsync();
        await Task.Delay(50);
        other.Dispose();
        member.Dispose();
        queue.Dispose();

        await waiting;
        await NamesAsync(typeof(MappedFileGroupMember), async () => await pending);
    }

    /// <summary>An address, or a number of 4 bytes here and of 8 there, is no message.</summary>
    [Fact]
    public void StructWithAPointer_IsRefusedWhenTheQueueIsMade()
    {
        Refuses<WithPointer>(nameof(WithPointer.Address));
        Refuses<WithFunction>(nameof(WithFunction.Function));
        Refuses<WithNative>(nameof(WithNative.Handle));
        Refuses<Nested>(nameof(WithNative.Handle));
        Refuses<InANullable>(nameof(WithNative.Handle));
        Refuses<NullableNative>(nameof(NullableNative.Size));
#pragma warning disable MFQ0008 // The queue takes what the analyzer warns of.
        using MappedFileQueue<Fine> fine = new(Options);
#pragma warning restore MFQ0008

        void Refuses<T>(string field)
            where T : unmanaged
        {
            ArgumentException error = Assert.Throws<ArgumentException>(() => new MappedFileQueue<T>(Options));
            Assert.Contains($"field={field}", error.Message, StringComparison.Ordinal);
            Assert.False(Directory.Exists(_temp.StorePath));
        }
    }

    /// <summary>
    /// A number that a program has cast. A policy of damage that is none skipped whole segments, and one of removed messages
    /// went on at the oldest.
    /// </summary>
    [Fact]
    public async Task PolicyThatIsNotDefined_IsRefusedByTheNameOfItsOption()
    {
        using MappedFileQueue queue = new(Options);
        foreach (int wrong in new[] { -1, 3 })
        {
            ConsumerOptions damage = new() { Corruption = (CorruptionPolicy)wrong };
            ConsumerOptions removed = new() { OnOutOfRange = (OutOfRangePolicy)wrong };
            Refuses("Corruption", () => queue.OpenConsumer("c", damage));
            Refuses("OnOutOfRange", () => queue.OpenConsumer("c", removed));
            Refuses("Corruption", () => queue.OpenGroupMember("g", new GroupOptions { Corruption = damage.Corruption }));
            Refuses("OnOutOfRange", () => queue.OpenGroupMember("g", new GroupOptions { OnOutOfRange = removed.OnOutOfRange }));
            await Assert.ThrowsAsync<ArgumentOutOfRangeException>(
                "Corruption", async () => await queue.OpenConsumerAsync("c", damage, TestContext.Current.CancellationToken));
        }

        Assert.Empty(queue.GetInfo().Consumers);
        Assert.Empty(queue.GetInfo().Groups);

        static void Refuses(string option, Action act) => Assert.Throws<ArgumentOutOfRangeException>(option, act);
    }

    private static void Names(Type type, Action act) =>
        Assert.Equal(type.FullName, Assert.Throws<ObjectDisposedException>(act).ObjectName);

    private static async Task NamesAsync(Type type, Func<Task> act) =>
        Assert.Equal(type.FullName, (await Assert.ThrowsAsync<ObjectDisposedException>(act)).ObjectName);

#pragma warning disable CS0649 // The kinds of the fields alone matter.
    private unsafe struct WithPointer
    {
        public int Number;
        public void* Address;
    }

    private unsafe struct WithFunction
    {
        public delegate*<void> Function;
    }

    private struct WithNative
    {
        public long Number;
        public nint Handle;
    }

    private struct Nested
    {
        public int Number;
        public WithNative Inner;
    }

    private struct InANullable
    {
        public WithNative? Inner;
    }

    private struct NullableNative
    {
        public nuint? Size;
    }

    [StructLayout(LayoutKind.Sequential)]
    private unsafe struct Fine
    {
        public fixed byte Name[16];
        public DateTime Time;
        public Guid Id;
        public long? Count;
        public DayOfWeek Day;
    }
#pragma warning restore CS0649
}
