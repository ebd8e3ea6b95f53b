using MappedFileQueues.Hosting;

namespace MappedFileQueues.Bench.Hosting;

/// <summary>
/// Adds up what it gets. A message that comes while it is closed waits there, and does not count; so those after it gather.
/// </summary>
internal sealed class GatedHandler : IMessageHandler<Message64>, IMessageBatchHandler<Message64>
{
    private TaskCompletionSource? _gate;
    private TaskCompletionSource _entered = New();
    private TaskCompletionSource<(ulong Sum, long Took)> _ended = NewEnd();
    private ulong _sum;
    private int _left;
    private long _began;

    /// <summary>A message waits.</summary>
    public Task Entered => _entered.Task;

    /// <summary>The sum of what was to come, and the ticks from the end of the wait until the last of it was handled.</summary>
    public Task<(ulong Sum, long Took)> Ended => _ended.Task;

    public void Close()
    {
        _entered = New();
        _ended = NewEnd();
        Volatile.Write(ref _gate, New());
    }

    /// <summary>Lets the message go that waits.</summary>
    public void Open(int count)
    {
        (_sum, _left) = (0, count);
        TaskCompletionSource gate = _gate!;
        _gate = null;
        gate.SetResult();
    }

    public ValueTask HandleAsync(Message64 message, ConsumeContext context, CancellationToken cancellationToken)
    {
        if (Volatile.Read(ref _gate) is { } gate)
            return WaitAsync(gate);
        _sum += message.Sum();
        Handled(1);
        return default;
    }

    public ValueTask HandleAsync(
        ReadOnlyMemory<Message64> messages, ConsumeContext context, CancellationToken cancellationToken)
    {
        if (Volatile.Read(ref _gate) is { } gate)
            return WaitAsync(gate);
        ulong sum = 0;
        foreach (ref readonly Message64 message in messages.Span)
            sum += message.Sum();
        _sum += sum;
        Handled(messages.Length);
        return default;
    }

    private void Handled(int count)
    {
        _left -= count;
        if (_left == 0)
            _ended.SetResult((_sum, Clock.Now - _began));
    }

    private async ValueTask WaitAsync(TaskCompletionSource gate)
    {
        _entered.SetResult();
        await gate.Task.ConfigureAwait(false);
        _began = Clock.Now;
    }

    private static TaskCompletionSource New() => new(TaskCreationOptions.RunContinuationsAsynchronously);

    private static TaskCompletionSource<(ulong Sum, long Took)> NewEnd() =>
        new(TaskCreationOptions.RunContinuationsAsynchronously);
}
