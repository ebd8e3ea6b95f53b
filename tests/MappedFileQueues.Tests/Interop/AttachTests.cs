using System.Buffers.Binary;
using System.Diagnostics;

namespace MappedFileQueues.Tests.Interop;

/// <summary>What consumers in C and Python say that come to a store alone: the same, and the cause.</summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class AttachTests : IDisposable
{
    private readonly TempStore _store = new();

    public void Dispose() => _store.Dispose();

    /// <summary>
    /// Damage below the checkpoint is an error of whoever reads it (docs/FORMAT.md, section 11). It kept consumers in C out of
    /// the whole store: the walk to the tail, and to a stored offset, began at the segment's first byte.
    /// </summary>
    [Fact]
    public void Consume_DamageBelowTheCheckpoint_IsForItsReadersAlone()
    {
        Fill(1000);
        Write(10 * 24, [0xFF, 0xFF, 0xFF, 0xFF]);
        Assert.Equal("consume ok 10", Attach(inPython: false)[0]);
        // The cursor is after the damage, at a whole frame.
        using ChildProcess consumer = Start(inPython: false, "consume", _store.StorePath, "half", "1", "1000");
        consumer.ExpectExit();
        Assert.Equal(InteropStore.Text(500), consumer.Lines[1]);
    }

    /// <summary>
    /// A producer does not pass there: it begins at what is confirmed, where that is after the tail hint. It began at the hint,
    /// which is the segment's start for long, and said that the log is damaged.
    /// </summary>
    [Theory]
    [InlineData(false, "shared")]
    [InlineData(false, "exclusive")]
    [InlineData(true, "shared")]
    public void Produce_DamageBelowTheCheckpoint_AppendsAtTheTail(bool inPython, string mode)
    {
        Fill(1000);
        Write(10 * 24, [0xFF, 0xFF, 0xFF, 0xFF]);
        using ChildProcess producer = Start(inPython, "produce", _store.StorePath, mode, "word", "0", "1");
        producer.ExpectExit();
        using ChildProcess consumer = Start(inPython: false, "consume", _store.StorePath, "half", "501", "1000");
        consumer.ExpectExit();
        Assert.Equal([InteropStore.Text(999), "word 0 !"], consumer.Lines.Skip(500).Take(2));
    }

    /// <summary>
    /// A name without a file's length holds nothing that could have been lost. C# and C joined the store, and Python asked for a
    /// recovery, which changed nothing there.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Attach_EmptySegmentIsBeyondTheTail_NeedsNoRecovery(bool inPython)
    {
        Fill(100);
        long epoch = Epoch();
        File.WriteAllBytes(_store.PathOf("commitlog", "00000000000000065536.log"), []);
        using (FileStream control = File.OpenWrite(_store.PathOf("control")))
        {
            control.Position = 384;
            control.Write([0, 0, 2, 0, 0, 0, 0, 0]);
        }

        Assert.Equal(["consume ok 100", "produce ok"], Attach(inPython));
        Assert.Equal(epoch, Epoch());

        long Epoch()
        {
            using MappedFileQueue queue = InteropStore.Open(_store);
            return queue.GetInfo().Epoch;
        }
    }

    /// <summary>An offset in the middle of a message is none, though what is there looks like a header.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Consume_OffsetIsNoFramesStartAfterDamage_IsRefused(bool inPython)
    {
        Fill(1000);
        Write(10 * 24, [0xFF, 0xFF, 0xFF, 0xFF]);
        using (FileStream cursor = File.OpenWrite(_store.PathOf("offset", "consumers", "half.cursor")))
        {
            ulong word = ((500 * 24) + 8) | 1;
            Span<byte> bytes = stackalloc byte[8];
            BinaryPrimitives.WriteUInt64LittleEndian(bytes, word | ((word * 0xD5029C1D890D25FB) & 0xFE00000000000000));
            cursor.Write(bytes);
        }

        using ChildProcess consumer = Start(inPython, "consume", _store.StorePath, "half", "1", "1000");
        Assert.Equal(1, consumer.WaitForExit());
        Assert.StartsWith("open: corrupt: ", consumer.ErrorText, StringComparison.Ordinal);
    }

    /// <summary>
    /// Somebody who makes a segment into another one locks it for a moment. When that took a second, a consumer that was alone
    /// was told to run a recovery, and a reader that the offset was wrong.
    /// </summary>
    [Fact]
    public void Attach_SegmentIsLocked_SaysInUse()
    {
        Fill(100);
        using (File.Open(_store.PathOf("commitlog", "00000000000000000000.log"), FileMode.Open, FileAccess.ReadWrite,
            FileShare.None))
        {
            Assert.Equal(["consume in-use 0", "produce in-use"], Attach(inPython: false));
            Assert.Equal("consume in-use 0", Attach(inPython: true)[0]);
        }
    }

    /// <summary>Python refused a store at once whose control page is missing, though another process may be making it.</summary>
    [Fact]
    public void Attach_ControlPageIsMissingBesideAnother_WaitsForIt()
    {
        using MappedFileQueue queue = InteropStore.Open(_store);
        queue.Producer.Produce(InteropStore.Message(0));
        string control = _store.PathOf("control"), away = control + ".away";
        foreach (bool inPython in (bool[])[false, true])
        {
            File.Move(control, away);
            using ChildProcess consumer = Start(inPython, "consume", _store.StorePath, $"c{inPython}", "1", "1000");
            Thread.Sleep(1500);
            Assert.False(consumer.HasExited, consumer.ErrorText);
            File.Move(away, control);
            consumer.ExpectExit();
        }
    }

    private static ChildProcess Start(bool inPython, params string[] arguments)
    {
        if (!inPython)
            return CLibrary.Start(CLibrary.Checked, arguments);
        Vectors.SkipWithoutPython();
        return ChildProcess.Start(
            new ProcessStartInfo(PythonPackage.Program[0], [PythonPackage.Program[1], .. arguments]),
            PythonPackage.VariablesWithLibrary);
    }

    private string[] Attach(bool inPython)
    {
        using ChildProcess run = Start(inPython, "attach", _store.StorePath);
        run.ExpectExit();
        return [.. run.Lines.Skip(1)];
    }

    /// <summary>Messages of 24 bytes each with their header; a consumer is at the 500th.</summary>
    private void Fill(int count)
    {
        using MappedFileQueue queue = InteropStore.Open(_store);
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(InteropStore.Message(i));
        using MappedFileConsumer consumer = queue.OpenConsumer("half");
        for (int i = 0; i < Math.Min(500, count); i++)
        {
            Assert.True(consumer.TryConsume(out _));
            consumer.Commit();
        }

        queue.Flush();
    }

    private void Write(long position, byte[] bytes)
    {
        using FileStream file = File.OpenWrite(_store.PathOf("commitlog", "00000000000000000000.log"));
        file.Position = position;
        file.Write(bytes);
    }
}
