namespace MappedFileQueues.Hosting.Consumers;

/// <summary>
/// The store to which one consumer's dead letters go. Opened with the first of them; other consumers and processes may have it
/// open too.
/// </summary>
internal sealed class DeadLetterBox(string path, HostedQueueOptions queueOptions) : IDisposable
{
    private MappedFileQueue? _queue;

    public string Path => path;

    /// <summary>Appends a letter; it is on disk when the call returns.</summary>
    public void Append(DeadLetter letter)
    {
        _queue ??= new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = path,
            SegmentSize = queueOptions.SegmentSize,
            Durability = DurabilityLevel.PageCache,
            UnixCreateMode = queueOptions.UnixCreateMode,
            DangerouslyAllowFileSystem = queueOptions.DangerouslyAllowFileSystem,
            TimeProvider = queueOptions.TimeProvider,
        });
        _queue.Producer.Produce(letter.ToBytes(), new ProduceOptions { Durability = DurabilityLevel.Group });
    }

    public void Dispose() => _queue?.Dispose();
}
