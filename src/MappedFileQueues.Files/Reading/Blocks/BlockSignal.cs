using System.Threading.Tasks.Sources;

namespace MappedFileQueues.Files.Reading.Blocks;

/// <summary>
/// The lock of what a reader and its background thread share, and what wakes those that wait for a change: threads at the lock,
/// and one asynchronous call. Every member is called with the <see cref="Gate"/> held.
/// </summary>
internal sealed class BlockSignal : IValueTaskSource
{
    private ManualResetValueTaskSourceCore<bool> _wait = new() { RunContinuationsAsynchronously = true };
    private bool _isArmed;

    /// <summary>The lock.</summary>
    public object Gate { get; } = new();

    /// <summary>The next change as a task, for one caller. To be awaited without the lock.</summary>
    public ValueTask NextChange()
    {
        _wait.Reset();
        _isArmed = true;
        return new ValueTask(this, _wait.Version);
    }

    /// <summary>Something changed: everybody who waits looks again.</summary>
    public void WakeAll()
    {
        Monitor.PulseAll(Gate);
        if (!_isArmed)
            return;
        _isArmed = false;
        _wait.SetResult(true);
    }

    void IValueTaskSource.GetResult(short token) => _wait.GetResult(token);

    ValueTaskSourceStatus IValueTaskSource.GetStatus(short token) => _wait.GetStatus(token);

    void IValueTaskSource.OnCompleted(
        Action<object?> continuation, object? state, short token, ValueTaskSourceOnCompletedFlags flags) =>
        _wait.OnCompleted(continuation, state, token, flags);
}
