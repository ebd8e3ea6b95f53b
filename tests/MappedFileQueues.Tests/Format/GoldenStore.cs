using System.Runtime.CompilerServices;
using MappedFileQueues.Engine;
using MappedFileQueues.Log;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tests.Format;

/// <summary>
/// A small store in which nothing is left to chance: fixed identity, time and boot. It holds a frame of each state: a message,
/// an empty one, an abandoned claim, a batch, the padding at a segment's end, and, when
/// the test asks for it, an open claim.
/// </summary>
internal sealed class GoldenStore : IDisposable
{
    public const int SegmentLength = 4096;
    public static readonly Guid StoreId = new("00112233-4455-6677-8899-aabbccddeeff");
    public static readonly Guid BootId = new("b007b007-b007-4007-8007-b007b007b007");
    public static readonly DateTimeOffset Created = new(2026, 1, 2, 3, 4, 5, 678, TimeSpan.Zero);

    private readonly MappedFileQueue _queue;

    /// <summary>Makes the store, all but the open claim.</summary>
    public GoldenStore(string path)
    {
        OperatingSystemServices real = CurrentPlatform.Services;
        CurrentPlatform.Services = new FixedBoot(real);
        try
        {
            using (MappedFileQueue first = Open(path, ChecksumMode.WriteAndVerify))
            {
                first.Producer.Produce("Hello, MFQ!"u8);
                first.Producer.Produce([]);
                first.Producer.DangerousClaim(20).Dispose();
                first.Producer.ProduceBatch([new byte[] { 1 }, new byte[] { 2, 2 }, new byte[] { 3, 3, 3 }]);
                first.Flush();
            }

            using (MappedFileQueue second = Open(path, ChecksumMode.WriteOnly))
            {
                second.Producer.Produce("WriteOnly"u8);
                second.Producer.ProduceBatch([new byte[] { 4, 4, 4, 4 }, new byte[] { 5 }]);
            }

            _queue = Open(path, ChecksumMode.WriteAndVerify);
        }
        finally
        {
            CurrentPlatform.Services = real;
        }

        byte[] almostFull = new byte[3600];
        Array.Fill(almostFull, (byte)0xC3);
        _queue.Producer.Produce(almostFull);
        _queue.Producer.Produce(almostFull);
        // The roll has told the background thread to write a checkpoint, which may be at it for a while.
        StoreEngine core = Core(_queue);
        LogStore store = core.Store;
        var checkpoints = new CheckpointFile(store.Directory, store.Meta.StoreId);
        Eventually.True(
            () =>
            {
                core.Flusher.FlushCompletedSegments();
                return checkpoints.Read()?.Offset > 0;
            },
            "the checkpoint of the first segment is written");
        Consume("", 2);
        Consume("Second.Reader", 4);
    }

    /// <summary>Opens a claim of 24 bytes behind the last message, which nobody has written to yet.</summary>
    public MessageClaim Claim() => _queue.Producer.DangerousClaim(24);

    public void Dispose() => _queue.Dispose();

    [UnsafeAccessor(UnsafeAccessorKind.Field, Name = "_core")]
    private static extern ref StoreEngine Core(MappedFileQueue queue);

    private static MappedFileQueue Open(string path, ChecksumMode checksum) => new(new MappedFileQueueOptions
    {
        StorePath = path,
        SegmentSize = SegmentLength,
        Checksum = checksum,
        Durability = DurabilityLevel.PageCache,
        TimeProvider = new FixedTime(),
        StoreId = StoreId,
    });

    private void Consume(string name, int count)
    {
        using MappedFileConsumer consumer = _queue.OpenConsumer(name);
        for (int i = 0; i < count; i++)
        {
            Assert.True(consumer.TryConsume(out ReadOnlySpan<byte> _));
            consumer.Commit();
        }
    }

    private sealed class FixedTime : TimeProvider
    {
        public override DateTimeOffset GetUtcNow() => Created;
    }

    /// <summary>The real system in a boot of our choice.</summary>
    private sealed class FixedBoot(OperatingSystemServices real) : ForwardingServices(real)
    {
        public override string? BootId => GoldenStore.BootId.ToString();

        public override ulong MemoryId => 0;

        protected override HeldDirectory Wrap(HeldDirectory directory) => directory;
    }
}
