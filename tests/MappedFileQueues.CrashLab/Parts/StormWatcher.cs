using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// A reader without a name, which nobody waits for. It is slow, and says what was removed before it came there.
/// </summary>
internal sealed class StormWatcher : IDisposable
{
    private readonly MappedFileReader _reader;
    private readonly StormOrder _order;
    private readonly Thread _thread;
    private volatile bool _stopping;
    private volatile Exception? _failure;

    public StormWatcher(string storePath, int seed, OffsetLedger ledger, KillBoard board)
    {
        _order = new StormOrder(seed, ledger, board);
        _reader = MappedFileReader.Open(storePath, QueueStart.Earliest, CorruptionPolicy.Throw, OutOfRangePolicy.Earliest);
        _reader.MessagesSkipped += (_, skipped) => _order.Skip(skipped.Offset, skipped.NextOffset);
        _thread = new Thread(Read) { IsBackground = true };
        _thread.Start();
    }

    public void ThrowIfFailed()
    {
        if (_failure is not null)
            throw new LabViolation($"The reader without a name: {_failure.Message}", _failure);
    }

    public void Dispose()
    {
        _stopping = true;
        _thread.Join();
        _reader.Dispose();
    }

    private void Read()
    {
        try
        {
            for (int i = 0; !_stopping; i++)
            {
                if (i % 16 == 0 || !_reader.TryRead(out ReadOnlySpan<byte> message))
                    Thread.Sleep(1);
                else
                    _order.Add(message, _reader.MessageOffset);
            }
        }
        catch (Exception error)
        {
            _failure = error;
        }
    }
}
