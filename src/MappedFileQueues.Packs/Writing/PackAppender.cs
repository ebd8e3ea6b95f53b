using System.Globalization;
using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Writing;

/// <summary>What became of an append.</summary>
internal enum AppendOutcome
{
    /// <summary>The needle is written and counts.</summary>
    Written,

    /// <summary>There is nothing to delete, and nothing was written.</summary>
    NothingToDelete,

    /// <summary>Nothing was written: the pack's length is limited, and old volumes have to be evicted first.</summary>
    NeedsRoom,
}

/// <summary>
/// Writes needles at the tail of the last volume (docs/PACKS.md section 4). One lock makes puts and deletes follow each other,
/// from the choice of the place to the change of the index. Waiting for a sync happens outside the lock.
/// </summary>
internal sealed class PackAppender : IDisposable
{
    private readonly PackCore _core;
    private readonly GroupSync _group;
    private readonly Lock _syncing = new();
    private readonly PlatformFile? _markFile;
    private SyncedMark _mark;
    private Volume? _active;
    private Exception? _poison;
    private bool _isClosed;

    /// <param name="core">The pack.</param>
    /// <param name="active">The volume that takes the next needle.</param>
    /// <param name="mark">What is known to be on disk.</param>
    /// <param name="lengthMax">How many bytes the needles of all volumes may take together.</param>
    public PackAppender(PackCore core, Volume? active, SyncedMark mark, long lengthMax)
    {
        LengthMax = lengthMax;
        _core = core;
        _active = active;
        _mark = mark;
        _group = new GroupSync(SyncActive);
        Reserve = new PackReserve(core.Directory);
        _markFile = OpenMark(core.Directory);
        WriteMark(mark);
    }

    /// <summary>Held while tail, sequence or index change.</summary>
    public PackGate Gate { get; } = new();

    /// <summary>Room for deletes and compactions on a full disk.</summary>
    public PackReserve Reserve { get; }

    /// <summary>The bytes written since the pack was opened.</summary>
    public long Written { get; private set; }

    /// <summary>How many bytes the needles of all volumes may take together.</summary>
    public long LengthMax { get; }

    /// <summary>
    /// The bytes that have become garbage since the pack was opened: what was replaced or deleted, and tombstones.
    /// </summary>
    public long GarbageMade { get; private set; }

    /// <summary>The volume that takes the next needle, if the needle fits; null if the next one goes into a new volume.</summary>
    public Volume? Active => _active;

    public bool IsPoisoned => Volatile.Read(ref _poison) is not null;

    /// <summary>
    /// Writes a value, or a tombstone for an existing key, and returns its sequence. The caller waits until that is on disk, if
    /// <paramref name="durability"/> says so.
    /// </summary>
    public AppendOutcome Append(
        NeedleKind kind, ReadOnlySpan<byte> key, ReadOnlySpan<byte> data, PackDurability durability, out ulong sequence)
    {
        CheckLengths(key, data, LengthMax);
        sequence = 0;
        ulong hash = _core.Lookup.HashOf(key);
        var source = new NeedleSource(kind, key, data);
        try
        {
            using (durability == PackDurability.PageCache ? Gate.TakeAfterOthers() : Gate.Take())
            {
                ThrowIfUnusable();
                bool isKnown = _core.TryFindPlace(key, hash, out NeedlePlace old);

                // Damage may hide a value that would come back together with the bytes.
                bool hasEffect = kind == NeedleKind.Value || isKnown || _core.Hidden.Find(key, hash, known: null) is not null;
                if (!hasEffect)
                    return AppendOutcome.NothingToDelete;
                if (_core.Sequence >= NeedleLayout.SequenceMax)
                {
                    throw new PackFullException(
                        $"The pack has used all sequence numbers: path={_core.Directory.Path}. Copy it into a new pack.");
                }

                sequence = _core.Sequence + 1;
                if (Write(ref source, kind, sequence) is not { } volume)
                    return AppendOutcome.NeedsRoom;
                long position = volume.Tail;
                ProtocolSteps.Reach(ProtocolStep.PackNeedleWritten);
                volume.Tail = position + source.Layout.Length;
                _core.Reach(sequence);
                _core.Apply(hash, old, volume, position, source.Layout);
                Written += source.Layout.Length;
                GarbageMade += old.Length + (kind == NeedleKind.Tombstone ? source.Layout.Length : 0);
                ProtocolSteps.Reach(ProtocolStep.PackApplied);
            }
        }
        finally
        {
            source.Dispose();
        }

        return AppendOutcome.Written;
    }

    /// <summary>
    /// Whether a needle of this length probably goes into the volume that takes puts now, so that nothing has to be synced, made
    /// or evicted for it. Takes no lock.
    /// </summary>
    public bool IsRoomLikely(int length) =>
        Volatile.Read(ref _active) is { } active && active.Tail + length <= _core.Meta.VolumeLength;

    /// <summary>What the next volume may come to hold, if its first needle has this length.</summary>
    public long RoomOfNext(int length) => Math.Max(_core.Meta.VolumeLength - VolumeHeader.Length, length);

    /// <summary>Returns when everything that was written before the call is on disk.</summary>
    public void Flush() => WaitUntilDurable(WrittenSequence());

    /// <summary>Returns when everything up to this sequence is on disk. One sync serves all waiting threads.</summary>
    public void WaitUntilDurable(ulong sequence)
    {
        ThrowIfPoisoned();
        _group.WaitFor(sequence);
    }

    /// <summary>As <see cref="WaitUntilDurable"/>, without a thread that waits.</summary>
    public Task WaitUntilDurableAsync(ulong sequence)
    {
        ThrowIfPoisoned();
        return _group.WaitForAsync(sequence);
    }

    /// <summary>Returns the sequence up to which everything is written by now.</summary>
    public ulong WrittenSequence()
    {
        using (Gate.Take())
        {
            ThrowIfUnusable();
            return _core.Sequence;
        }
    }

    /// <summary>Ends the active volume, so the next needle goes into a new one. The caller holds the gate.</summary>
    public void EndVolume()
    {
        if (_active is { } old)
        {
            // The remains of a failed write after the tail would look like damage in a volume that is not the last.
            if (old.File.Length > old.Tail)
                old.File.SetLength(old.Tail);
            Sync(old, old.Tail);
        }

        _active = null;
    }

    /// <summary>Refuses further puts, deletes and flushes.</summary>
    public void Close()
    {
        using (Gate.Take())
            _isClosed = true;
    }

    /// <summary>Closes what the appender has opened; called after the last sync.</summary>
    public void Dispose() => _markFile?.Dispose();

    /// <summary>
    /// Makes a volume, and fills it if it is a copy. All of that is on disk before it gets its name, and a copy's header says
    /// where it ends.
    /// </summary>
    public static Volume MakeVolume(PackCore core, VolumeHeader header, Action<PlatformFile>? fill = null)
    {
        HeldDirectory directory = core.Directory;
        WholeFile.Write(directory, header.Name.Path, file =>
        {
            fill?.Invoke(file);
            long copyEnd = fill is null ? 0 : Math.Max(file.Length, VolumeHeader.Length);
            file.WriteAt((header with { CopyEnd = copyEnd }).ToBytes(core.Meta.PackId), 0);
        });
        ProtocolSteps.Reach(ProtocolStep.PackVolumeWritten);
        directory.Rename(header.Name.Path + WholeFile.TemporarySuffix, header.Name.Path);
        ProtocolSteps.Reach(ProtocolStep.PackVolumeRenamed);
        try
        {
            if (!PlantedFaults.Has(PlantedFault.PackNameNotFlushed))
                directory.FlushEntries(PackNames.Volumes);

            // Opened again, so that errors give the file's current name.
            PlatformFile made = directory.Open(header.Name.Path, FileOpening.ReadWrite)
                ?? throw new PackDeletedException($"The pack was deleted while it was open: path={directory.Path}.");
            long length = made.Length;
            return new Volume(header.Name, made, core.Meta.PackId)
            {
                CleanAsOf = header.CleanAsOf,
                SequenceBefore = header.SequenceBefore,
                PreviousEnd = header.PreviousEnd,
                Tail = length,
                Synced = length,
            };
        }
        catch (QueueDiskException)
        {
            // Left there, it would count without a checkpoint, and later compactions drop tombstones that it needs.
            WholeFile.TryDelete(directory, header.Name.Path);
            throw;
        }
    }

    /// <summary>
    /// Whether a crash tore the last write of the last volume. If the volume is known to have been longer, its end is lost, and
    /// may be restored.
    /// </summary>
    public static bool IsTorn(PackCore core, Volume last)
    {
        bool isEndLost = core.Hidden.Stretches.Any(stretch =>
            stretch.Name == last.Name && stretch.Length == 0 && stretch.Trace is null);
        return last.Name.Generation == 0 && last.File.Length > last.Tail && !isEndLost;
    }

    /// <summary>
    /// Makes the volume for the next needles and adds it to the pack. If the volume before it is torn, this ends it.
    /// </summary>
    /// <exception cref="PackFullException">No number or no slot is left.</exception>
    public static Volume MakeNext(PackCore core, uint number)
    {
        core.Volumes.RequireFree(1);
        if (number > VolumeName.NumberMax)
        {
            throw new PackFullException(
                $"The pack has used all volume numbers: path={core.Directory.Path}. Copy it into a new pack.");
        }

        Volume? last = core.Volumes.InOrder.LastOrDefault();
        long previousEnd = last is not null && IsTorn(core, last) ? last.Tail : 0;
        Volume made = MakeVolume(core, new VolumeHeader(
            new VolumeName(number, number, 0), 0, core.IsSequenceExact ? core.Sequence : 0, previousEnd));
        core.Volumes.Add(made);
        last?.EndBefore(made);
        return made;
    }

    /// <summary>Says to the next opening that a sync has failed.</summary>
    public static void MakePoison(HeldDirectory directory)
    {
        try
        {
            directory.Open(PackNames.Poison, FileOpening.ReadWriteOrCreate)?.Dispose();
            directory.FlushEntries("");
        }
        catch (QueueDiskException)
        {
            // The failed disk does not accept the mark either. The caller reports the sync's error.
        }
    }

    /// <summary>Null if there is no room for the file: then a recovery knows less.</summary>
    private static PlatformFile? OpenMark(HeldDirectory directory)
    {
        try
        {
            return directory.Open(PackNames.Synced, FileOpening.ReadWriteOrCreate);
        }
        catch (QueueDiskException)
        {
            return null;
        }
    }

    /// <summary>Throws if no pack, or none of at most so many bytes, can hold the object.</summary>
    public static void CheckLengths(ReadOnlySpan<byte> key, ReadOnlySpan<byte> data, long lengthMax)
    {
        if (key.Length > NeedleLayout.KeyLengthMax)
        {
            throw new ArgumentException(string.Create(CultureInfo.InvariantCulture,
                $"The key is too long: length={key.Length}, limit={NeedleLayout.KeyLengthMax}."), nameof(key));
        }

        if (data.Length > NeedleLayout.DataLengthMax)
        {
            throw new ArgumentException(string.Create(CultureInfo.InvariantCulture,
                $"The data is too long: length={data.Length}, limit={NeedleLayout.DataLengthMax}."), nameof(data));
        }

        int length = new NeedleLayout(NeedleKind.Value, 0, key.Length, data.Length, 0).Length;
        if (length > lengthMax)
        {
            throw new ArgumentException(string.Create(CultureInfo.InvariantCulture,
                $"The object is longer than the pack may become: length={length}, maxBytes={lengthMax}."), nameof(data));
        }
    }

    /// <summary>
    /// Writes the needle at the tail of the volume that it returns; null if there is no room. On a full disk a tombstone gets
    /// some of the reserve.
    /// </summary>
    private Volume? Write(ref NeedleSource source, NeedleKind kind, ulong sequence)
    {
        // An eviction comes first: it makes room for the reserve too.
        if (kind == NeedleKind.Value && !IsEvictionDue(source.Layout.Length) && !Reserve.TryRestore())
            throw PackErrors.Full(_core.Directory.Path);
        while (true)
        {
            try
            {
                Volume? volume = RoomFor(kind, source.Layout.Length);
                if (volume is not null)
                    Write(ref source, volume, volume.Tail, sequence);
                return volume;
            }
            catch (QueueDiskException error) when (kind == NeedleKind.Tombstone && DiskErrors.IsFull(error.Errno)
                && Reserve.TryGive())
            {
                // Once more.
            }
        }
    }

    private static void Write(ref NeedleSource source, Volume volume, long position, ulong sequence)
    {
        try
        {
            source.WriteTo(volume, position, sequence);
        }
        catch (QueueDiskException)
        {
            Cut(volume, position);
            throw;
        }
    }

    /// <summary>
    /// Removes the remains of a failed write. The next write goes to the same place, so a failure of this call does no harm.
    /// </summary>
    private static void Cut(Volume volume, long position)
    {
        try
        {
            volume.File.SetLength(position);
        }
        catch (QueueDiskException)
        {
            // The bytes there are no valid needle, or one that the next put overwrites. The caller reports its own error.
        }
    }

    private bool Fits(int length) => _active is not null
        && (_active.Tail + length <= _core.Meta.VolumeLength || _active.Tail == VolumeHeader.Length);

    /// <summary>
    /// Whether a needle of this length needs a new volume that would make the pack longer than it may become.
    /// </summary>
    private bool IsEvictionDue(int length) => LengthMax < long.MaxValue && !Fits(length)
        && _core.Volumes.NeedlesLength + RoomOfNext(length) > LengthMax;

    /// <summary>
    /// The volume that takes a needle of this length; null if another one would make the pack longer than it may become. The
    /// caller holds the gate.
    /// </summary>
    private Volume? RoomFor(NeedleKind kind, int length)
    {
        if (Fits(length))
            return _active!;

        // Deletes are the way out of a full pack, and of a full disk. No entry of the index points to a tombstone, so a tombstone
        // may be beyond the length up to which entries can give positions.
        int reserved = kind == NeedleKind.Tombstone ? VolumeTable.ReservedForCompaction : VolumeTable.ReservedForTombstones;
        Volume? old = _active;
        bool mayExceed = kind == NeedleKind.Tombstone && old is not null && old.Tail + length <= NeedleLayout.SyncedMax;
        if (mayExceed && _core.Volumes.FreeCount <= reserved)
            return old;
        if (IsEvictionDue(length))
            return null;
        _core.Volumes.RequireFree(reserved + 1);
        EndVolume();
        ProtocolSteps.Reach(ProtocolStep.PackOldVolumeSynced);
        IReadOnlyList<Volume> volumes = _core.Volumes.InOrder;
        try
        {
            return _active = MakeNext(_core, volumes.Count == 0 ? 1 : volumes[^1].Name.Last + 1);
        }
        catch (QueueDiskException error) when (old is not null && DiskErrors.IsFull(error.Errno))
        {
            // It is whole, and still the last one.
            _active = old;
            if (!mayExceed)
                throw;
            return old;
        }
    }

    /// <summary>
    /// Syncs a volume. After a failure nothing is ever written to this pack again. Only one sync runs at a time: of two
    /// concurrent syncs of a file, the system reports an error to only one, and the other would confirm what is lost.
    /// </summary>
    private void Sync(Volume volume, long upTo)
    {
        if (PlantedFaults.Has(PlantedFault.PackNotFlushed))
            return;
        lock (_syncing)
        {
            ThrowIfPoisoned();
            try
            {
                volume.File.Sync();
            }
            catch (QueueDiskException error)
            {
                Poison(error);
                throw;
            }

            volume.Synced = Math.Max(volume.Synced, upTo);
            bool isNews = volume.Name.Generation == 0
                && (volume.Name.Last > _mark.VolumeNumber
                    || (volume.Name.Last == _mark.VolumeNumber && volume.Synced > _mark.Position));
            if (isNews)
                WriteMark(_mark with { VolumeNumber = volume.Name.Last, Position = volume.Synced });
        }
    }

    /// <summary>Runs under the lock of syncs, or before any other thread knows the appender.</summary>
    private void WriteMark(SyncedMark mark)
    {
        _mark = mark;
        if (_markFile is not null)
            mark.TryWrite(_markFile, _core.Meta.PackId);
    }

    private ulong SyncActive()
    {
        Volume? volume;
        long tail;
        ulong sequence;
        using (Gate.Take())
        {
            ThrowIfPoisoned();
            (volume, tail, sequence) = (_active, _active?.Tail ?? 0, _core.Sequence);
            if (volume is null || !volume.TryAcquire())
            {
                // The next volume is not made yet, perhaps because the folder is gone.
                PackErrors.ThrowIfRemoved(_core.Directory);
                return sequence;
            }
        }

        try
        {
            Sync(volume, tail);
            ProtocolSteps.Reach(ProtocolStep.PackSynced);
            PackErrors.ThrowIfRemoved(_core.Directory);
            return sequence;
        }
        finally
        {
            volume.Release();
        }
    }

    private void Poison(QueueDiskException error)
    {
        if (!error.MayHaveLostData || Interlocked.CompareExchange(ref _poison, error, null) is not null)
            return;
        MakePoison(_core.Directory);
    }

    private void ThrowIfUnusable()
    {
        ObjectDisposedException.ThrowIf(_isClosed, typeof(PackStore));
        ThrowIfPoisoned();
    }

    private void ThrowIfPoisoned()
    {
        if (Volatile.Read(ref _poison) is { } cause)
            throw PackErrors.Poisoned(_core.Directory.Path, cause);
    }
}
