using MappedFileQueues.Format.Groups;
using MappedFileQueues.Tests.Groups;

namespace MappedFileQueues.Tests.Crash.Groups;

/// <summary>
/// Groups after a power loss, and for an opener that is alone. Another boot is another id of the kernel's memory; what the disk
/// has lost is damaged by hand.
/// </summary>
[Trait("Category", "Slow")]
public sealed class GroupCutTests : IDisposable
{
    private static readonly GroupOptions s_options = new() { DeliveriesMax = 0 };

    private readonly CrashStore _store = new();
    private readonly FaultyDisk _disk = new();

    private string GroupPath => Path.Combine(_store.Path, "offset", "groups", "workers.group");

    private string SavedPath => Path.Combine(_store.Path, "offset", "groups", "workers.saved");

    public void Dispose() => _store.Dispose();

    [Fact]
    public void Cut_SavedCopyCounts_NotTheTable()
    {
        string saved = Path.Combine(_store.Path, "saved.kept");
        using (MappedFileQueue queue = _store.Open())
        {
            Append(queue, 0, 10);
            using MappedFileGroupMember member = queue.OpenGroupMember("workers", s_options);
            List<long> offsets = Take(member, 6);
            member.Acknowledge([offsets[0], offsets[2]]);
            member.Reject(offsets[1], TimeSpan.FromHours(1));
            member.Flush();
            File.Copy(SavedPath, saved);
            member.Acknowledge(offsets[3]);
            Take(member, 4);
            member.Acknowledge();
            queue.Flush();
        }

        // What was saved after that is lost.
        File.Move(saved, SavedPath, overwrite: true);
        Cut();
        using MappedFileQueue after = _store.Open();
        Assert.Equal(1, after.GetInfo().Epoch);
        using MappedFileGroupMember again = after.OpenGroupMember("workers", s_options);
        Assert.Equal(["m-3:2", "m-4:2", "m-5:2", "m-6:1", "m-7:1", "m-8:1", "m-9:1"],
            TakeAll(again).Order(StringComparer.Ordinal));
        MappedFileGroupInfo info = Assert.Single(after.GetInfo().Groups);
        Assert.Equal(1, info.ReturnedCount);
        Assert.True(info.NextDue > DateTimeOffset.UtcNow + TimeSpan.FromMinutes(50));
    }

    /// <summary>
    /// A machine without a battery for its clock begins in the past. A message that was to wait for some hours must not wait for
    /// as long as the clock is behind.
    /// </summary>
    [Theory]
    [InlineData(2, 62)]
    [InlineData(20_000, 0)]
    public void Cut_ClockIsBehind_DelayedMessageComesInTime(int hours, int hoursLeft)
    {
        using (MappedFileQueue queue = _store.Open())
        {
            Append(queue, 0, 1);
            using MappedFileGroupMember member = queue.OpenGroupMember("workers", s_options);
            member.Reject(Take(member, 1)[0], TimeSpan.FromHours(60));
            member.Flush();
        }

        Cut();
        var clock = new ClockBehind(TimeSpan.FromHours(hours));
        using MappedFileQueue after = new(new MappedFileQueueOptions { StorePath = _store.Path, TimeProvider = clock });
        TimeSpan left = Assert.Single(after.GetInfo().Groups).NextDue!.Value - clock.GetUtcNow();
        Assert.InRange(Math.Max(left.TotalHours, 0), Math.Max(hoursLeft - 1, 0), hoursLeft);
    }

    /// <summary>
    /// The log loses its end. An end of the group that was beyond it is inside messages that come later; a second cut must not
    /// believe it again.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Cut_LogIsShorter_NewMessagesAreNotSkipped(bool twice)
    {
        long torn;
        using (MappedFileQueue queue = _store.Open())
        {
            List<long> offsets = Append(queue, 0, 20);
            torn = offsets[12];
            using MappedFileGroupMember member = queue.OpenGroupMember("workers", s_options);
            Take(member, 10);
            member.Acknowledge();
            List<long> held = Take(member, 6);
            member.Acknowledge(held[5]);
            member.Reject(held[4], TimeSpan.FromHours(1));
            member.Flush();
        }

        using (var words = new StoreWords(_store.Path))
        {
            words.ResetCheckpoint();
            words.WriteAt(torn + 12, (byte)(words.BytesAt(torn + 12, 1)[0] ^ 0x55));
        }

        Cut();
        using (MappedFileQueue queue = _store.Open())
        {
            Assert.Equal(torn, queue.GetInfo().PublishedOffset);
            CrashStore.Append(queue, Enumerable.Range(0, 20).Select(i => $"n-{i:D2}"));
            queue.Flush();
        }

        if (twice)
            Cut();
        using MappedFileQueue after = _store.Open();
        using MappedFileGroupMember again = after.OpenGroupMember("workers", s_options);
        List<string> all = TakeAll(again);
        Assert.Equal(Enumerable.Range(0, 20).Select(i => $"n-{i:D2}:1"), all.Where(text => text[0] == 'n'));
        // The two that were given back come again, and no others.
        Assert.Equal(["m-10:1", "m-11:1"], all.Where(text => text[0] == 'm').Order(StringComparer.Ordinal));
    }

    [Fact]
    public void Cut_SavedCopyBad_GroupIsRefusedUntilReset()
    {
        using (MappedFileQueue queue = _store.Open())
        {
            Append(queue, 0, 5);
            using MappedFileGroupMember member = queue.OpenGroupMember("workers", s_options);
            Take(member, 5);
        }

        byte[] bytes = File.ReadAllBytes(SavedPath);
        bytes[40] ^= 1;
        File.WriteAllBytes(SavedPath, bytes);
        Cut();
        using MappedFileQueue after = _store.Open();
        Assert.Throws<QueueCorruptException>(() => after.OpenGroupMember("workers"));
        Assert.NotEmpty(after.GetInfo().CursorProblems);
        after.ResetGroup("workers", QueueStart.Earliest);
        using MappedFileGroupMember again = after.OpenGroupMember("workers", s_options);
        Assert.Equal(5, TakeAll(again).Count);
    }

    [Fact]
    public void Deaths_TableBad_SavedCopyCounts()
    {
        using (MappedFileQueue queue = _store.Open())
        {
            Append(queue, 0, 5);
            using MappedFileGroupMember member = queue.OpenGroupMember("workers", s_options);
            Take(member, 2);
            member.Acknowledge();
        }

        byte[] bytes = File.ReadAllBytes(GroupPath);
        bytes[3] ^= 1;
        File.WriteAllBytes(GroupPath, bytes);
        using MappedFileQueue after = _store.Open();
        using MappedFileGroupMember again = after.OpenGroupMember("workers", s_options);
        Assert.Equal(["m-2:1", "m-3:1", "m-4:1"], TakeAll(again));
        Assert.Equal(0, after.GetInfo().Epoch);
    }

    /// <summary>
    /// The last hand-out was beyond the last segment, as in a table that is younger than its log. It was believed, and everything
    /// that came up to there was passed over without a word.
    /// </summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Deaths_TableIsBeyondTheLog_NothingIsPassedOver(bool isSavedWhole)
    {
        using (MappedFileQueue queue = _store.Open())
        {
            Append(queue, 0, 5);
            using MappedFileGroupMember member = queue.OpenGroupMember("workers", s_options);
            Take(member, 2);
            member.Acknowledge();
        }

        byte[] bytes = File.ReadAllBytes(GroupPath);
        int record = GroupLayout.RecordAt(GroupTables.Look(_store.Path, static table => table.Next.Record));
        BitConverter.GetBytes(1L << 32).CopyTo(bytes, record + GroupLayout.EndIn);
        File.WriteAllBytes(GroupPath, bytes);

        if (!isSavedWhole)
            File.WriteAllBytes(SavedPath, new byte[100]);
        using MappedFileQueue after = _store.Open();
        if (!isSavedWhole)
        {
            Assert.Throws<QueueCorruptException>(() => after.OpenGroupMember("workers", s_options));
            return;
        }

        using MappedFileGroupMember again = after.OpenGroupMember("workers", s_options);
        Assert.Equal(["m-2:1", "m-3:1", "m-4:1"], TakeAll(again));
    }

    /// <summary>
    /// A slot begins with its first generation again when it is worn out. The generation of a dead member comes again then, and
    /// what it held would be another's.
    /// </summary>
    [Fact]
    public void Deaths_SlotWornOut_WhatTheDeadHeldComesBack()
    {
        using (MappedFileQueue queue = _store.Open())
            Append(queue, 0, 5);
        using (PeerAgent child = _store.StartAttached())
        {
            child.Ask("member");
            child.Ask("take count=3");
            child.Kill();
        }

        using (var words = new StoreWords(_store.Path))
            words.SetGeneration(0, MappedFileQueues.Format.SlotLayout.GenerationMax);
        using MappedFileQueue after = _store.Open();
        using MappedFileGroupMember again = after.OpenGroupMember("workers", s_options);
        Assert.Equal(0, again.Slot);
        Assert.Equal(["m-0:2", "m-1:2", "m-2:2", "m-3:1", "m-4:1"], TakeAll(again).Order(StringComparer.Ordinal));
    }

    /// <summary>What is half given back when everybody dies is there once, whoever opens the store next.</summary>
    [Theory]
    [InlineData("GroupSingleWhole")]
    [InlineData("GroupBitMoved")]
    [InlineData("GroupHandedOut")]
    public void Deaths_OfAll_NothingIsLostOrTwice(string step)
    {
        using (MappedFileQueue queue = _store.Open())
            Append(queue, 0, 5);
        using (PeerAgent child = _store.StartAttached())
        {
            child.Ask("member");
            if (step != "GroupHandedOut")
                child.Ask("take count=3");
            child.Trap(step, 1);
            child.Send(step == "GroupHandedOut" ? "take count=3" : "reject text=m-1");
            child.ExpectKilled();
        }

        using MappedFileQueue after = _store.Open();
        using MappedFileGroupMember again = after.OpenGroupMember("workers", s_options);
        Assert.Equal(["m-0:2", "m-1:2", "m-2:2", "m-3:1", "m-4:1"], TakeAll(again).Order(StringComparer.Ordinal));
    }

    /// <summary>A group that was being made, or removed, when the process died.</summary>
    [Theory]
    [InlineData("GroupSavedMade", "member")]
    [InlineData("GroupMade", "member")]
    [InlineData("GroupDeleted", "deletegroup")]
    public void MakeOrDelete_Killed_TheNextOneBeginsAnew(string step, string command)
    {
        using (MappedFileQueue queue = _store.Open())
        {
            Append(queue, 0, 5);
            if (command != "member")
            {
                using MappedFileGroupMember member = queue.OpenGroupMember("workers", s_options);
                Take(member, 3);
                member.Acknowledge();
            }
        }

        using (PeerAgent child = _store.StartAttached())
        {
            child.Trap(step, 1);
            child.Send(command);
            child.ExpectKilled();
        }

        using MappedFileQueue after = _store.Open();
        using MappedFileGroupMember again = after.OpenGroupMember("workers", s_options);
        Assert.Equal(Enumerable.Range(0, 5).Select(i => $"m-{i}:1"), TakeAll(again));
    }

    /// <summary>
    /// What retention removes is behind the floor of the saved copy, or a power loss would leave a group that is before the log.
    /// </summary>
    [Fact]
    public void Trim_ThenCut_TheSavedCopyIsNotBeforeTheLog()
    {
        using var store = new CrashStore(segmentSize: 4096);
        using (MappedFileQueue queue = store.Open())
        {
            CrashStore.Append(queue, Enumerable.Range(0, 300).Select(i => $"m-{i}"));
            using MappedFileGroupMember member = queue.OpenGroupMember("workers", s_options);
            while (member.TryConsume(out _))
                member.Acknowledge();
            Assert.True(queue.Trim(long.MaxValue) > 0);
            // The end of the member saves too; that is lost.
            byte[] saved = File.ReadAllBytes(Path.Combine(store.Path, "offset", "groups", "workers.saved"));
            member.Dispose();
            File.WriteAllBytes(Path.Combine(store.Path, "offset", "groups", "workers.saved"), saved);
        }

        Cut();
        using MappedFileQueue after = store.Open();
        using MappedFileGroupMember again = after.OpenGroupMember("workers", s_options);
        Assert.Equal([], TakeAll(again));
        CrashStore.Append(after, "new");
        Assert.Equal(["new:1"], TakeAll(again));
    }

    private void Cut() => _disk.MemoryIdOverride = (_disk.MemoryIdOverride ?? 0) + 1;

    private static List<long> Append(MappedFileQueue queue, int first, int count)
    {
        using MappedFileProducer producer = queue.OpenProducer();
        return [.. Enumerable.Range(first, count).Select(i => producer.Produce(CrashMessage.Make($"m-{i}", (i * 37 % 99) + 16)))];
    }

    private static List<long> Take(MappedFileGroupMember member, int count)
    {
        List<long> offsets = [];
        using GroupBatch batch = member.ConsumeBatch(count);
        foreach (ReadOnlySpan<byte> message in batch)
            offsets.Add(member.MessageOffset);
        Assert.Equal(count, offsets.Count);
        return offsets;
    }

    private static List<string> TakeAll(MappedFileGroupMember member)
    {
        List<string> texts = [];
        while (member.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.FromMilliseconds(300)))
        {
            texts.Add($"{CrashMessage.Read(message)}:{member.DeliveryCount}");
            member.Acknowledge();
        }

        return texts;
    }

    private sealed class ClockBehind(TimeSpan time) : TimeProvider
    {
        public override DateTimeOffset GetUtcNow() => base.GetUtcNow() - time;
    }
}
