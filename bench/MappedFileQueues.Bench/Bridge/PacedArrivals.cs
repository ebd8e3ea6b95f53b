using MappedFileQueues.Bench.Measuring;

namespace MappedFileQueues.Bench.Bridge;

/// <summary>Sends numbered messages, notes when each left and when it arrived, and checks that all of them arrived.</summary>
internal sealed class PacedArrivals(string figure, int count) : IDisposable
{
    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(1);

    private readonly long[] _sent = new long[count];
    private readonly long[] _took = new long[count];
    private readonly CountdownEvent _missing = new(count);
    private readonly SemaphoreSlim _arrived = new(0);
    private ulong _sum;
    private int _found;

    /// <summary>Sends at a steady rate; a message that is late is followed by the next at once.</summary>
    public void SendEach(TimeSpan interval, Action<int> send)
    {
        long start = Clock.Now;
        for (int number = 0; number < count; number++)
        {
            while (Clock.MillisecondsSince(start) < number * interval.TotalMilliseconds)
                Thread.Sleep(TimeSpan.FromMilliseconds(1));
            Send(number, send);
        }
    }

    /// <summary>Sends the next one a while after the one before has arrived.</summary>
    public void SendOneByOne(TimeSpan pause, Action<int> send)
    {
        for (int number = 0; number < count; number++)
        {
            Thread.Sleep(pause);
            Send(number, send);
            if (!_arrived.Wait(s_patience))
                throw new ToolException($"A message did not arrive: figure={figure}, number={number}.");
        }
    }

    /// <summary>Notes an arrival; one thread.</summary>
    public void Take(Message64 message)
    {
        long now = Clock.Now;
        _found++;
        _sum += message.Sum();
        if (message.Number >= (ulong)count || _found > count)
            throw new ToolException($"A message is none that was sent: figure={figure}, number={message.Number}.");
        _took[message.Number] = now - _sent[message.Number];
        _arrived.Release();
        _missing.Signal();
    }

    /// <summary>Milliseconds that a share of the messages did not exceed, once all have arrived.</summary>
    public double Milliseconds(double share)
    {
        if (!_missing.Wait(s_patience))
            throw new ToolException($"Messages did not arrive: figure={figure}, missing={_missing.CurrentCount}.");
        BridgeMessages.Check(figure, _found, _sum, count);
        return Clock.Nanoseconds(Quantiles.Of([.. _took], share)) / 1e6;
    }

    public void Dispose()
    {
        _missing.Dispose();
        _arrived.Dispose();
    }

    private void Send(int number, Action<int> send)
    {
        Volatile.Write(ref _sent[number], Clock.Now);
        send(number);
    }
}
