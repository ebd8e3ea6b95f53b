using System.Runtime.ExceptionServices;

namespace MappedFileQueues.Tests.Contract;

/// <summary>A call on a thread of its own, whose end, and whose exception, the test waits for.</summary>
internal sealed class BackgroundCall
{
    private readonly Thread _thread;
    private ExceptionDispatchInfo? _error;

    private BackgroundCall(Action call)
    {
        _thread = new Thread(() =>
        {
            try
            {
                call();
            }
            catch (Exception error)
            {
                _error = ExceptionDispatchInfo.Capture(error);
            }
        })
        { IsBackground = true };
        _thread.Start();
    }

    /// <summary>True while the thread sleeps or waits: it has come to the place where it waits for the test.</summary>
    public bool IsWaiting => (_thread.ThreadState & ThreadState.WaitSleepJoin) != 0;

    public bool HasEnded => !_thread.IsAlive;

    public static BackgroundCall Start(Action call) => new(call);

    /// <summary>Waits for the end and throws what the call threw.</summary>
    public void Join()
    {
        JoinSilently();
        _error?.Throw();
    }

    /// <summary>Waits for the end and returns what the call threw.</summary>
    public Exception? JoinSilently()
    {
        Assert.True(_thread.Join(Eventually.DefaultDeadline), "The call did not come to an end.");
        return _error?.SourceException;
    }
}
