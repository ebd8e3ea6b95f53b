using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Hostile;

/// <summary>
/// What a group's file holds is hostile: a wrong word leads to a typed exception or to messages of the log, never to a loop
/// without an end, and never outside.
/// </summary>
public sealed class HostileGroupTests : IDisposable
{
    private readonly TempStore _store = new();
    private readonly MappedFileQueueOptions _options;

    public HostileGroupTests() => _options = new MappedFileQueueOptions
    {
        StorePath = _store.StorePath,
        SegmentSize = 64 * 1024,
        Durability = DurabilityLevel.PageCache,
    };

    private string GroupPath => _store.PathOf("offset", "groups", "workers.group");

    public void Dispose() => _store.Dispose();

    [Theory]
    [InlineData(0, 0x4D)]
    [InlineData(9, 1)]
    [InlineData(12, 2)]
    [InlineData(20, 0xFF)]
    [InlineData(61, 0x55)]
    public void Open_DamagedHead_IsRefusedAndResetMendsIt(int position, byte flip)
    {
        Make(5);
        // Beside another process: a lone opener would mend it from what was saved.
        using var other = new MappedFileQueue(_options);
        Change(bytes => bytes[position] ^= flip);
        using var queue = new MappedFileQueue(_options);
        QueueCorruptException error = Assert.Throws<QueueCorruptException>(() => queue.OpenGroupMember("workers"));
        Assert.Equal("offset/groups/workers.group", error.File);
        queue.ResetGroup("workers", QueueStart.Earliest);
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
        Assert.Equal(5, TakeAll(member).Count);
    }

    [Fact]
    public void Open_ShortFile_IsRefused()
    {
        Make(5);
        using var queue = new MappedFileQueue(_options);
        using (FileStream file = File.OpenWrite(GroupPath))
            file.SetLength(4096);
        Assert.Throws<QueueCorruptException>(() => queue.OpenGroupMember("workers"));
    }

    [Fact]
    public void Open_FileOfAnotherStore_IsRefused()
    {
        Make(5);
        using var queue = new MappedFileQueue(_options);
        byte[] head = GroupLayout.MakeHead(Guid.NewGuid(), DateTimeOffset.UnixEpoch);
        Change(bytes => head.CopyTo(bytes, 0));
        Assert.Contains("another store", Assert.Throws<QueueCorruptException>(() => queue.OpenGroupMember("workers")).Message,
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(4)]
    [InlineData(5)]
    [InlineData(6)]
    [InlineData(7)]
    [InlineData(8)]
    public void Consume_RandomWords_TypedExceptionOrMessages(int seed)
    {
        Make(300);
        using var queue = new MappedFileQueue(_options);
        HashSet<long> written = [.. Enumerable.Range(0, 300).Select(i => (long)i)];
        var random = new Random(seed);
        Change(bytes => Randomize(bytes, random, isWild: seed % 2 == 0, words: seed < 5));
        MappedFileGroupMember? member = null;
        for (int i = 0; i < 2000; i++)
        {
            try
            {
                member ??= queue.OpenGroupMember("workers", new GroupOptions { DeliveriesMax = 0 });
                if (!member.TryConsume(out ReadOnlySpan<byte> message))
                    break;
                Assert.Contains(Payload.Verify(message).Number, written);
                if (random.Next(3) == 0)
                    member.Reject(member.MessageOffset);
                else
                    member.Acknowledge();
            }
            catch (MappedFileQueueException)
            {
                member?.Acknowledge();
            }
            catch (InvalidOperationException)
            {
                break;
            }
        }

        member?.Dispose();
    }

    private static void Randomize(byte[] bytes, Random random, bool isWild, bool words)
    {
        Span<ulong> all = MemoryMarshal.Cast<byte, ulong>(bytes.AsSpan());
        for (int record = 0; record < GroupLayout.RangeCount + GroupLayout.SingleCount; record++)
        {
            Span<ulong> one = all.Slice(GroupLayout.RecordAt(record) / 8, 8);
            for (int word = 0; word < 7; word++)
                one[word] = isWild ? (ulong)random.NextInt64(long.MinValue, long.MaxValue) : (ulong)random.NextInt64(0, 40_000);
            if (isWild)
                continue;
            // Words that may well be.
            one[GroupLayout.StateIn / 8] = LeaseState.Make(
                (LeaseKind)random.Next(4), (uint)random.Next(0, 3) << 20 | (uint)random.Next(0, 4), (uint)random.Next(4), 1).Word;
            one[GroupLayout.StartIn / 8] &= ~7UL;
            one[GroupLayout.EndIn / 8] = one[GroupLayout.StartIn / 8] + (ulong)(random.Next(64) * 8);
            one[GroupLayout.ContentIn / 8] = record < GroupLayout.RangeCount
                ? (ulong)random.Next(0, 40)
                : SingleContent.Make(random.Next(9000), (uint)random.Next(4), (uint)random.Next(4)).Word;
        }

        if (!words)
            return;
        all[GroupLayout.NextAt / 8] = NextWord.Make(random.Next(9000), (ulong)random.Next(10)).Word;
        all[GroupLayout.UsedAt / 8] = (ulong)random.NextInt64(long.MinValue, long.MaxValue);
        all[GroupLayout.EarliestDueAt / 8] = (ulong)random.NextInt64(long.MinValue, long.MaxValue);
    }

    private void Make(int count)
    {
        using var queue = new MappedFileQueue(_options);
        for (int i = 0; i < count; i++)
            queue.Producer.Produce(Payload.Make(0, i));
        using MappedFileGroupMember member = queue.OpenGroupMember("workers");
    }

    /// <summary>In place: the file is mapped, and stays the same one.</summary>
    private void Change(Action<byte[]> change)
    {
        byte[] bytes = File.ReadAllBytes(GroupPath);
        change(bytes);
        using FileStream file = File.OpenWrite(GroupPath);
        file.Write(bytes);
    }

    private static List<long> TakeAll(MappedFileGroupMember member)
    {
        List<long> numbers = [];
        while (member.TryConsume(out ReadOnlySpan<byte> message))
        {
            numbers.Add(Payload.Verify(message).Number);
            member.Acknowledge();
        }

        return numbers;
    }
}
