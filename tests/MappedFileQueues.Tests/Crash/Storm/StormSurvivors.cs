using System.Globalization;

namespace MappedFileQueues.Tests.Crash.Storm;

/// <summary>The side of a storm that lives: one producer that appends about every millisecond, and two consumers.</summary>
internal sealed class StormSurvivors
{
    private const int MessagesMax = 400_000;

    private readonly MappedFileQueue _queue;
    private readonly int _line;
    private readonly Thread _producing;
    private readonly MappedFileConsumer[] _consumers;
    private readonly Thread[] _consuming;
    private volatile bool _stopping;
    private volatile Exception? _failure;

    public StormSurvivors(MappedFileQueue queue, int line, int lineCount)
    {
        _queue = queue;
        _line = line;
        First = new StormLog(lineCount);
        Second = new StormLog(lineCount);
        _consumers = [queue.OpenConsumer("first"), queue.OpenConsumer("second")];
        _consuming =
        [
            Start(() => Consume(_consumers[0], First, keepsTime: true)),
            Start(() => Consume(_consumers[1], Second, keepsTime: false)),
        ];
        _producing = Start(Produce);
    }

    public StormLog First { get; }

    public StormLog Second { get; }

    public StormClock Clock { get; } = new(MessagesMax);

    /// <summary>Appends the last message, and waits until both consumers have it: then they have all before it.</summary>
    public void Stop()
    {
        _stopping = true;
        Assert.True(_producing.Join(Eventually.DefaultDeadline), "the survivor appends to its end");
        Eventually.Wait(
            () => _failure is not null || (First.Count(_line) == Clock.Count && Second.Count(_line) == Clock.Count),
            Eventually.DefaultDeadline);
        foreach (MappedFileConsumer consumer in _consumers)
            consumer.Dispose();
        foreach (Thread thread in _consuming)
            thread.Join();
        Assert.Null(_failure);
    }

    private void Produce()
    {
        using MappedFileProducer producer = _queue.OpenProducer();
        while (!_stopping && Clock.Count < MessagesMax - 1)
        {
            Append(producer);
            Thread.Sleep(1);
        }

        // Behind everything that anybody else has left.
        Append(producer);
    }

    private void Append(MappedFileProducer producer)
    {
        string text = string.Create(CultureInfo.InvariantCulture, $"{_line}:{Clock.Begin()}");
        producer.Produce(CrashMessage.Make(text, 100));
        Clock.Appended();
    }

    private void Consume(MappedFileConsumer consumer, StormLog log, bool keepsTime)
    {
        while (true)
        {
            (int line, long number) = log.Add(consumer.Consume());
            if (keepsTime && line == _line)
                Clock.Came(number);
            consumer.Commit();
        }
    }

    private Thread Start(Action work)
    {
        var thread = new Thread(() =>
        {
            try
            {
                work();
            }
            catch (ObjectDisposedException)
            {
                // The end of a consumer.
            }
            catch (Exception error)
            {
                _failure = error;
            }
        })
        { IsBackground = true };
        thread.Start();
        return thread;
    }
}
