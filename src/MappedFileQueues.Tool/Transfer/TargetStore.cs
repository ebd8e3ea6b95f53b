using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tool.Transfer;

/// <summary>A store that messages of another one are appended to, of either kind.</summary>
internal sealed class TargetStore : IDisposable
{
    private readonly QueueCore _queue;
    private readonly MappedFileProducer _producer;
    private readonly int _structSize;
    private readonly int _lengthMax;

    /// <summary>Opens it, and makes it if it is missing: of the source's kind and segment size.</summary>
    /// <param name="options">The path and the locks; the segment size counts only if the source tells none.</param>
    /// <param name="source">What the messages come from; null for messages of any length.</param>
    public TargetStore(MappedFileQueueOptions options, StoreHeader? source)
    {
        StoreMeta? there = ReadMeta(options.StorePath);
        _structSize = source?.StructSize ?? 0;
        if (source is not null && there is null)
            options.SegmentSize = source.SegmentSize;
        StoreKind kind = _structSize > 0 ? StoreKind.Struct : StoreKind.Messages;
        if (there is not null && (there.Kind != kind || there.StructSize != _structSize
            || (kind == StoreKind.Struct && there.LayoutFingerprint != source!.Layout)))
        {
            throw new ToolException($"The store holds something else than what is to come: path={options.StorePath}, "
                + $"structSize={there.StructSize}, coming={_structSize}. Name another store; a missing one is made.");
        }

        _queue = new QueueCore(options, kind, _structSize, source?.Layout ?? 0);
        try
        {
            _producer = _queue.Open(() => new MappedFileProducer(_queue));
            _lengthMax = _producer.MessageLengthMax;
        }
        catch
        {
            _queue.Dispose();
            throw;
        }
    }

    /// <summary>The number of messages appended.</summary>
    public long Count { get; private set; }

    /// <summary>Their length in bytes.</summary>
    public long Bytes { get; private set; }

    /// <summary>Appends a message, the next of the source after so many.</summary>
    public void Add(ReadOnlySpan<byte> message, long before)
    {
        if (message.Length > _lengthMax || (_structSize > 0 && message.Length != _structSize))
        {
            throw new ToolException($"The message does not fit: message={before + 1}, length={message.Length}, "
                + (_structSize > 0 ? $"structSize={_structSize}" : $"longest={_lengthMax}")
                + $"; the {before} before it are in the store. Name a store with larger segments.");
        }

        _producer.Produce(message);
        Count++;
        Bytes += message.Length;
    }

    /// <summary>Puts everything on disk.</summary>
    public void Flush() => _queue.Flush();

    /// <summary>Closes the store.</summary>
    public void Dispose() => _queue.Dispose();

    private static StoreMeta? ReadMeta(string storePath)
    {
        using HeldDirectory? directory =
            CurrentPlatform.Services.OpenDirectory(Path.GetFullPath(storePath), create: false, mode: null);
        return directory is null ? null : StoreMetaFile.Read(directory);
    }
}
