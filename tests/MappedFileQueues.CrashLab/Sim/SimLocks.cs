using MappedFileQueues.Platform;

namespace MappedFileQueues.CrashLab.Sim;

/// <summary>The kernel's table of locks on one disk: who dies lets go of all his.</summary>
internal sealed class SimLocks
{
    private readonly Dictionary<string, List<SimLock>> _held = new(StringComparer.Ordinal);
    private string _heldByTheDying = "";

    public int Count => _held.Values.Sum(list => list.Count);

    /// <summary>
    /// Somebody who was killed has this lock still: the next one who wants it alone does not get it, and then it is free.
    /// </summary>
    public void LeaveToTheDying(string name) => _heldByTheDying = name;

    public SimLock? TryTake(SimServices owner, string name, LockKind kind)
    {
        if (name == _heldByTheDying && kind == LockKind.Exclusive)
        {
            _heldByTheDying = "";
            return null;
        }

        if (!_held.TryGetValue(name, out List<SimLock>? list))
            _held.Add(name, list = []);
        if (list.Any(other => kind == LockKind.Exclusive || other.Kind == LockKind.Exclusive))
            return null;
        var taken = new SimLock(this, owner, name) { Kind = kind };
        list.Add(taken);
        return taken;
    }

    public void Release(SimLock held)
    {
        if (_held.TryGetValue(held.Name, out List<SimLock>? list))
            list.Remove(held);
    }

    public void ReleaseAll(SimServices owner)
    {
        foreach (List<SimLock> list in _held.Values)
            list.RemoveAll(held => held.Owner == owner);
    }

    public IEnumerable<SimServices> Holders(string name) =>
        _held.TryGetValue(name, out List<SimLock>? list) ? list.Select(held => held.Owner) : [];

    public IEnumerable<string> HeldBy(SimServices owner) =>
        _held.Where(pair => pair.Value.Any(held => held.Owner == owner)).Select(pair => pair.Key);
}

/// <summary>A lock that a simulated process holds.</summary>
internal sealed class SimLock(SimLocks table, SimServices owner, string name) : PlatformLock
{
    public SimServices Owner => owner;

    public string Name => name;

    public LockKind Kind { get; set; }

    public override void Downgrade()
    {
        lock (owner.Disk.Gate)
            Kind = LockKind.Shared;
    }

    public override void Dispose()
    {
        lock (owner.Disk.Gate)
            table.Release(this);
    }
}
