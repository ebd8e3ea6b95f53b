using System.Text.Json;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// `mfq verify` and `mfq repair` beside groups: nobody looked at the offsets in a group's table, so a damaged one was found by
/// its members, and a repair of the log left records inside padding.
/// </summary>
[Trait("Category", "Slow")]
public sealed class RepairGroupTests : IDisposable
{
    private const int Count = 40;
    private const string Group = "workers";

    /// <summary>Taken at once by a process that died: 0 to 9, of which 0 to 3 were acknowledged.</summary>
    private const int TakenCount = 10;
    private const int EndedCount = 4;

    private readonly TempStore _temp = new();

    private string Table => _temp.PathOf($"offset/groups/{Group}.group");

    private string Copy => _temp.PathOf($"offset/groups/{Group}.saved");

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Verify_MessagesAreOut_FindsNothing()
    {
        Fill();

        Assert.DoesNotContain("group", ToolRun.Of("verify", _temp.StorePath).Expect(0).Text, StringComparison.Ordinal);
        Assert.Equal("Nothing is damaged.\n", ToolRun.Of("repair", _temp.StorePath, "--dry-run").Expect(0).Text);
    }

    /// <summary>An offset of the range that is out, eight bytes into its message: its beginning (16) or its end (24).</summary>
    [Theory]
    [InlineData(16)]
    [InlineData(24)]
    public void Repair_OffsetInsideAMessage_WhatWasNotAcknowledgedComesAgain(int word)
    {
        Fill();
        Change(word, offset => offset + 8);

        JsonElement found = JsonDocument.Parse(
            ToolRun.Of("verify", _temp.StorePath, "--output", "json").Expect(3).Output).RootElement.GetProperty("findings")[0];
        Assert.Equal("group/workers", found.GetProperty("consumer").GetString());
        ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(0);

        ToolRun.Of("verify", _temp.StorePath).Expect(0);
        Assert.Superset(Enumerable.Range(EndedCount, Count - EndedCount).ToHashSet(), WorkOff());
    }

    /// <summary>One flipped bit puts the end of the last hand-out after the log: what comes there would be missed.</summary>
    [Fact]
    public void Repair_OffsetAfterTheEnd_WhatComesThereIsHandedOut()
    {
        Fill();
        Change(24, offset => offset | (1L << 30));

        ToolRun.Of("verify", _temp.StorePath).Expect(3);
        ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(0);
        using (PeerAgent agent = PeerAgent.Start())
        {
            agent.Ask($"open path={_temp.StorePath}");
            agent.Ask("append prefix=m first=99 count=1");
        }

        Assert.Contains(99, WorkOff());
    }

    [Fact]
    public void Repair_DamageInsideARange_TheOthersComeAgain()
    {
        Fill();
        string segment = _temp.PathOf($"commitlog/{0:D20}.log");
        long[] offsets = Offsets();
        Write(segment, offsets[6] + 40, [1, 2, 3]);
        Write(segment, offsets[9], new byte[offsets[12] - offsets[9]]);

        ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(0);

        ToolRun.Of("verify", _temp.StorePath).Expect(0);
        Assert.Superset(Enumerable.Range(EndedCount, Count - EndedCount).Except([6, 9, 10, 11]).ToHashSet(), WorkOff());
    }

    [Fact]
    public void Repair_TableIsDamaged_IsMadeAnewOfItsCopy()
    {
        Fill();
        Write(Table, 0, new byte[64]);

        Assert.Contains("anew of its copy", ToolRun.Of("verify", _temp.StorePath).Expect(0).Text, StringComparison.Ordinal);

        Assert.Superset(Enumerable.Range(EndedCount, Count - EndedCount).ToHashSet(), WorkOff());
    }

    [Fact]
    public void Repair_BothFilesAreDamaged_EverythingComesAgain()
    {
        Fill();
        Write(Table, 0, new byte[64]);
        Write(Copy, 0, new byte[64]);

        ToolRun.Of("verify", _temp.StorePath).Expect(3);
        string done = ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(0).Text;

        Assert.Contains("group workers goes back to the oldest message, offset 0", done, StringComparison.Ordinal);
        Assert.Equal(2, Directory.GetFiles(_temp.PathOf("salvage")).Length);
        Assert.Equal([.. Enumerable.Range(0, Count)], WorkOff());
    }

    /// <summary>A damaged copy was found by the power loss that needed it.</summary>
    [Fact]
    public void Verify_CopyIsDamaged_IsNoted()
    {
        Fill();
        Write(Copy, 40, [1, 2, 3]);

        Assert.Contains("workers.saved", ToolRun.Of("verify", _temp.StorePath).Expect(0).Text, StringComparison.Ordinal);
    }

    /// <summary>
    /// Garbage after the end lets the opener trust the copy alone, which is damaged. The repair had found nothing before that,
    /// said so, and ended with the exit code of damage.
    /// </summary>
    [Fact]
    public void Repair_TheOpenerFindsTheDamage_SaysThatItIsLeft()
    {
        Fill();
        Write(Copy, 40, [1, 2, 3]);
        Write(_temp.PathOf($"commitlog/{0:D20}.log"), 60_001, [1, 2, 3]);

        string done = ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(3).Text;

        Assert.DoesNotContain("Nothing is damaged", done, StringComparison.Ordinal);
        Assert.Contains("Damage is left", done, StringComparison.Ordinal);
        ToolRun.Of("repair", _temp.StorePath, "--apply").Expect(0);
        Assert.Equal([.. Enumerable.Range(0, Count)], WorkOff());
    }

    private void Fill()
    {
        using PeerAgent agent = PeerAgent.Start();
        agent.Ask($"open path={_temp.StorePath} segment=65536");
        agent.Ask($"pour prefix=m count={Count} size=100");
        agent.Ask($"member group={Group}");
        string[] texts = agent.Ask($"take count={TakenCount}").Split(' ');
        Assert.Equal(TakenCount, texts.Length);
        agent.Ask($"ack texts={string.Join(',', texts[..EndedCount].Select(text => text.Split(':')[0]))}");
        agent.Kill();
    }

    /// <summary>The numbers of all messages that a member gets, each acknowledged.</summary>
    private HashSet<int> WorkOff()
    {
        HashSet<int> numbers = [];
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = _temp.StorePath });
        using MappedFileGroupMember member = queue.OpenGroupMember(Group, new GroupOptions { DeliveriesMax = 0 });
        while (member.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.FromMilliseconds(300)))
        {
            numbers.Add(int.Parse(CrashMessage.Read(message).AsSpan(2), null));
            member.Acknowledge();
        }

        return numbers;
    }

    private long[] Offsets()
    {
        using var reader = MappedFileReader.Open(_temp.StorePath);
        List<long> offsets = [];
        while (reader.TryRead(out _))
            offsets.Add(reader.MessageOffset);
        return [.. offsets];
    }

    /// <summary>Changes an offset of the range that is out: the record of the last hand-out.</summary>
    private void Change(int word, Func<long, long> change)
    {
        byte[] table = File.ReadAllBytes(Table);
        int record = 4096 + (64 * BitConverter.ToUInt16(table, 128));
        Write(Table, record + word, BitConverter.GetBytes(change(BitConverter.ToInt64(table, record + word))));
    }

    private static void Write(string path, long position, byte[] bytes)
    {
        using FileStream stream = new(path, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite);
        stream.Position = position;
        stream.Write(bytes);
    }
}
