using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;

namespace MappedFileQueues;

/// <summary>
/// The store to which one consumer's dead letters go. Opened with the first of them; other consumers and processes may have it
/// open too.
/// </summary>
/// <param name="path">
/// Its directory, as it is named now: it is opened later, and the process may work in another folder then.
/// </param>
/// <param name="queueOptions">The options of the queue that the messages come from.</param>
/// <param name="letterLengthMax">The longest letter that any store takes.</param>
internal sealed class DeadLetterBox(
    string path, MappedFileQueueOptions queueOptions, int letterLengthMax = FrameHeader.PayloadLengthMax) : IDisposable
{
    private const long SegmentSizeMin = 64L * 1024 * 1024;

    /// <summary>No message is longer, whatever the segments.</summary>
    private const long SegmentSizeMax = FrameHeader.FrameLengthMax;

    /// <summary>The queue's own directory, as it is named now.</summary>
    private readonly string _queuePath = SystemPath.Full(queueOptions.StorePath);

    private MappedFileQueue? _queue;
    private volatile bool _isDisposed;

    public string Path { get; } = SystemPath.Full(path);

    /// <summary>
    /// Appends a letter; it is on disk when the call returns. After an exception the next call opens the store anew: a failed
    /// flush has poisoned it, or an operator has moved it away in the meantime.
    /// </summary>
    /// <param name="letter">The letter.</param>
    /// <param name="segmentSize">The length of the segments that its message comes from.</param>
    /// <param name="headers">Those of the message, which become the letter's.</param>
    /// <exception cref="ObjectDisposedException">The box was disposed.</exception>
    public void Append(DeadLetter letter, long segmentSize, MessageHeaders? headers)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        try
        {
            MappedFileQueue queue = _queue ??= Open(segmentSize);
            // Dispose may have come before there was anything to close.
            Interlocked.MemoryBarrier();
            ObjectDisposedException.ThrowIf(_isDisposed, this);
            int blockLength = new HeaderFields(headers).BlockLength;
            byte[] bytes = letter.ToBytes(letterLengthMax - blockLength - DeadLetter.RepetitionLengthMax);
            MappedFileProducer producer = queue.Producer;
            int limit = producer.MessageLengthMax - blockLength - DeadLetter.RepetitionLengthMax;
            if (bytes.Length > limit)
                throw new InvalidOperationException(
                    $"The letter is too long for its store: length={bytes.Length}, limit={limit}, "
                    + $"path={Path}. "
                    + "Move that store away, and a new one is made with segments that are long enough for this queue's letters.");
            producer.Produce(bytes, new ProduceOptions { Durability = DurabilityLevel.Group, Headers = headers });
        }
        catch
        {
            Close();
            throw;
        }
    }

    /// <summary>Its consumer's handler may outlive the application's patience: nobody would close what that opened.</summary>
    public void Dispose()
    {
        _isDisposed = true;
        Close();
    }

    private void Close() => Interlocked.Exchange(ref _queue, null)?.Dispose();

    private MappedFileQueue Open(long segmentSize)
    {
        // A link may have been made since the application started.
        if (StorePaths.AreSame(Path, _queuePath))
            throw new InvalidOperationException(
                $"The store of the dead letters is the queue's own: its letters would be messages again. path={Path}. "
                + "Remove the link or the mount.");
        return new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = Path,
            // Any message of the source has room with all that a letter adds.
            SegmentSize = Math.Clamp(segmentSize + DeadLetter.OverheadMax, SegmentSizeMin, SegmentSizeMax),
            Durability = DurabilityLevel.PageCache,
            UnixCreateMode = queueOptions.UnixCreateMode,
            // Whoever comes first makes it; the members of other users have letters too.
            RightsOf = _queuePath,
            DangerouslyAllowFileSystem = queueOptions.DangerouslyAllowFileSystem,
            TimeProvider = queueOptions.TimeProvider,
        });
    }
}
