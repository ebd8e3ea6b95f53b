using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Groups;

/// <summary>
/// Saves the groups of a queue's members one flush interval after a change, on a thread of its own: so a power loss delivers
/// again at most what was acknowledged within the interval. At the level PageCache, where nothing is promised, there is none. A
/// thread and not the flusher's ticks, because groups change while nothing is published and nothing is left to flush.
/// </summary>
internal sealed class GroupSaver(LogStore store) : IDisposable
{
    private readonly Lock _lock = new();
    private readonly List<GroupMember> _members = [];
    private readonly AutoResetEvent _noticed = new(false);
    private readonly ManualResetEvent _ending = new(false);
    private Thread? _thread;

    private static readonly TimeSpan s_intervalMax = TimeSpan.FromDays(1);

    private bool IsNeeded => store.Settings.FlushesAtIntervals && store.Settings.FlushInterval < TimeSpan.MaxValue
        && ProtocolSteps.Background is null;

    private TimeSpan Interval =>
        store.Settings.FlushInterval < s_intervalMax ? store.Settings.FlushInterval : s_intervalMax;

    /// <exception cref="MappedFileQueueException">The system gives no thread.</exception>
    public void Add(GroupMember member)
    {
        if (!IsNeeded)
            return;
        lock (_lock)
        {
            _thread ??= BackgroundThread.Start(Run, "groups");
            _members.Add(member);
        }
    }

    public void Remove(GroupMember member)
    {
        lock (_lock)
            _members.Remove(member);
    }

    /// <summary>A member has changed its group. Called once in an interval, not for each change.</summary>
    public void Notice() => _noticed.Set();

    /// <summary>Ends the thread; its members have ended by then.</summary>
    public void Dispose()
    {
        _ending.Set();
        _noticed.Set();
        _thread?.Join();
        _noticed.Dispose();
        _ending.Dispose();
    }

    private void Run()
    {
        while (_noticed.WaitOne() && !_ending.WaitOne(Interval))
        {
            GroupMember[] members;
            lock (_lock)
                members = [.. _members];
            foreach (GroupMember member in members)
            {
                if (!member.TrySave())
                    // The disk refused: the next interval tries again.
                    _noticed.Set();
            }
        }
    }
}
