using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>
/// What a lone opener finds damaged is damaged for everybody. Only that opener itself refused to append: the second one was not
/// alone, looked at nothing, appended after the damage, and its flush confirmed what nobody could vouch for.
/// </summary>
public sealed unsafe class DamageForAllTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Open_BesideAnOpenerThatFoundDamage_RefusesTheSame()
    {
        using (MappedFileQueue queue = Open(ProducerMode.Shared))
        {
            Produce(queue, 20);
            queue.Flush();
        }

        using (var words = new StoreWords(_temp.StorePath))
        {
            words.ResetCheckpoint();
            words.WriteAt(0, BitConverter.GetBytes(0x7000_0001UL));
        }

        byte[] checkpoint = File.ReadAllBytes(_temp.PathOf("offset", "producer.checkpoint"));
        using MappedFileQueue first = Open(ProducerMode.Shared);
        using MappedFileQueue second = Open(ProducerMode.Shared);

        foreach (MappedFileQueue queue in new[] { first, second })
        {
            QueueCorruptException error = Assert.Throws<QueueCorruptException>(() => queue.OpenProducer());
            Refusal.CheckMessage(error.Message, _temp.StorePath, "offset=0");
            Assert.Throws<QueueCorruptException>(() => queue.Flush());
        }

        Assert.Equal(checkpoint, File.ReadAllBytes(_temp.PathOf("offset", "producer.checkpoint")));
    }

    /// <summary>
    /// The dirty bytes of a dead Exclusive producer are not zeroed while the log is damaged; the word that says so was lost, and
    /// after the repair they turned into messages.
    /// </summary>
    [Fact]
    public void Open_DamageRepaired_StillZeroesWhatADeadProducerLeft()
    {
        long tail;
        using (MappedFileQueue queue = Open(ProducerMode.Exclusive))
        {
            Produce(queue, 20);
            tail = queue.GetInfo().TailOffset;
        }

        ulong header;
        using (var words = new StoreWords(_temp.StorePath))
        {
            words.ResetCheckpoint();
            header = words.HeaderAt(0);
            words.WriteAt(0, BitConverter.GetBytes(0x7000_0001UL));
            words.WriteAt(tail + 64, 1, 2, 3);
            SharedWord.WriteRelease(words.Control.ExclusiveAtWork, 1);
            words.Control.SealColdBlock(words.Meta.StoreId);
        }

        using (MappedFileQueue damaged = Open(ProducerMode.Exclusive))
            Assert.Throws<QueueCorruptException>(() => damaged.OpenProducer());
        using (var words = new StoreWords(_temp.StorePath))
            words.WriteAt(0, BitConverter.GetBytes(header));

        using MappedFileQueue repaired = Open(ProducerMode.Exclusive);
        using (var words = new StoreWords(_temp.StorePath))
            Assert.Equal(new byte[3], words.BytesAt(tail + 64, 3));
        Produce(repaired, 1);
        Assert.Equal(21, CrashCount());
    }

    private static void Produce(MappedFileQueue queue, int count)
    {
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(new byte[100]);
    }

    private int CrashCount()
    {
        using MappedFileReader reader = MappedFileReader.Open(_temp.StorePath);
        int count = 0;
        while (reader.TryRead(out _))
            count++;
        return count;
    }

    private MappedFileQueue Open(ProducerMode mode) => new(new MappedFileQueueOptions
    {
        StorePath = _temp.StorePath,
        SegmentSize = 1 << 20,
        ProducerMode = mode,
    });
}
