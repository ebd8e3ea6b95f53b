using System.Diagnostics;
using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>A consumer in this process, which lives through the storm.</summary>
internal sealed class StormReader : IDisposable
{
    private const int SlowEvery = 12;
    private const int SlowShort = 1;
    private const int SlowLong = 60;

    private static readonly TimeSpan s_look = TimeSpan.FromMilliseconds(20);

    private readonly MappedFileConsumer _consumer;
    private readonly StormOrder _order;
    private readonly bool _drops;
    private readonly Thread _thread;
    private readonly ManualResetEventSlim _goes = new(true);
    private volatile bool _stopping;
    private volatile Exception? _failure;

    /// <param name="queue">The store.</param>
    /// <param name="order">What it reads.</param>
    /// <param name="drops">It may be dropped, and is slow enough for that now and then.</param>
    public StormReader(MappedFileQueue queue, StormOrder order, bool drops)
    {
        _order = order;
        _drops = drops;
        queue.MessagesSkipped += OnSkipped;
        _consumer = queue.OpenConsumer("live", new ConsumerOptions { OnOutOfRange = OutOfRangePolicy.Earliest });
        _thread = new Thread(Read) { IsBackground = true };
        _thread.Start();
    }

    public void Pause() => _goes.Reset();

    public void Continue() => _goes.Set();

    public void ThrowIfFailed()
    {
        if (_failure is not null)
            throw new LabViolation($"The reader that lives: {_failure.Message}", _failure);
    }

    /// <summary>Whether a producer's messages are read up to this one in time.</summary>
    public bool Reaches(int producer, long number, TimeSpan limit)
    {
        long began = Stopwatch.GetTimestamp();
        while (!_order.IsComplete(producer, number))
        {
            ThrowIfFailed();
            if (Stopwatch.GetElapsedTime(began) > limit)
                return false;
            Thread.Sleep(1);
        }

        return true;
    }

    /// <summary>Everything that was acknowledged by now is read in time.</summary>
    public void WaitFor(KillBoard board, TimeSpan limit)
    {
        for (int line = 0; line < KillBoard.LineCount; line++)
        {
            long acked = Volatile.Read(ref board.Acked(line));
            if (acked > 0 && !Reaches(line, acked, limit))
                throw new LabViolation($"The reader that lives does not come to message {acked} of producer {line}: it stands at "
                    + $"{_consumer.Offset} and has {_order.Last(line)}");
        }
    }

    public void Dispose()
    {
        _stopping = true;
        _goes.Set();
        _thread.Join();
        _consumer.Dispose();
        _goes.Dispose();
    }

    private void OnSkipped(object? sender, MessagesSkippedEventArgs skipped)
    {
        if (!_drops)
            throw new LabViolation($"A consumer that must not be dropped skips {skipped.Offset} to {skipped.NextOffset}");
        _order.Skip(skipped.Offset, skipped.NextOffset);
    }

    private void Read()
    {
        try
        {
            for (int i = 1; !_stopping; i++)
            {
                _goes.Wait();
                if (_drops && i % SlowEvery == 0)
                    Thread.Sleep(i / SlowEvery % SlowEvery == 0 ? SlowLong : SlowShort);
                if (!_consumer.TryConsume(out ReadOnlySpan<byte> message, s_look))
                    continue;
                _order.Add(message, _consumer.MessageOffset);
                _consumer.Commit();
            }
        }
        catch (Exception error)
        {
            _failure = error;
        }
    }
}
