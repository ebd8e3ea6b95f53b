namespace MappedFileQueues.Packs.Writing;

/// <summary>
/// One sync serves all waiting threads. The first thread leads. The threads that arrive during its sync wait for the next sync,
/// which one of them leads. No thread waits for a timer.
/// </summary>
/// <param name="sync">Syncs what has been written. Returns the sequence up to which everything is on disk afterwards.</param>
internal sealed class GroupSync(Func<ulong> sync)
{
    private readonly object _gate = new();
    private ulong _durable;
    private bool _isLed;

    /// <summary>Returns when everything up to this sequence is on disk.</summary>
    public void WaitFor(ulong sequence)
    {
        lock (_gate)
        {
            while (_isLed && _durable < sequence)
                Monitor.Wait(_gate);
            if (_durable >= sequence)
                return;
            _isLed = true;
        }

        ulong reached = 0;
        try
        {
            reached = sync();
        }
        finally
        {
            lock (_gate)
            {
                _durable = Math.Max(_durable, reached);
                _isLed = false;
                Monitor.PulseAll(_gate);
            }
        }
    }
}
