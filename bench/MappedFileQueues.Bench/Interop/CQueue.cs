using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Interop;

/// <summary>Structs through the C library, one call a message: mfq_produce; mfq_read and mfq_commit.</summary>
internal sealed class CQueue : BenchQueue
{
    private readonly CLibrary.ProducerOptions _options;
    private readonly MappedFileQueue<Message64> _queue;
    private readonly string _path;
    private Message64 _message = Message64.Create();
    private nint _producer;
    private nint _consumer;

    /// <summary>C# makes the store; the handles of C are opened by the first call of each kind.</summary>
    public CQueue(MappedFileQueueOptions options, CLibrary.ProducerOptions producer)
    {
        (_options, _path) = (producer, options.StorePath);
        _queue = new MappedFileQueue<Message64>(options);
    }

    public nint Producer
    {
        get
        {
            if (_producer == 0)
                CLibrary.Check("mfq_producer_open", CLibrary.OpenProducer(_path, in _options, out _producer, 0));
            return _producer;
        }
    }

    public nint Consumer
    {
        get
        {
            if (_consumer == 0)
                CLibrary.Check("mfq_consumer_open", CLibrary.OpenConsumer(_path, "", 0, out _consumer, 0));
            return _consumer;
        }
    }

    public override void Prepare(long bytes) =>
        CLibrary.Check("mfq_producer_prepare", CLibrary.Prepare(Producer, bytes, 0));

    public override void SeekToStart() => CLibrary.Check("mfq_seek", CLibrary.Seek(Consumer, 0, 0));

    public override void Dispose()
    {
        CLibrary.CloseConsumer(_consumer);
        CLibrary.CloseProducer(_producer);
        _queue.Dispose();
    }

    protected override void AppendChunk(long from, int count) =>
        CLibrary.Check("mfq_produce", CLibrary.Append(Producer, ref _message, from, count));

    protected override ulong ReadChunk(int count) => CLibrary.Read(Consumer, count);
}
