using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Reading;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs.Writing;

/// <summary>The writing half of a pack: appends, and writes the index down from time to time.</summary>
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

    /// <summary>Held by whoever writes a checkpoint or changes the set of volumes; taken before the appender's gate.</summary>
    public Lock Maintenance { get; } = new();

    /// <summary>Writes a needle; afterwards a checkpoint may become due, which a thread of the pool writes.</summary>
    public bool Append(NeedleKind kind, ReadOnlySpan<byte> key, ReadOnlySpan<byte> data, PackDurability? durability)
    {
        bool isDone = Appender.Append(kind, key, data, durability ?? _durability);
        bool isDue = Appender.Written - Volatile.Read(ref _checkpointedAt) >= _checkpointInterval;
        if (isDue && Interlocked.Exchange(ref _isCheckpointQueued, 1) == 0)
            Start(CheckpointInBackground);
        return isDone;
    }

    /// <summary>Writes the index down, unless nothing has changed since.</summary>
    public void Checkpoint()
    {
        lock (Maintenance)
            CheckpointHeld();
    }

    /// <summary>The same for a caller that holds <see cref="Maintenance"/>.</summary>
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

        // No entry may point behind what is on disk.
        Appender.WaitUntilDurable(content.Sequence);
        IndexCheckpoint.Write(Core.Directory, Core.Meta, content, shards);
        Volatile.Write(ref _checkpointedAt, written);
        _isDirty = false;
    }

    /// <summary>The set of volumes has changed: the next checkpoint is written in any case.</summary>
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

    /// <summary>Scans all volumes while puts go on, then what came meanwhile, and compares with the index.</summary>
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
    /// Nothing depends on a checkpoint but the time of the next opening, so its failure is nobody's error. A failed sync on
    /// the way has poisoned the pack, which the next put reports.
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
            // The old checkpoint counts. The next attempt comes an interval later.
            Volatile.Write(ref _checkpointedAt, Appender.Written);
            _isDirty = true;
        }
    }
}
