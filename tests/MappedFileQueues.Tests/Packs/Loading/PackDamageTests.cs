using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Volumes;

namespace MappedFileQueues.Tests.Packs.Loading;

/// <summary>
/// Damage in a pack that has no checkpoint. One flipped bit in the hundredth object was once taken for the end of the pack: 900
/// objects became 100, overwritten values and deleted objects came back, durable puts among what was cut off, and nothing was
/// reported.
/// </summary>
[Trait("Category", "Slow")]
public sealed class PackDamageTests : IDisposable
{
    private const int DamagedNumber = 100;

    private readonly TempStore _temp = new();

    public static TheoryData<string, int> Spots => new()
    {
        { "magic", 0 },
        { "kind", 4 },
        { "sequence", 9 },
        { "key length", 16 },
        { "data length", 20 },
        { "synced", 25 },
        { "header checksum", 29 },
        { "key", 36 },
        { "data", 60 },
        { "body checksum", -8 },
        { "end magic", -1 },
    };

    private string Volume => _temp.PathOf("volumes", "00000001-00000001-0000.pack");

    public void Dispose() => _temp.Dispose();

    /// <summary>
    /// The writer is killed and one bit flipped, wherever in a needle: that key alone says that it is damaged. Nothing is cut,
    /// the
    /// damaged volume takes no more puts, and a reader sees the same.
    /// </summary>
    [Theory]
    [MemberData(nameof(Spots))]
    public void OneBitFlipped_WriterKilled_OnlyThatObjectIsDamaged(string spot, int at)
    {
        Assert.NotEmpty(spot);
        FillAndKill();

        // The second value of an object that has a first one: the old one must not come back.
        long position = NeedleOf(DamagedNumber, isSecond: true, out int needleLength);
        Flip(position + (at < 0 ? needleLength + at : at));
        long length = new FileInfo(Volume).Length;

        using (PackReader reader = PackStore.OpenReader(_temp.StorePath))
        {
            Check(reader.Get);
            Assert.Equal(position, Assert.Single(reader.Damages).Position);
            Assert.False(reader.Verify().IsWhole);
        }

        for (int opening = 0; opening < 3; opening++)
        {
            using PackStore pack = PackStore.Open(_temp.StorePath);
            Check(pack.Get);
            Assert.False(pack.Verify().IsWhole);
            Assert.InRange(pack.Count, PackFill.LeftCount, PackFill.LeftCount + 3);
            if (opening == 0)
                Assert.Equal(position, Assert.Single(pack.Damages).Position);
            pack.Put($"new {opening}", [1, 2, 3]);
            Assert.Equal(length, new FileInfo(Volume).Length);
            if (opening == 1)
                File.Delete(_temp.PathOf("index.checkpoint"));
        }

        // Put again, it is as any other.
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            pack.Put(PackFill.Key(DamagedNumber), PackFill.Second(DamagedNumber));
        File.Delete(_temp.PathOf("index.checkpoint"));
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            for (int number = 0; number < PackFill.ObjectCount; number++)
                Assert.Equal(PackFill.Data(number), pack.Get(PackFill.Key(number)));
        }

        static void Check(Func<string, byte[]?> get)
        {
            for (int number = 0; number < PackFill.ObjectCount; number++)
            {
                if (number == DamagedNumber)
                    Assert.Throws<PackCorruptException>(() => get(PackFill.Key(number)));
                else
                    Assert.Equal(PackFill.Data(number), get(PackFill.Key(number)));
            }
        }
    }

    [Fact]
    public void TombstoneDamaged_ObjectDoesNotComeBack()
    {
        FillAndKill();
        const int Deleted = PackFill.ObjectCount - 50;
        using (PackStore whole = PackStore.Open(Copy("whole")))
            Assert.Null(whole.Get(PackFill.Key(Deleted)));
        int key = PackBytes.IndexOf(File.ReadAllBytes(Volume), PackFill.Key(Deleted), last: true);
        long position = key - NeedleLayout.HeaderLength;
        Flip(position + NeedleLayout.HeaderLength + 3);

        using PackStore pack = PackStore.Open(_temp.StorePath);
        Assert.Throws<PackCorruptException>(() => pack.Get(PackFill.Key(Deleted)));
        Assert.Throws<PackCorruptException>(() => pack.Contains(PackFill.Key(Deleted)));
        Assert.Null(pack.Get(PackFill.Key(Deleted + 1)));
        Assert.True(pack.Delete(PackFill.Key(Deleted)));
        Assert.Null(pack.Get(PackFill.Key(Deleted)));
    }

    /// <summary>
    /// Several needles are gone, but a key that was deleted after them is known to be. A get that found it in no index, while a
    /// put of it took it out of the deleted ones, said that its value was lost.
    /// </summary>
    [Fact]
    public async Task ManyNeedlesGone_GetBesidePutsAndDeletesOfItsKey_IsNoError()
    {
        FillAndKill();
        long from = NeedleOf(DamagedNumber, isSecond: true, out int needleLength);
        Write(from, PackBytes.Make((3 * needleLength) + 100, 7));
        using PackStore pack = PackStore.Open(_temp.StorePath);
        Assert.True(pack.Delete("key"));

        bool isOver = false;
        Task getting = Task.Run(
            () =>
            {
                while (!Volatile.Read(ref isOver))
                    _ = pack.Contains("key");
            },
            TestContext.Current.CancellationToken);
        for (int round = 0; round < 100_000 && !getting.IsCompleted; round++)
        {
            pack.Put("key", [1]);
            Assert.True(pack.Delete("key"));
        }

        Volatile.Write(ref isOver, true);
        await getting;
    }

    /// <summary>
    /// Several needles are gone, and nobody can tell whose they were. So every key says so that was not put or deleted behind
    /// them,
    /// also over a checkpoint, until it is put or deleted, or the caller wants what is known.
    /// </summary>
    [Fact]
    public void ManyNeedlesGone_OlderKeysSaySo()
    {
        FillAndKill();
        long from = NeedleOf(DamagedNumber, isSecond: true, out int needleLength);
        byte[] original = File.ReadAllBytes(Volume);
        Write(from, PackBytes.Make((3 * needleLength) + 100, 7));

        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Check(pack);
            Assert.Contains("doubtful", Assert.Single(pack.Damages).Reason, StringComparison.Ordinal);
            Assert.Throws<PackCorruptException>(() => pack.Contains("never there"));
            Assert.Throws<PackCorruptException>(() => pack.Enumerate().Count());
            Assert.Equal(1, CountDamages(pack));
            pack.Put(PackFill.Key(1), [1]);
            Assert.True(pack.Delete(PackFill.Key(2)));
            Assert.True(pack.Delete("never there"));
            CheckAgain(pack);
        }

        // By the checkpoint of the closing, and by the volumes.
        for (int opening = 0; opening < 2; opening++)
        {
            using (PackStore pack = PackStore.Open(_temp.StorePath))
            {
                Assert.Single(pack.Damages);
                CheckAgain(pack);
            }

            using (PackReader reader = PackStore.OpenReader(_temp.StorePath, new PackReaderOptions { AllowStaleValues = true }))
            {
                Assert.Equal(PackFill.First(DamagedNumber), reader.Get(PackFill.Key(DamagedNumber)));
                Assert.Null(reader.Get("never there either"));
                Assert.Equal([1], reader.Get(PackFill.Key(1)));
            }

            File.Delete(_temp.PathOf("index.checkpoint"));
        }

        // The bytes are back: the checkpoint of a closing with the damage does not know what is there.
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            pack.Put("one more", [1]);
        Write(0, original);
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            Assert.Empty(pack.Damages);
            Assert.True(pack.Verify().IsWhole);
            Assert.Equal(PackFill.Second(DamagedNumber), pack.Get(PackFill.Key(DamagedNumber)));
            Assert.Equal([1], pack.Get(PackFill.Key(1)));
            Assert.Null(pack.Get(PackFill.Key(2)));
        }

        static void Check(PackStore pack)
        {
            for (int number = 0; number < PackFill.ObjectCount; number++)
            {
                bool isKnown = number is > DamagedNumber + 3 and < PackFill.OverwrittenCount
                    || number >= PackFill.ObjectCount - PackFill.DeletedCount;
                if (isKnown)
                    Assert.Equal(PackFill.Data(number), pack.Get(PackFill.Key(number)));
                else if (number is >= PackFill.OverwrittenCount or >= DamagedNumber and < DamagedNumber + 3)
                    Assert.Throws<PackCorruptException>(() => pack.Get(PackFill.Key(number)));
            }
        }

        static void CheckAgain(PackStore pack)
        {
            Assert.Equal([1], pack.Get(PackFill.Key(1)));
            Assert.Null(pack.Get(PackFill.Key(2)));
            Assert.False(pack.Contains("never there"));
            Assert.Throws<PackCorruptException>(() => pack.Get(PackFill.Key(DamagedNumber)));
            Assert.Throws<PackCorruptException>(() => pack.Contains("never there either"));
        }

        static int CountDamages(PackStore pack)
        {
            int count = 0;
            Assert.InRange(pack.Enumerate(_ => count++).Count(), PackFill.LeftCount - 5, PackFill.LeftCount);
            return count;
        }
    }

    /// <summary>
    /// The damaged object is the last of all, a durable put: nothing is after it that could prove anything. What was
    /// synced is
    /// known all the same, also when the machine was shut down in between.
    /// </summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void LastDurablePutDamaged_IsReportedAndNotTakenForATornOne(bool isAnotherBoot)
    {
        var disk = new FaultyDisk();
        PackStore killed = PackStore.Open(_temp.StorePath);
        killed.Put("key", [1], PackDurability.Group);
        killed.Put("key", [2], PackDurability.Group);
        string copy = Copy("killed");
        killed.Dispose();
        string volume = Path.Combine(copy, "volumes", "00000001-00000001-0000.pack");
        long length = new FileInfo(volume).Length;
        FlipIn(volume, length - 20);
        disk.BootIdOverride = isAnotherBoot ? Guid.NewGuid().ToString() : null;

        using PackStore pack = PackStore.Open(copy);
        Assert.Throws<PackCorruptException>(() => pack.Get("key"));
        Assert.Single(pack.Damages);
        Assert.Equal(length, new FileInfo(volume).Length);
    }

    /// <summary>
    /// A power loss has left out a sector in the middle of what nobody had synced, and kept what was written after it. That is
    /// no damage: the pack ends before the gap, as it would have ended a moment earlier; what stands behind is set aside.
    /// </summary>
    [Fact]
    public void PowerCutLeavesAGap_EndsBeforeIt()
    {
        var disk = new FaultyDisk();
        PackStore cut = PackStore.Open(_temp.StorePath);
        for (int i = 0; i < 40; i++)
            cut.Put($"key {i}", PackBytes.Make(300, i));
        string copy = Copy("cut");
        cut.Dispose();
        string volume = Path.Combine(copy, "volumes", "00000001-00000001-0000.pack");
        byte[] bytes = File.ReadAllBytes(volume);
        bytes.AsSpan(8 * 512, 512).Clear();
        File.WriteAllBytes(volume, bytes);

        // In the boot in which it was written no sector can be missing: then it is damage.
        using (PackReader reader = PackStore.OpenReader(copy))
            Assert.NotEmpty(reader.Damages);
        disk.BootIdOverride = Guid.NewGuid().ToString();
        using (PackReader reader = PackStore.OpenReader(copy))
        {
            Assert.Empty(reader.Damages);
            Assert.False(reader.Verify().IsWhole);
        }

        int count;
        using (PackStore pack = PackStore.Open(copy))
        {
            Assert.Empty(pack.Damages);
            Assert.True(pack.Verify().IsWhole);
            count = (int)pack.Count;
            Assert.InRange(count, 5, 15);
            Assert.NotEmpty(Directory.GetFiles(Path.Combine(copy, "salvage")));

            // A reader may have the volume mapped, so it keeps its length.
            Assert.Equal(bytes.Length, new FileInfo(volume).Length);
            pack.Put("later", [1]);
        }

        for (int opening = 0; opening < 2; opening++)
        {
            File.Delete(Path.Combine(copy, "index.checkpoint"));
            using PackStore pack = PackStore.Open(copy);
            Assert.Empty(pack.Damages);
            Assert.Equal(count + 1, pack.Count);
            for (int i = 0; i < 40; i++)
                Assert.Equal(i < count ? PackBytes.Make(300, i) : null, pack.Get($"key {i}"));
            Assert.True(pack.Compact(0).VolumesSkipped == 0);
            Assert.True(pack.Verify().IsWhole);
        }
    }

    /// <summary>
    /// The needle's padding ends a sector and its footer begins the next one. The padding is zeros in any case, and passed for a
    /// sector that a power loss had left out: a flipped bit in the last object of a pack was its end, and the older value came
    /// back. The crash laboratory found it (pack, seed 15107211).
    /// </summary>
    [Fact]
    public void OneBitFlipped_PaddingEndsASector_OldValueDoesNotComeBack()
    {
        var disk = new FaultyDisk();
        PackStore writer = PackStore.Open(_temp.StorePath);
        writer.Put("k", [1]);
        long second = new FileInfo(Volume).Length;
        const int PaddingLength = 2;
        long dataLength = 1024 - PaddingLength - second - NeedleLayout.HeaderLength - 1;
        writer.Put("k", PackBytes.Make((int)dataLength, 5));
        Assert.Equal(1024 + NeedleLayout.FooterLength, new FileInfo(Volume).Length);
        string copy = Copy("killed");
        writer.Dispose();
        string volume = Path.Combine(copy, "volumes", "00000001-00000001-0000.pack");
        byte[] bytes = File.ReadAllBytes(volume);
        bytes[600] ^= 4;
        File.WriteAllBytes(volume, bytes);
        disk.BootIdOverride = Guid.NewGuid().ToString();

        using PackStore pack = PackStore.Open(copy);
        Assert.Equal(second, Assert.Single(pack.Damages).Position);
        Assert.Throws<PackCorruptException>(() => pack.Get("k"));
    }

    /// <summary>
    /// The newest needle was a tombstone that a compaction has left out, and a cut tore the first needle of the volume after it.
    /// That volume knew the tombstone's sequence and so did the next one; the empty volume was taken for one that had lost its
    /// end, and every key was doubtful. The crash laboratory found it (pack, seed 10283656).
    /// </summary>
    [Fact]
    public void NewestNeedleGoneWithACompaction_EmptyVolumeBehindIt_IsNoDamage()
    {
        PackStore writer = PackStore.Open(_temp.StorePath);
        writer.Put("x", [1]);
        writer.Put("y", [2]);
        writer.Delete("x");
        writer.Compact(0);
        writer.Put("z", [3]);
        string copy = Copy("cut");
        writer.Dispose();
        string torn = Path.Combine(copy, "volumes", "00000002-00000002-0000.pack");
        byte[] bytes = File.ReadAllBytes(torn);
        bytes.AsSpan(VolumeHeader.Length).Clear();
        File.WriteAllBytes(torn, bytes);
        File.Delete(Path.Combine(copy, "synced"));

        for (int opening = 0; opening < 3; opening++)
        {
            using PackStore pack = PackStore.Open(copy);
            Assert.Empty(pack.Damages);
            Assert.Null(pack.Get("x"));
            Assert.Equal([2], pack.Get("y"));
            Assert.Null(pack.Get("z"));
            File.Delete(Path.Combine(copy, "index.checkpoint"));
        }

        Assert.True(File.Exists(Path.Combine(copy, "volumes", "00000003-00000003-0000.pack")));
    }

    /// <summary>The mark knows a volume that is gone, and a length that is: without a checkpoint nothing else does.</summary>
    [Fact]
    public void LastVolumeGoneOrShort_NoCheckpoint_IsReported()
    {
        PackOptions small = new() { VolumeSize = 4096 };
        PackStore killed = PackStore.Open(_temp.StorePath, small);
        for (int i = 0; i < 20; i++)
            killed.Put($"key {i}", PackBytes.Make(500, i), PackDurability.Group);
        string copy = Copy("killed");
        killed.Dispose();
        string[] volumes = [.. Directory.GetFiles(Path.Combine(copy, "volumes")).Order()];
        File.Delete(volumes[^1]);
        using (PackStore pack = PackStore.Open(copy, small))
        {
            Assert.Contains("missing", Assert.Single(pack.Damages).Reason, StringComparison.Ordinal);
            pack.Put("new", [1], PackDurability.Group);
        }

        Assert.False(File.Exists(volumes[^1]), "the number of the missing volume is given again");
        copy = Copy("short");
        File.Delete(Path.Combine(copy, "index.checkpoint"));
        string last = Directory.GetFiles(Path.Combine(copy, "volumes")).Order().Last();
        using (FileStream file = File.OpenWrite(last))
            file.SetLength(file.Length - 10);
        using PackReader reader = PackStore.OpenReader(copy);
        Assert.Contains("shorter", Assert.Single(reader.Damages).Reason, StringComparison.Ordinal);
    }

    /// <summary>
    /// A reader of another process has the volume mapped when the next writer opens the pack. The opening cut the damaged volume
    /// short, and the reader's next get ended its process with SIGBUS.
    /// </summary>
    [Fact]
    public void WriterOpensADamagedPack_MappedReaderOfAnotherProcessLives()
    {
        FillAndKill();
        using ChildProcess reader = ChildProcess.StartPeer("pack-watch", _temp.StorePath);
        reader.WaitForLine("ready");
        for (int look = 0; look < 2; look++)
            Ask($"right {PackFill.ObjectCount} damaged 0");

        Flip(NeedleOf(DamagedNumber, isSecond: true, out _) + 60);
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            Assert.Single(pack.Damages);
        Ask($"right {PackFill.ObjectCount - 1} damaged 1");
        reader.Input.Close();
        reader.ExpectExit();

        void Ask(string expected)
        {
            int from = reader.Lines.Count;
            reader.Input.WriteLine("look");
            Assert.Equal(expected, reader.WaitForLine(_ => true, fromIndex: from));
        }
    }

    /// <summary>
    /// Behind the end stand 20 MiB that are no needles. A reader searched all of it for a needle again at each call: 64 ms at
    /// 199 MiB.
    /// </summary>
    [Fact]
    public void Get_NothingNewBehindTheEnd_IsNotSearchedAgain()
    {
        const int Behind = 20 * 1024 * 1024;
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            pack.Put("key", [1]);
        using (FileStream file = new(Volume, FileMode.Append, FileAccess.Write))
            file.Write(new byte[Behind]);

        var disk = new CountingDisk();
        using PackReader reader = PackStore.OpenReader(_temp.StorePath, new PackReaderOptions { MapVolumes = false });
        Assert.Equal([1], reader.Get("key"));
        long before = disk.BytesRead;
        for (int i = 0; i < 100; i++)
            Assert.Equal([1], reader.Get("key"));
        Assert.InRange(disk.BytesRead - before, 1, 100 * 1000);

        // What comes is seen, although the length stays the same.
        using (PackStore pack = PackStore.Open(_temp.StorePath))
            pack.Put("more", [2]);
        Assert.Equal([2], reader.Get("more"));
    }

    [Fact]
    public void Get_ShortVolumeThatTheCheckpointCovers_IsNotLoadedAgainEachTime()
    {
        using (PackStore pack = PackStore.Open(_temp.StorePath))
        {
            for (int i = 0; i < 100; i++)
                pack.Put($"key {i}", PackBytes.Make(300, i));
        }

        using (FileStream file = File.OpenWrite(Volume))
            file.SetLength(file.Length - 1000);
        var disk = new CountingDisk();
        using PackReader reader = PackStore.OpenReader(_temp.StorePath, new PackReaderOptions { MapVolumes = false });
        Assert.True(reader.Contains("key 1"));
        long before = disk.BytesRead;
        for (int i = 0; i < 100; i++)
            Assert.True(reader.Contains("key 1"));
        Assert.InRange(disk.BytesRead - before, 1, 100 * 1000);
    }

    private static void FlipIn(string file, long position)
    {
        using FileStream stream = new(file, FileMode.Open, FileAccess.ReadWrite, FileShare.ReadWrite);
        stream.Position = position;
        int old = stream.ReadByte();
        stream.Position = position;
        stream.WriteByte((byte)(old ^ 4));
    }

    private void FillAndKill()
    {
        using ChildProcess child = ChildProcess.StartPeer("pack-fill", _temp.StorePath);
        child.WaitForLine("filled");
        child.KillAndWait();
        Assert.False(File.Exists(_temp.PathOf("index.checkpoint")));
    }

    private void Flip(long position) => FlipIn(Volume, position);

    private void Write(long position, byte[] bytes)
    {
        using FileStream stream = new(Volume, FileMode.Open, FileAccess.Write, FileShare.ReadWrite);
        stream.Position = position;
        stream.Write(bytes);
    }

    /// <summary>Where one of the two needles of an object stands.</summary>
    private long NeedleOf(int number, bool isSecond, out int needleLength)
    {
        byte[] data = isSecond ? PackFill.Second(number) : PackFill.First(number);
        var layout = new NeedleLayout(NeedleKind.Value, 0, PackFill.Key(number).Length, data.Length, 0);
        needleLength = layout.Length;
        return PackBytes.IndexOf(File.ReadAllBytes(Volume), PackFill.Key(number), last: isSecond) - NeedleLayout.HeaderLength;
    }

    /// <summary>The files as they are now: what a kill would leave.</summary>
    private string Copy(string name) => PackBytes.Copy(_temp, name);
}
