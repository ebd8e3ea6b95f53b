using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Log.StoreFiles;

namespace MappedFileQueues;

/// <summary>
/// The store to which one consumer's dead letters go. Opened with the first of them; other consumers and processes may have it
/// open too.
/// </summary>
/// <param name="path">Its directory.</param>
/// <param name="queueOptions">The options of the queue that the messages come from.</param>
/// <param name="letterLengthMax">The longest letter that any store takes.</param>
internal sealed class DeadLetterBox(
    string path, MappedFileQueueOptions queueOptions, int letterLengthMax = FrameHeader.PayloadLengthMax) : IDisposable
{
    private const long SegmentSizeMin = 64L * 1024 * 1024;

    /// <summary>No message is longer, whatever the segments.</summary>
    private const long SegmentSizeMax = FrameHeader.FrameLengthMax;

    private MappedFileQueue? _queue;

    public string Path => path;

    /// <summary>
    /// Appends a letter; it is on disk when the call returns. After an exception the next call opens the store anew: a failed
    /// flush has poisoned it, or an operator has moved it away in the meantime.
    /// </summary>
    /// <param name="letter">The letter.</param>
    /// <param name="segmentSize">The length of the segments that its message comes from.</param>
    /// <param name="headers">Those of the message, which become the letter's.</param>
    public void Append(DeadLetter letter, long segmentSize, MessageHeaders? headers)
    {
        try
        {
            _queue ??= Open(segmentSize);
            int blockLength = new HeaderFields(headers).BlockLength;
            byte[] bytes = letter.ToBytes(letterLengthMax - blockLength - DeadLetter.RepetitionLengthMax);
            MappedFileProducer producer = _queue.Producer;
            int limit = producer.MessageLengthMax - blockLength - DeadLetter.RepetitionLengthMax;
            if (bytes.Length > limit)
                throw new InvalidOperationException(
                    $"The letter is too long for its store: length={bytes.Length}, limit={limit}, "
                    + $"path={path}. "
                    + "Move that store away, and a new one is made with segments that are long enough for this queue's letters.");
            producer.Produce(bytes, new ProduceOptions { Durability = DurabilityLevel.Group, Headers = headers });
        }
        catch
        {
            Dispose();
            throw;
        }
    }

    public void Dispose() => Interlocked.Exchange(ref _queue, null)?.Dispose();

    private MappedFileQueue Open(long segmentSize)
    {
        // A link may have been made since the application started.
        if (StorePaths.AreSame(path, queueOptions.StorePath))
            throw new InvalidOperationException(
                $"The store of the dead letters is the queue's own: its letters would be messages again. path={path}. "
                + "Remove the link or the mount.");
        return new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = path,
            // Any message of the source has room with all that a letter adds.
            SegmentSize = Math.Clamp(segmentSize + DeadLetter.OverheadMax, SegmentSizeMin, SegmentSizeMax),
            Durability = DurabilityLevel.PageCache,
            UnixCreateMode = queueOptions.UnixCreateMode,
            DangerouslyAllowFileSystem = queueOptions.DangerouslyAllowFileSystem,
            TimeProvider = queueOptions.TimeProvider,
        });
    }
}
