using System.Diagnostics;
using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>Every message of a producer comes once and in order, each byte as it was written.</summary>
internal sealed class StormOrder(int seed)
{
    /// <summary>The last number of each producer.</summary>
    public Dictionary<int, long> Numbers { get; } = [];

    public void Add(ReadOnlySpan<byte> message, long offset)
    {
        Victim.CheckMessage(message, seed, offset);
        (int producer, long number) = LabMessage.Head(message);
        long last;
        lock (Numbers)
        {
            last = Numbers.GetValueOrDefault(producer);
            Numbers[producer] = number;
        }

        if (number != last + 1)
            throw new LabViolation($"After message {last} of producer {producer} comes {number}, at {offset}");
    }

    public long Last(int producer)
    {
        lock (Numbers)
            return Numbers.GetValueOrDefault(producer);
    }
}

/// <summary>A consumer in this process, which lives through the storm.</summary>
internal sealed class StormReader : IDisposable
{
    private static readonly TimeSpan s_look = TimeSpan.FromMilliseconds(20);

    private readonly MappedFileConsumer _consumer;
    private readonly StormOrder _order;
    private readonly Thread _thread;
    private readonly ManualResetEventSlim _goes = new(true);
    private volatile bool _stopping;
    private volatile Exception? _failure;

    public StormReader(MappedFileQueue queue, int seed)
    {
        _consumer = queue.OpenConsumer("live");
        _order = new StormOrder(seed);
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
        while (_order.Last(producer) < number)
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

    private void Read()
    {
        try
        {
            while (!_stopping)
            {
                _goes.Wait();
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
