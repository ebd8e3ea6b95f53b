using MappedFileQueues.RabbitMQ;

namespace MappedFileQueues.Bench.Bridge;

/// <summary>A forwarder or fetcher with its default settings, until it is disposed.</summary>
internal sealed class RunningBridge : IDisposable
{
    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(1);

    private readonly CancellationTokenSource _stop = new();
    private readonly Func<BridgeStatus> _look;
    private readonly Task _task;

    private RunningBridge(Func<CancellationToken, Task> run, Func<BridgeStatus> look)
    {
        _look = look;
        _task = Task.Run(() => run(_stop.Token));
        WaitUntil(status => status.State == BridgeState.Running, TimeSpan.FromMilliseconds(1));
    }

    /// <summary>Starts a forwarder, and returns once it moves messages.</summary>
    public static RunningBridge Forward(
        string store, string address, string stream, int packLength, string consumer = "bridge")
    {
        StreamForwarder forwarder = new(
            new StreamForwarderOptions
            {
                StorePath = store,
                Brokers = address,
                Stream = stream,
                PackLength = packLength,
                ConsumerName = consumer,
            });
        return new RunningBridge(forwarder.RunAsync, forwarder.GetStatus);
    }

    /// <summary>Starts a fetcher, and returns once it reads the stream.</summary>
    public static RunningBridge Fetch(string store, string address, string stream)
    {
        StreamFetcher fetcher = new(new StreamFetcherOptions { StorePath = store, Brokers = address, Stream = stream });
        return new RunningBridge(fetcher.RunAsync, fetcher.GetStatus);
    }

    /// <summary>Returns once so many messages were moved and confirmed.</summary>
    /// <param name="messages">The messages since the start.</param>
    /// <param name="interval">How long lies between two looks.</param>
    public void WaitForMessages(long messages, TimeSpan interval) => WaitUntil(status => status.Messages >= messages, interval);

    public void Dispose()
    {
        _stop.Cancel();
        try
        {
            _task.GetAwaiter().GetResult();
        }
        catch (OperationCanceledException)
        {
            // It was asked to end.
        }
        finally
        {
            _stop.Dispose();
        }
    }

    private void WaitUntil(Func<BridgeStatus, bool> isReached, TimeSpan interval)
    {
        long start = Clock.Now;
        BridgeStatus status;
        while (!isReached(status = _look()))
        {
            if (_task.IsCompleted)
                _task.GetAwaiter().GetResult();
            if (Clock.MillisecondsSince(start) > s_patience.TotalMilliseconds)
            {
                throw new ToolException(
                    $"The bridge does not get on: state={status.State}, messages={status.Messages}, error={status.LastError}.");
            }

            Thread.Sleep(interval);
        }
    }
}
