using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues;

/// <summary>Like <see cref="MappedFileReader"/>, for the structs of one type.</summary>
/// <typeparam name="T">The message: a struct without references.</typeparam>
public sealed unsafe class MappedFileReader<T> : IDisposable
    where T : unmanaged
{
    private readonly MappedFileReader _reader;

    private MappedFileReader(MappedFileReader reader)
    {
        _reader = reader;
        reader.CorruptionSkipped += (_, skipped) => CorruptionSkipped?.Invoke(this, skipped);
        reader.MessagesSkipped += (_, skipped) => MessagesSkipped?.Invoke(this, skipped);
    }

    /// <inheritdoc cref="MappedFileReader.Offset"/>
    public long Offset => _reader.Offset;

    /// <inheritdoc cref="MappedFileReader.MessageOffset"/>
    public long MessageOffset => _reader.MessageOffset;

    /// <inheritdoc cref="MappedFileReader.Headers"/>
    public MessageHeaders? Headers => _reader.Headers;

    /// <inheritdoc cref="MappedFileReader.HeadersInPlace"/>
    public MessageHeadersView HeadersInPlace => _reader.HeadersInPlace;

    /// <inheritdoc cref="MappedFileReader.CorruptionSkipped"/>
    public event EventHandler<CorruptionSkippedEventArgs>? CorruptionSkipped;

    /// <inheritdoc cref="MappedFileReader.MessagesSkipped"/>
    public event EventHandler<MessagesSkippedEventArgs>? MessagesSkipped;

    /// <inheritdoc cref="MappedFileReader.Open(string, QueueStart)"/>
    /// <exception cref="QueueFormatException">The store holds another struct, or messages.</exception>
    public static MappedFileReader<T> Open(string path, QueueStart start = default) => Open(path, start, CorruptionPolicy.Throw);

    /// <inheritdoc cref="MappedFileReader.Open(string, QueueStart, CorruptionPolicy, OutOfRangePolicy)"/>
    /// <exception cref="QueueFormatException">The store holds another struct, or messages.</exception>
    public static MappedFileReader<T> Open(
        string path, QueueStart start, CorruptionPolicy corruption, OutOfRangePolicy onOutOfRange = OutOfRangePolicy.Throw) =>
        MappedFileReader.Open(path, start, corruption, onOutOfRange).Into(reader =>
        {
            reader.ThrowIfOther(sizeof(T), StructLayoutFingerprint.Of<T>());
            return new MappedFileReader<T>(reader);
        });

    /// <inheritdoc cref="MappedFileReader.TryRead(out ReadOnlySpan{byte})"/>
    public bool TryRead(out T message)
    {
        bool found = _reader.TryRead(out ReadOnlySpan<byte> bytes);
        message = found ? Unsafe.ReadUnaligned<T>(in bytes[0]) : default;
        return found;
    }

    /// <inheritdoc cref="MappedFileReader.TryRead(out ReadOnlySpan{byte}, TimeSpan, CancellationToken)"/>
    public bool TryRead(out T message, TimeSpan timeout, CancellationToken cancellationToken = default)
    {
        bool found = _reader.TryRead(out ReadOnlySpan<byte> bytes, timeout, cancellationToken);
        message = found ? Unsafe.ReadUnaligned<T>(in bytes[0]) : default;
        return found;
    }

    /// <inheritdoc cref="MappedFileReader.WaitToReadAsync"/>
    public ValueTask<bool> WaitToReadAsync(CancellationToken cancellationToken = default) =>
        _reader.WaitToReadAsync(cancellationToken);

    /// <inheritdoc cref="MappedFileReader.Seek"/>
    public void Seek(QueueStart start) => _reader.Seek(start);

    /// <inheritdoc cref="MappedFileQueue.FindOffset(DateTimeOffset)"/>
    public long FindOffset(DateTimeOffset time) => _reader.FindOffset(time);

    /// <inheritdoc cref="MappedFileQueue.FindOffset(long)"/>
    public long FindOffset(long messageNumber) => _reader.FindOffset(messageNumber);

    /// <inheritdoc cref="MappedFileQueue.FindNumber"/>
    public long FindNumber(long offset) => _reader.FindNumber(offset);

    /// <inheritdoc cref="MappedFileReader.GetInfo()"/>
    public MappedFileQueueInfo GetInfo() => _reader.GetInfo();

    /// <inheritdoc cref="MappedFileQueue.GetInfo(bool)"/>
    public MappedFileQueueInfo GetInfo(bool countsMessages) => _reader.GetInfo(countsMessages);

    /// <inheritdoc cref="MappedFileReader.Dispose"/>
    public void Dispose() => _reader.Dispose();
}
