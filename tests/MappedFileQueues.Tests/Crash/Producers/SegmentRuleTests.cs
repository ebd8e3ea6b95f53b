using System.Globalization;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Tests.Crash.Producers;

/// <summary>docs/DESIGN.md section 2: making segments, entering them, and what retention takes away.</summary>
[Trait("Category", "Slow")]
public sealed unsafe class SegmentRuleTests
{
    private const int Segment = 65536;

    [Theory]
    [InlineData(4096)]
    [InlineData(Segment)]
    public void Roll_RestPadded_NextSegmentIsThere(int segment)
    {
        using var store = new CrashStore(segment);
        using PeerAgent child = store.StartAttached();
        for (int end = segment; end <= 3 * segment; end += segment)
        {
            child.Trap("RestPadded", 1, "stop");
            child.Send(string.Create(CultureInfo.InvariantCulture, $"append prefix=c count={segment / 1000 * 12} size=100"));
            child.WaitUntilStopped();
            using (var words = new StoreWords(store.Path))
                Assert.True(words.HasSegment(end), "the next segment was made before the end was padded");
            child.Continue();
            child.Answer();
        }
    }

    /// <summary>
    /// Nobody appends to a segment before the directory was flushed up to it; who finds the word short flushes it himself.
    /// </summary>
    [Fact]
    public void Roll_DirectoryFlushedWordShort_IsCoveredBeforeTheFirstAppend()
    {
        using var store = new CrashStore(Segment);
        using PeerAgent child = store.StartAttached();
        using var words = new StoreWords(store.Path);
        child.Ask("append prefix=c");
        // The segment is there already, made by somebody who died before the flush.
        child.Ask("append prefix=c count=100 size=500");
        SharedWord.WriteRelease(words.Control.DirectoryFlushed, 0);
        child.Trap("SegmentEntered", 1, "stop");
        child.Send("append prefix=c count=100 size=500");
        child.WaitUntilStopped();

        Assert.True(words.DirectoryFlushed > Segment, "the word covers the segment that was entered");
    }

    /// <summary>
    /// Nobody waits for another's preparer: each makes its own file, and the rename, which never replaces, decides.
    /// </summary>
    [Theory]
    [InlineData("TemporaryMade")]
    [InlineData("TemporaryFlushed")]
    public void Make_AnotherMakerStandsStill_RenameDecidesAndNothingIsLost(string step)
    {
        using var store = new CrashStore(4096);
        using MappedFileQueue survivor = store.Open();
        using MappedFileProducer producer = survivor.OpenProducer();
        producer.Produce(CrashMessage.Make("first", 64));
        using PeerAgent child = store.StartAttached();
        child.Trap(step, 1, "stop");
        child.Send("append prefix=c count=3000 size=300");
        child.WaitUntilStopped();

        List<string> own = [.. Enumerable.Range(0, 1500).Select(i => $"m-{i}")];
        foreach (string text in own)
            producer.Produce(CrashMessage.Make(text, 300));
        child.Continue();
        Assert.Equal("ok", child.Answer());

        List<string> all = CrashStore.ReadAll(survivor, "all");
        Assert.Equal(["first", .. own], all.Where(text => text[0] != 'c'));
        Assert.Equal(Enumerable.Range(0, 3000).Select(i => $"c-{i}"), all.Where(text => text[0] == 'c'));
        child.Ask("close");
        producer.Dispose();
        survivor.Dispose();
        store.ExpectHealthy(all);
    }

    /// <summary>
    /// The log start was raised while a producer was in a segment that is gone now: it starts over at the tail hint. A reader
    /// below the log start hears of it, one at the end waits for more.
    /// </summary>
    [Fact]
    public void LogStart_RaisedOverEverybody_ProducerStartsOverAndReadersHear()
    {
        using var store = new CrashStore(Segment);
        using MappedFileQueue queue = store.Open();
        using PeerAgent child = store.StartAttached();
        child.Ask("append prefix=old size=100");
        using PeerAgent reader = store.StartAttached();
        Assert.Equal("old-0", reader.Ask("consume"));
        using MappedFileConsumer ahead = queue.OpenConsumer("ahead");
        using MappedFileProducer producer = queue.OpenProducer();
        for (int i = 0; i < 3000; i++)
            producer.Produce(CrashMessage.Make($"m-{i}", 100));
        ahead.SeekToEnd();

        long logStart;
        using (var words = new StoreWords(store.Path))
        {
            logStart = words.TailHint - (words.TailHint % Segment);
            Assert.True(logStart >= 4 * Segment, "there are segments to remove");
            words.RemoveBelow(logStart);
        }

        Assert.Equal("", child.Ask("append prefix=new count=3 size=100"));
        for (int i = 0; i < 3; i++)
        {
            Assert.True(ahead.TryConsume(out ReadOnlySpan<byte> message, Eventually.DefaultDeadline));
            Assert.Equal($"new-{i}", CrashMessage.Read(message));
            ahead.Commit();
        }

        Assert.StartsWith("OffsetOutOfRangeException", reader.AskForError("consume count=100000"), StringComparison.Ordinal);
        Assert.Throws<OffsetOutOfRangeException>(() => queue.OpenConsumer("late", QueueStart.FromOffset(0)));
        Assert.False(ahead.TryConsume(out _));
        using MappedFileConsumer earliest = queue.OpenConsumer("earliest");
        Assert.Equal(logStart, earliest.Offset);
    }
}
