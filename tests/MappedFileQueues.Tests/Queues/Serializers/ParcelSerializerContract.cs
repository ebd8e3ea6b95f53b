using System.Buffers;

namespace MappedFileQueues.Tests.Queues.Serializers;

/// <summary>What the packages that serialize objects have in common.</summary>
/// <typeparam name="TSerializer">The serializer.</typeparam>
/// <typeparam name="TFault">What it throws at bytes that are no message.</typeparam>
public abstract class ParcelSerializerContract<TSerializer, TFault>(TSerializer serializer)
    where TSerializer : IBufferedMessageSerializer<Parcel>, IMessageDeserializer<Parcel>
    where TFault : Exception
{
    /// <summary>The bytes of a message that is null.</summary>
    protected abstract byte[] Null { get; }

    /// <summary>The bytes of a message of which a collection claims to have two billion elements.</summary>
    protected abstract byte[] TooMany { get; }

    [Fact]
    public void Objects_OfAllLengths_ComeBackEqual()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        Parcel[] parcels =
        [
            new(), new() { Text = "", Bytes = [], Lines = [], Prices = [], Inner = new Parcel() }, new() { Lines = [null, ""] },
            .. Enumerable.Range(0, 100).Select(length => Parcel.Make(length, length)), Parcel.Make(1, 10_000),
            Parcel.Make(2, 100_000), Parcel.Make(3, 0),
        ];
        foreach (Parcel parcel in parcels)
            queue.Producer.Produce(parcel, serializer);
        foreach (Parcel parcel in parcels)
        {
            Assert.Equal(serializer.Serialize(parcel), queue.Consumer.Consume());
            Assert.Equal(parcel.ToString(), queue.Consumer.Consume(serializer).ToString());
            queue.Consumer.Commit();
        }
    }

    [Fact]
    public void Message_OfNull_ThrowsAndNothingIsAppended()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        long tail = queue.Producer.Offset;
        Assert.Throws<ArgumentNullException>(() => queue.Producer.Produce(null!, serializer));
        Assert.Throws<ArgumentNullException>(() => _ = serializer.Serialize(null!).Length);
        Assert.Equal(tail, queue.Producer.Offset);
    }

    [Fact]
    public void Message_ThatIsNone_ThrowsAndCommitSkipsIt()
    {
        byte[] whole = serializer.Serialize(Parcel.Make(7, 30)).ToArray();
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        foreach (byte[] bytes in (byte[][])[[], Null, TooMany, whole[..^1], [.. whole, 0], [.. whole, .. whole]])
        {
            queue.Producer.Produce(bytes);
            Assert.Throws<TFault>(() => queue.Consumer.Consume(serializer));
            queue.Consumer.Commit();
        }

        queue.Producer.Produce(Parcel.Make(7, 30), serializer);
        Assert.Equal(Parcel.Make(7, 30).ToString(), queue.Consumer.Consume(serializer).ToString());
    }

    /// <summary>Bytes of a message are changed, added and taken away: whatever they are then, one exception tells it.</summary>
    [Fact]
    public void Message_Damaged_IsReadOrThrowsOneException()
    {
        int seed = Random.Shared.Next();
        var random = new Random(seed);
        byte[] whole = serializer.Serialize(Parcel.Make(7, 40)).ToArray();
        int readCount = 0;
        int faultCount = 0;
        for (int i = 0; i < 3_000; i++)
        {
            List<byte> bytes = [.. whole];
            for (int change = random.Next(1, 4); change > 0; change--)
            {
                int at = random.Next(bytes.Count);
                byte value = (byte)(random.Next(3) == 0 ? 255 : random.Next(256));
                switch (random.Next(4))
                {
                    case 0:
                        bytes.Insert(at, value);
                        break;
                    case 1:
                        bytes.RemoveRange(at, random.Next(bytes.Count - at));
                        break;
                    default:
                        bytes[at] = value;
                        break;
                }

                if (bytes.Count == 0)
                    break;
            }

            Exception? error = Record.Exception(() => serializer.Deserialize(bytes.ToArray()));
            Assert.True(error is null or TFault, $"seed={seed}, i={i}: {error}");
            (readCount, faultCount) = error is null ? (readCount + 1, faultCount) : (readCount, faultCount + 1);
        }

        Assert.True(readCount > 0 && faultCount > 0, $"read={readCount}, faults={faultCount}");
    }

    [Fact]
    public async Task ManyThreads_OneInstance_EveryMessageIsWhole()
    {
        const int ThreadCount = 4;
        using var start = new Barrier(ThreadCount);
        Task<bool>[] threads =
        [
            .. Enumerable.Range(0, ThreadCount).Select(number => Task.Factory.StartNew(
                () => IsAlwaysWhole(Parcel.Make(number, 40 + number), start), TestContext.Current.CancellationToken,
                TaskCreationOptions.LongRunning, TaskScheduler.Default)),
        ];
        Assert.All(await Task.WhenAll(threads), Assert.True);
    }

    [Fact]
    public void Produce_ObjectsOfManyLengths_AllocatesNothing()
    {
        using TempStore store = new();
        using MappedFileQueue queue = Open(store);
        Parcel[] parcels = [Parcel.Make(1, 0), Parcel.Make(2, 10), Parcel.Make(3, 1_000)];
        AssertAllocatesNothing(() =>
        {
            foreach (Parcel parcel in parcels)
                queue.Producer.Produce(parcel, serializer);
        });
    }

    /// <summary>What is compiled without optimisation allocates, and some of it is, until the runtime gets to it.</summary>
    protected static void AssertAllocatesNothing(Action job)
    {
        const int RoundMax = 200;
        long least = long.MaxValue;
        for (int round = 0; round < RoundMax && least > 0; round++)
        {
            long before = GC.GetAllocatedBytesForCurrentThread();
            for (int i = 0; i < 100; i++)
                job();
            least = Math.Min(least, GC.GetAllocatedBytesForCurrentThread() - before);
        }

        Assert.Equal(0, least);
    }

    private bool IsAlwaysWhole(Parcel parcel, Barrier start)
    {
        byte[] bytes = serializer.Serialize(parcel).ToArray();
        var destination = new ArrayBufferWriter<byte>(bytes.Length);
        start.SignalAndWait();
        for (int i = 0; i < 10_000; i++)
        {
            destination.ResetWrittenCount();
            serializer.Serialize(parcel, destination);
            if (!destination.WrittenSpan.SequenceEqual(bytes) || serializer.Deserialize(bytes).Number != parcel.Number)
                return false;
        }

        return true;
    }

    private protected static MappedFileQueue Open(TempStore store) =>
        new(new MappedFileQueueOptions { StorePath = store.StorePath, SegmentSize = 2 * 1024 * 1024 });
}
