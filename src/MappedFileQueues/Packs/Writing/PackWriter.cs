using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Reading;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Writing;

/// <summary>The writing half of a pack: appends needles, and writes checkpoints of the index from time to time.</summary>
internal sealed class PackWriter : IDisposable
{
    private readonly OpenedPack _opened;
    private readonly PackDurability _durability;
    private readonly long _checkpointInterval;
    private long _checkpointedAt;
    private int _isCheckpointQueued;
    private bool _isDirty;
    private bool _isDisposed;

    public PackWriter(OpenedPack opened, PackOptions options)
    {
        (_opened, _durability, _checkpointInterval) = (opened, options.Durability, options.CheckpointInterval);
        Appender = new PackAppender(Core, opened.Active, opened.Mark);
        _isDirty = opened.Loaded.ScannedLength > 0 || opened.Loaded.Leftovers.Count > 0;
        _checkpointedAt = -opened.Loaded.ScannedLength;
    }

    public PackCore Core => _opened.Loaded.Core;

    public PackAppender Appender { get; }

    /// <summary>Held while a checkpoint is written or the set of volumes changes; taken before the appender's gate.</summary>
    public Lock Maintenance { get; } = new();

    /// <summary>Writes a needle. If a checkpoint is due afterwards, a thread of the pool writes it.</summary>
    public bool Append(NeedleKind kind, ReadOnlySpan<byte> key, ReadOnlySpan<byte> data, PackDurability? durability)
    {
        bool isDone = Appender.Append(kind, key, data, durability ?? _durability);
        bool isDue = Appender.Written - Volatile.Read(ref _checkpointedAt) >= _checkpointInterval;
        if (isDue && Interlocked.Exchange(ref _isCheckpointQueued, 1) == 0)
            Start(CheckpointInBackground);
        return isDone;
    }

    /// <summary>Writes a checkpoint of the index, unless nothing has changed since the last one.</summary>
    public void Checkpoint()
    {
        lock (Maintenance)
            CheckpointHeld();
    }

    /// <summary>As <see cref="Checkpoint"/>, for a caller that holds <see cref="Maintenance"/>.</summary>
    public void CheckpointHeld()
    {
        long written;
        CheckpointContent content;
        ulong[][] shards = new ulong[PackIndex.ShardCount][];
        using (Appender.Gate.Take())
        {
            written = Appender.Written;
            bool isCovered = written == _checkpointedAt && !_isDirty;
            if (isCovered)
                return;
            CoveredVolume[] volumes = [.. Core.Volumes.InOrder.Select(static volume => new CoveredVolume(
                volume.Slot, volume.Name, volume.Tail, volume.LiveLength, volume.LiveCount, volume.CleanAsOf,
                volume.TombstoneLength))];
            content = new CheckpointContent(Core.Sequence, volumes, Core.Hidden.Stretches, Core.Hidden.Deleted);
            for (int number = 0; number < shards.Length; number++)
                shards[number] = Core.Index.CopyShard(number);
        }

        // No entry may point beyond what is on disk.
        Appender.WaitUntilDurable(content.Sequence);
        IndexCheckpoint.Write(Core.Directory, Core.Meta, content, shards);
        Volatile.Write(ref _checkpointedAt, written);
        _isDirty = false;
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
        lock (Maintenance)
        {
            if (_isDisposed)
                return;
            _isDisposed = true;
            Appender.Close();
            TryCheckpoint();
            Appender.Dispose();
            Core.Dispose();
            _opened.WriterLock.Dispose();
            Core.Directory.Dispose();
        }
    }

    private static void Start(Action work)
    {
        if (ProtocolSteps.Background is { } background)
            background(work);
        else
            ThreadPool.UnsafeQueueUserWorkItem(static state => ((Action)state!)(), work);
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
        catch (MappedFileQueueException)
        {
            // The old checkpoint counts. The next attempt follows an interval later.
            Volatile.Write(ref _checkpointedAt, Appender.Written);
            _isDirty = true;
        }
    }
}
