using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Reading;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Packs.Writing;

/// <summary>
/// The writing half of a pack: appends needles, and does from time to time what an append makes due: a checkpoint of the index,
/// an eviction, a compaction.
/// </summary>
internal sealed class PackWriter : IDisposable
{
    private readonly OpenedPack _opened;
    private readonly PackDurability _durability;
    /// <summary>
    /// An asynchronous put of more than this goes to the pool, because copying it takes as long as a change of threads.
    /// </summary>
    private const int ShortLengthMax = 16 * 1024;

    /// <summary>The garbage is counted whenever this part of a volume more has become garbage.</summary>
    private const int GarbageLooksPerVolume = 8;

    private readonly long _checkpointInterval;
    private readonly double? _garbageMax;
    private readonly CancellationTokenSource _closing = new();
    private long _checkpointedAt;
    private int _isCheckpointQueued;
    private long _garbageSeen;
    private int _isCompactionQueued;
    private long _evictedCount;
    private MappedFileQueueException? _compactionFailure;
    private bool _isDirty;
    private bool _isDisposed;

    public PackWriter(OpenedPack opened, PackOptions options)
    {
        (_opened, _durability, _checkpointInterval) = (opened, options.Durability, options.CheckpointInterval);
        _garbageMax = options.CompactAtGarbage;
        _garbageSeen = -GarbageStep;
        Appender = new PackAppender(Core, opened.Active, opened.Mark, options.MaxBytes ?? long.MaxValue);
        _isDirty = opened.Loaded.ScannedLength > 0 || opened.Loaded.Leftovers.Count > 0;
        _checkpointedAt = -opened.Loaded.ScannedLength;
        Appender.Reserve.Keep(Core.Volumes.NeedlesLength, Core.Meta.VolumeLength);
    }

    public PackCore Core => _opened.Loaded.Core;

    public PackAppender Appender { get; }

    /// <summary>How many objects were evicted since the opening.</summary>
    public long EvictedCount => Volatile.Read(ref _evictedCount);

    /// <summary>Why the last compaction in the background has failed; null if it has not.</summary>
    public MappedFileQueueException? CompactionFailure => Volatile.Read(ref _compactionFailure);

    private long GarbageStep => Core.Meta.VolumeLength / GarbageLooksPerVolume;

    /// <summary>Held while a checkpoint is written or the set of volumes changes; taken before the appender's gate.</summary>
    public Lock Maintenance { get; } = new();

    /// <summary>
    /// Writes a needle, and waits until it is on disk if the level says so; false if there is nothing to delete.
    /// </summary>
    public bool Append(NeedleKind kind, ReadOnlySpan<byte> key, ReadOnlySpan<byte> data, PackDurability? durability)
    {
        PackDurability level = LevelOf(durability);
        if (!Append(kind, key, data, level, out ulong sequence))
            return false;
        if (level == PackDurability.Group)
            Appender.WaitUntilDurable(sequence);
        return true;
    }

    /// <summary>
    /// As <see cref="Append(NeedleKind, ReadOnlySpan{byte}, ReadOnlySpan{byte}, PackDurability?)"/>. The caller's thread copies a
    /// short needle to the system, as any write of a file does, and never waits for the disk.
    /// </summary>
    public async ValueTask<bool> AppendAsync(
        NeedleKind kind,
        ReadOnlyMemory<byte> key,
        ReadOnlyMemory<byte> data,
        PackDurability? durability,
        CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        PackDurability level = LevelOf(durability);
        ulong sequence = 0;
        int length = NeedleLayout.LengthMin + NeedleLayout.Unit + key.Length + data.Length;
        bool isShort = (uint)length <= ShortLengthMax && Appender.IsRoomLikely(length);
        bool isDone = isShort ? Write() : await Task.Run(Write, cancellationToken).ConfigureAwait(false);
        if (isDone && level == PackDurability.Group)
            await Appender.WaitUntilDurableAsync(sequence).WaitAsync(cancellationToken).ConfigureAwait(false);
        return isDone;

        bool Write() => Append(kind, key.Span, data.Span, level, out sequence);
    }

    /// <summary>As <see cref="PackAppender.Flush"/>, without a thread that waits.</summary>
    public async ValueTask FlushAsync(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        ulong sequence = Appender.WrittenSequence();
        await Appender.WaitUntilDurableAsync(sequence).WaitAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Evicts what a pack of limited length holds too much.</summary>
    public void EvictExcess() => MakeRoom(0);

    /// <summary>Writes a checkpoint of the index, unless nothing has changed since the last one.</summary>
    public void Checkpoint()
    {
        lock (Maintenance)
            CheckpointHeld();
    }

    /// <summary>As <see cref="Checkpoint"/>, for a caller that holds <see cref="Maintenance"/>.</summary>
    /// <param name="eviction">Volumes that the checkpoint leaves out, with all that they hold, although they still count.</param>
    public void CheckpointHeld(PackEviction? eviction = null)
    {
        long written;
        CheckpointContent content;
        ulong[][] shards = new ulong[PackIndex.ShardCount][];
        using (Appender.Gate.Take())
        {
            written = Appender.Written;
            bool isCovered = written == _checkpointedAt && !_isDirty && eviction is null;
            if (isCovered)
                return;
            IEnumerable<Volume> counting = Core.Volumes.InOrder.Where(volume => eviction?.Slots.Contains(volume.Slot) != true);
            CoveredVolume[] volumes = [.. counting.Select(static volume => new CoveredVolume(
                volume.Slot, volume.Name, volume.Tail, volume.LiveLength, volume.LiveCount, volume.CleanAsOf,
                volume.TombstoneLength))];
            HiddenStretch[] hidden =
                [.. Core.Hidden.Stretches.Where(stretch => eviction?.Made.Name.Overlaps(stretch.Name) != true)];
            content = new CheckpointContent(Core.Sequence, volumes, hidden, Core.Hidden.Deleted);
            for (int number = 0; number < shards.Length; number++)
                shards[number] = Core.Index.CopyShard(number);
        }

        for (int number = 0; eviction is not null && number < shards.Length; number++)
            shards[number] = Core.Index.Without(shards[number], eviction.Slots);

        // No entry may point beyond what is on disk.
        Appender.WaitUntilDurable(content.Sequence);
        IndexCheckpoint.Write(Core.Directory, Core.Meta, content, shards);
        Volatile.Write(ref _checkpointedAt, written);
        _isDirty = false;
        KeepReserve();
    }

    /// <summary>What a full disk took of the reserve is made good.</summary>
    public void KeepReserve()
    {
        using (Appender.Gate.Take())
            Appender.Reserve.Keep(Core.Volumes.NeedlesLength, Core.Meta.VolumeLength);
    }

    /// <summary>Records that the set of volumes has changed, so the next checkpoint is written in any case.</summary>
    public void MarkChanged() => _isDirty = true;

    /// <summary>Replaces volumes that hold much garbage.</summary>
    public PackCompaction Compact(double garbageMin, CancellationToken cancellationToken)
    {
        lock (Maintenance)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, typeof(PackStore));
            return new PackCompactor(this).Run(garbageMin, cancellationToken);
        }
    }

    /// <summary>
    /// Scans all volumes while puts continue, then what was written meanwhile, and compares the result with the index.
    /// </summary>
    public PackVerification Verify()
    {
        lock (Maintenance)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, typeof(PackStore));
            using var verifier = new PackVerifier(Core, Appender.Active, besideWriter: false);
            verifier.Scan();
            using (Appender.Gate.Take())
            {
                verifier.Scan();
                return verifier.Compare();
            }
        }
    }

    public void Dispose()
    {
        _closing.Cancel();
        // Half closed, the pack would keep the writer's lock as long as the process lives.
        Uninterrupted.Run(Close);
    }

    private void Close()
    {
        lock (Maintenance)
        {
            if (_isDisposed)
                return;
            Appender.Close();
            TryCheckpoint();
            _isDisposed = true;
            Appender.Dispose();
            Core.Dispose();
            _opened.MetaLock?.Dispose();
            _opened.WriterLock.Dispose();
            Core.Directory.Dispose();
        }
    }

    private PackDurability LevelOf(PackDurability? durability)
    {
        if (durability is { } level)
            PackOptions.ThrowIfUndefined(level);
        return durability ?? _durability;
    }

    /// <summary>Writes a needle, evicting first what has to make room for it, and starts what is due afterwards.</summary>
    private bool Append(
        NeedleKind kind, ReadOnlySpan<byte> key, ReadOnlySpan<byte> data, PackDurability level, out ulong sequence)
    {
        AppendOutcome outcome;
        while ((outcome = Appender.Append(kind, key, data, level, out sequence)) == AppendOutcome.NeedsRoom)
            MakeRoom(new NeedleLayout(kind, 0, key.Length, data.Length, 0).Length);
        bool isDue = Appender.Written - Volatile.Read(ref _checkpointedAt) >= _checkpointInterval;
        if (isDue && Interlocked.Exchange(ref _isCheckpointQueued, 1) == 0
            && TryStart(CheckpointInBackground, "checkpoint") is not null)
            Volatile.Write(ref _isCheckpointQueued, 0);
        bool isLookDue = _garbageMax is not null && Appender.GarbageMade - Volatile.Read(ref _garbageSeen) >= GarbageStep;
        if (isLookDue && Interlocked.Exchange(ref _isCompactionQueued, 1) == 0
            && TryStart(CompactInBackground, "compact") is { } failure)
            EndCompaction(failure);
        return outcome == AppendOutcome.Written;
    }

    /// <summary>Evicts what is in the way of a volume that begins with a needle of this length; 0: of what is there.</summary>
    private void MakeRoom(int length)
    {
        if (Appender.LengthMax == long.MaxValue)
            return;
        lock (Maintenance)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, typeof(PackStore));
            long room = length == 0 ? 0 : Appender.RoomOfNext(length);
            long count = Evict(Appender.LengthMax - room);
            Volatile.Write(ref _evictedCount, _evictedCount + count);
        }
    }

    /// <summary>Evicts. On a full disk the reserve makes room for what has to be written first.</summary>
    private long Evict(long lengthMax)
    {
        try
        {
            return new PackEvictor(this).Run(lengthMax);
        }
        catch (QueueDiskException error) when (DiskErrors.IsFull(error.Errno) && !Appender.IsPoisoned)
        {
            using (Appender.Gate.Take())
                Appender.Reserve.Lend();
            try
            {
                return new PackEvictor(this).Run(lengthMax);
            }
            finally
            {
                KeepReserve();
            }
        }
    }

    /// <summary>
    /// The work reads and writes for seconds: not on a thread that others of the pool wait for. What was put is put, so where the
    /// system gives no thread, that is only returned.
    /// </summary>
    private static MappedFileQueueException? TryStart(Action work, string name)
    {
        try
        {
            if (ProtocolSteps.Background is { } background)
                background(work);
            else
                _ = BackgroundThread.Start(work, name);
            return null;
        }
        catch (MappedFileQueueException error)
        {
            return error;
        }
    }

    private void CompactInBackground()
    {
        lock (Maintenance)
        {
            EndCompaction(_isDisposed || Appender.IsPoisoned ? CompactionFailure : TryCompact(_garbageMax!.Value));
        }
    }

    private void EndCompaction(MappedFileQueueException? failure)
    {
        Volatile.Write(ref _compactionFailure, failure);
        Volatile.Write(ref _garbageSeen, Appender.GarbageMade);
        Volatile.Write(ref _isCompactionQueued, 0);
    }

    /// <summary>
    /// Returns a failure, for those who ask: nothing acknowledged depends on a compaction, and the next one may succeed. If the
    /// sync in it failed, the pack is poisoned, and the next put reports that.
    /// </summary>
    private MappedFileQueueException? TryCompact(double garbageMax)
    {
        IReadOnlyList<Volume> volumes = Core.Volumes.InOrder;
        long length = volumes.Sum(static volume => volume.NeedlesLength);
        long garbage = length - volumes.Sum(static volume => volume.LiveLength);
        if (garbage == 0 || garbage < length * garbageMax)
            return CompactionFailure;
        try
        {
            _ = new PackCompactor(this).Run(garbageMax, _closing.Token);
            return null;
        }
        catch (OperationCanceledException)
        {
            // The pack is being closed. What is done by now stays done.
            return CompactionFailure;
        }
        catch (Exception error)
        {
            return error as MappedFileQueueException
                ?? new MappedFileQueueException($"The compaction has failed; the next one tries again. {error.Message}", error);
        }
    }

    private void CheckpointInBackground()
    {
        lock (Maintenance)
        {
            if (!_isDisposed)
                TryCheckpoint();
            Volatile.Write(ref _isCheckpointQueued, 0);
        }
    }

    /// <summary>
    /// Ignores a failure, because only the time of the next opening depends on a checkpoint. If the sync before it failed, the
    /// pack is poisoned, and the next put reports that.
    /// </summary>
    private void TryCheckpoint()
    {
        if (Appender.IsPoisoned)
            return;
        try
        {
            CheckpointHeld();
        }
        catch (Exception error) when (error is MappedFileQueueException or OutOfMemoryException)
        {
            // The old checkpoint counts. The next attempt follows an interval later.
            Volatile.Write(ref _checkpointedAt, Appender.Written);
            _isDirty = true;
        }
    }
}
