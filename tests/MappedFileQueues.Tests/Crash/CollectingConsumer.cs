namespace MappedFileQueues.Tests.Crash;

/// <summary>A consumer on a thread of its own that keeps what it gets; it sleeps whenever there is nothing.</summary>
internal sealed class CollectingConsumer : IDisposable
{
    private readonly MappedFileConsumer _consumer;
    private readonly Lock _lock = new();
    private readonly List<string> _texts = [];
    private readonly Thread _thread;
    private Exception? _failure;

    public CollectingConsumer(MappedFileQueue queue, string name)
    {
        _consumer = queue.OpenConsumer(name);
        _thread = new Thread(Run) { IsBackground = true, Name = $"collects {name}" };
        _thread.Start();
    }

    public IReadOnlyList<string> Texts
    {
        get
        {
            lock (_lock)
                return [.. _texts];
        }
    }

    /// <summary>Waits until as many messages came as are expected, then compares.</summary>
    public void Expect(IReadOnlyList<string> expected)
    {
        Eventually.Wait(() => Texts.Count >= expected.Count || _failure is not null, Eventually.DefaultDeadline);
        Assert.Null(_failure);
        Assert.Equal(expected, Texts);
    }

    public void Dispose()
    {
        _consumer.Dispose();
        Assert.True(_thread.Join(Eventually.DefaultDeadline), "the consumer's call ends with its Dispose");
        Assert.Null(_failure);
    }

    private void Run()
    {
        try
        {
            while (true)
            {
                string text = CrashMessage.Read(_consumer.Consume());
                lock (_lock)
                    _texts.Add(text);
                _consumer.Commit();
            }
        }
        catch (ObjectDisposedException)
        {
            // Its Dispose ends the wait.
        }
        catch (Exception error)
        {
            _failure = error;
        }
    }
}
