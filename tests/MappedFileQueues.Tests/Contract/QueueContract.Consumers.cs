using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Contract;

/// <summary>Consumers that are removed, or moved, by somebody who does not open them.</summary>
public abstract partial class QueueContract
{
    [Theory, MemberData(nameof(Places))]
    public void DeleteConsumer_ThereIsOne_ItsSuccessorIsNew(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 20);
        using (ConsumerUnderTest first = pair.Right.OpenConsumer("Billing"))
            first.Take(10);
        string lockFile = pair.Store.PathOf(StoreNames.ConsumerLock("billing"));

        Assert.True(pair.Left.DeleteConsumer("billing"));

        Assert.Empty(pair.Left.GetInfo().Consumers);
        Assert.False(File.Exists(pair.Store.PathOf(StoreNames.Cursor("billing"))));
        // Portable processes cannot tell whether a lock is on the file that the name means.
        Assert.Equal(_portable, File.Exists(lockFile));
        Assert.False(pair.Left.DeleteConsumer("billing"));
        using ConsumerUnderTest second = pair.Right.OpenConsumer("billing");
        Assert.Equal(Numbers(0, 20), second.Take(20));
    }

    [Theory, MemberData(nameof(Places))]
    public void DeleteConsumer_DefaultConsumer_IsNewToo(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 5);
        using (ConsumerUnderTest first = pair.Right.OpenConsumer(""))
            first.Take(3);

        Assert.True(pair.Left.DeleteConsumer(""));

        Assert.Equal(Numbers(0, 5), pair.Consumer.Take(5));
    }

    [Theory, MemberData(nameof(Places))]
    public void DeleteConsumer_ThereIsNone_IsFalseAndLeavesNoTrace(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 5);

        Assert.False(pair.Left.DeleteConsumer("nobody"));

        Assert.Empty(Directory.EnumerateFiles(pair.Path, "*nobody*", SearchOption.AllDirectories));
    }

    [Theory, MemberData(nameof(Places))]
    public void DeleteAndResetConsumer_NameIsHeld_AreRefusedAndChangeNothing(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, 20);
        using ConsumerUnderTest holder = pair.Right.OpenConsumer("a");
        holder.Take(5);

        QueueInUseException refused = Assert.Throws<QueueInUseException>(() => pair.Left.DeleteConsumer("A"));
        Assert.Throws<QueueInUseException>(() => pair.Left.ResetConsumer("A", QueueStart.Earliest));

        Assert.Contains("consumer=\"A\"", refused.Message, StringComparison.Ordinal);
        if (!_portable)
            Assert.Equal([Environment.ProcessId], refused.HolderProcessIds);
        Assert.Equal(offsets[5], Assert.Single(pair.Left.GetInfo().Consumers).Offset);
        Assert.Equal(Numbers(5, 15), holder.Take(15));
    }

    [Theory, MemberData(nameof(Places))]
    public void DeleteConsumer_HolderEndsInTime_WaitsForIt(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two, options => options.LockTimeout = Timeout.InfiniteTimeSpan);
        ConsumerUnderTest holder = pair.Right.OpenConsumer("a");
        BackgroundCall deleting = BackgroundCall.Start(() => Assert.True(pair.Left.DeleteConsumer("a")));
        Thread.Sleep(20);
        Assert.NotEmpty(pair.Left.GetInfo().Consumers);

        holder.Dispose();

        deleting.Join();
        Assert.Empty(pair.Left.GetInfo().Consumers);
    }

    [Theory, MemberData(nameof(Places))]
    public void ResetConsumer_AnyStart_SuccessorBeginsThere(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, 20);
        using (ConsumerUnderTest first = pair.Right.OpenConsumer("a"))
            first.Take(10);

        pair.Left.ResetConsumer("a", QueueStart.FromOffset(offsets[3]));
        Assert.Equal(3, NextOf(pair, "a"));
        pair.Left.ResetConsumer("a", QueueStart.Earliest);
        Assert.Equal(0, NextOf(pair, "a"));
        pair.Left.ResetConsumer("a", QueueStart.Latest);
        pair.Producer.Produce(20);
        Assert.Equal(20, NextOf(pair, "a"));
    }

    [Theory, MemberData(nameof(Places))]
    public void ResetConsumer_NameIsNew_CreatesTheConsumer(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        List<long> offsets = ProduceMany(pair.Producer, 5);

        pair.Left.ResetConsumer("a", QueueStart.FromOffset(offsets[2]));

        MappedFileConsumerInfo made = Assert.Single(pair.Left.GetInfo().Consumers);
        Assert.Equal(("a", offsets[2], false), (made.Name, made.Offset, made.IsAttached));
        Assert.Equal(2, NextOf(pair, "a"));
    }

    [Theory, MemberData(nameof(Places))]
    public void ResetConsumer_NoFramesStart_ThrowsAndLeavesTheConsumer(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 20);
        using (ConsumerUnderTest first = pair.Right.OpenConsumer("a"))
            first.Take(10);

        Assert.Throws<OffsetOutOfRangeException>(() => pair.Left.ResetConsumer("a", QueueStart.FromOffset(8)));
        Assert.Throws<OffsetOutOfRangeException>(() => pair.Left.ResetConsumer("a", QueueStart.FromOffset(1L << 40)));

        Assert.Equal(10, NextOf(pair, "a"));
    }

    [Theory, MemberData(nameof(Places))]
    public void DeleteAndResetConsumer_StoredOffsetIsDamaged_MendIt(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        ProduceMany(pair.Producer, 20);
        foreach (string name in new[] { "a", "b" })
        {
            pair.Right.OpenConsumer(name).Dispose();
            byte[] page = new byte[CursorWord.FileLength];
            BitConverter.TryWriteBytes(page, CursorWord.From(4));
            File.WriteAllBytes(pair.Store.PathOf(StoreNames.Cursor(name)), page);
            Assert.Throws<QueueCorruptException>(() => pair.Right.OpenConsumer(name));
        }

        pair.Left.ResetConsumer("a", QueueStart.Earliest);
        Assert.True(pair.Left.DeleteConsumer("b"));

        Assert.Equal(0, NextOf(pair, "a"));
        Assert.Equal(0, NextOf(pair, "b"));
    }

    [Theory, MemberData(nameof(Places))]
    public void DeleteAndResetConsumer_ImpossibleName_AreRefused(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two);
        Assert.Throws<ArgumentException>(() => pair.Left.DeleteConsumer("a/b"));
        Assert.Throws<ArgumentException>(() => pair.Left.ResetConsumer(new string('a', 101), QueueStart.Earliest));
        Assert.Throws<ArgumentNullException>(() => pair.Left.DeleteConsumer(null!));
        pair.Left.Dispose();
        Assert.Throws<ObjectDisposedException>(() => pair.Left.DeleteConsumer("a"));
        Assert.Throws<ObjectDisposedException>(() => pair.Left.ResetConsumer("a", QueueStart.Earliest));
    }

    /// <summary>
    /// The lock's file goes with the consumer. An opener that has opened the file before must not end up with a lock on it.
    /// </summary>
    [Theory, MemberData(nameof(Places))]
    public void DeleteConsumer_BesideOpeners_OneHolderAtATime(Segments segments, bool two)
    {
        using QueuePair pair = Open(segments, two, options => options.LockTimeout = Timeout.InfiniteTimeSpan);
        int holders = 0;
        bool stop = false;
        void Hold(QueueUnderTest queue)
        {
            while (!Volatile.Read(ref stop))
            {
                using ConsumerUnderTest consumer = queue.OpenConsumer("a");
                Assert.Equal(1, Interlocked.Increment(ref holders));
                Thread.Yield();
                Interlocked.Decrement(ref holders);
            }
        }

        BackgroundCall[] opening =
            [BackgroundCall.Start(() => Hold(pair.Left)), BackgroundCall.Start(() => Hold(pair.Right))];
        for (int i = 0; i < 50; i++)
            pair.Left.DeleteConsumer("a");
        Volatile.Write(ref stop, true);
        Array.ForEach(opening, call => call.Join());
    }

    private static long NextOf(QueuePair pair, string consumer)
    {
        using ConsumerUnderTest opened = pair.Right.OpenConsumer(consumer);
        return opened.Consume();
    }
}
