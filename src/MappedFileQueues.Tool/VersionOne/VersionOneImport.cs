using MappedFileQueues.Engine;
using MappedFileQueues.Log.Sequences;

namespace MappedFileQueues.Tool.VersionOne;

/// <summary>
/// Appends the messages of a store of 1.x. Each has the offset of its end in the old store as its number, under one producer id:
/// number and message become visible, and durable, in one step, so whatever kills the import, another one continues where it was.
/// </summary>
internal sealed class VersionOneImport(
    VersionOneFolder folder, int? structSize, bool takesGhosts, MappedFileQueueOptions options, CancellationToken stopped)
{
    private const string ProducerId = "import-v1";

    private readonly VersionOneReader _reader = VersionOneReader.Open(folder, structSize, stopped);
    private long _alreadyThere;
    private long _leftOut;

    public VersionOneResult Run()
    {
        ThrowIfUnusable();
        using TargetStore target = new(options, FindHeader(), ProducerId);
        try
        {
            bool isComplete = Append(target);
            target.Flush();
            (long? place, bool isKept) = isComplete ? CarryConsumer(target.Engine!) : (null, false);
            return new VersionOneResult(
                target.Count, target.Bytes, _alreadyThere, _leftOut, _reader.UnreadBytes, _reader.Unread, place, isKept,
                isComplete);
        }
        catch (MappedFileQueueException error)
        {
            throw new ToolException($"{error.Message} Imported before that: messages={target.Count}. Run the import again: it "
                + "continues there.");
        }
    }

    private bool Append(TargetStore target)
    {
        if (!target.IsNew)
            target.Open();
        ulong last = target.LastSequence;
        if (last > 0)
            Compare(target.Engine!);
        using ProgressLine progress = new("importing");
        while (_reader.TryRead(out ReadOnlySpan<byte> message))
        {
            if ((ulong)_reader.NextOffset <= last)
                _alreadyThere++;
            else if (_reader.IsGhost && !takesGhosts)
                _leftOut++;
            else
                target.AddNumbered(message, (ulong)_reader.NextOffset, _alreadyThere + target.Count);
            progress.Report(_reader.Offset, folder.End);
        }

        if (stopped.IsCancellationRequested)
            return false;
        // A folder without messages becomes a store without them.
        target.Open();
        return true;
    }

    /// <summary>
    /// What was imported before must be what the old store holds: another store has other messages at its offsets.
    /// </summary>
    private void Compare(StoreEngine queue)
    {
        ulong id = IdOf(queue);
        using MessageSource source = new ConsumePlan(options.StorePath).Open();
        while (!stopped.IsCancellationRequested && source.TryRead(TimeSpan.Zero, out ReadOnlySpan<byte> there))
        {
            if (source.Headers.ProducerId != id)
                continue;
            ulong sequence = source.Headers.Sequence;
            ReadOnlySpan<byte> old;
            do
            {
                if (!_reader.TryRead(out old))
                {
                    if (stopped.IsCancellationRequested)
                        return;
                    throw Other(sequence);
                }

                _alreadyThere++;
            }
            while ((ulong)_reader.NextOffset < sequence);
            if ((ulong)_reader.NextOffset != sequence || !old.SequenceEqual(there))
                throw Other(sequence);
        }
    }

    /// <summary>
    /// Puts the default consumer at the first message that the old one has not committed. It goes forward only, and over nothing
    /// but imported messages.
    /// </summary>
    private (long? Offset, bool IsKept) CarryConsumer(StoreEngine queue)
    {
        MappedFileConsumerInfo? there = queue.GetInfo().Consumers.FirstOrDefault(consumer => consumer.Name.Length == 0);
        if (folder.Consumer is not { } committed)
            return (there?.Offset, there is not null);
        ulong id = IdOf(queue);
        using MessageSource source = new ConsumePlan(options.StorePath).Open();
        bool isFound = false;
        while (!isFound && source.TryRead(TimeSpan.Zero, out _))
            isFound = source.Headers.ProducerId != id || source.Headers.Sequence > (ulong)committed;
        long place = isFound ? source.MessageOffset : source.NextOffset;
        return there is null || (there.Offset < place && !there.IsAttached)
            ? (queue.ResetConsumer("", QueueStart.FromOffset(place)), false)
            : (there.Offset, true);
    }

    private static ulong IdOf(StoreEngine queue)
    {
        using ProducerFile? file =
            ProducerFile.TryOpen(queue.Store.Directory, queue.Store.Meta, ProducerFile.NameOf(ProducerId));
        return file?.Id ?? 0;
    }

    private void ThrowIfUnusable()
    {
        if (StorePaths.IsInside(folder.Path, options.StorePath))
            throw new ToolException($"The folder of 1.x is only read: path={folder.Path}. Name a new folder outside of it.");
        if (folder.Producer is null && !takesGhosts)
        {
            throw new ToolException($"Nothing tells where the messages end: path={folder.Path}, missing=offset/producer.offset. "
                + "Restore that file, or take every complete message with --ghosts.");
        }
    }

    /// <summary>
    /// Nothing tells the fields of the old structs. A store that a program has made knows its own; a new one takes the first that
    /// fits. A store of messages takes the bytes of structs.
    /// </summary>
    private StoreHeader? FindHeader() => structSize is not { } size ? null
        : AttachedStore.FindMeta(options.StorePath) is not { } there
            ? new StoreHeader(StoreHeader.Version, Guid.Empty, size, 0, options.SegmentSize)
        : there.Kind == StoreKind.Messages ? null
        : StoreHeader.Of(there) with { StructSize = size };

    private ToolException Other(ulong sequence) => new(
        $"The store holds an import of another store: path={options.StorePath}, old={folder.Path}, offset={sequence}. Nothing "
            + "was appended: name another store.");
}

/// <summary>The result of `mfq import-v1`.</summary>
internal sealed record VersionOneResult(
    long Messages, long Bytes, long AlreadyThere, long LeftOut, long UnreadBytes, IReadOnlyList<UnreadStretch> Unread,
    long? ConsumerOffset, bool IsConsumerKept, bool IsComplete);
