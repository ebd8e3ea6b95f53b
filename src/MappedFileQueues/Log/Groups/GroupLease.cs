using System.Numerics;
using MappedFileQueues.Format.Groups;

namespace MappedFileQueues.Log.Groups;

/// <summary>Messages that a member has in hand: one record of its group. Only this process knows their places.</summary>
internal sealed class GroupLease
{
    public long[] Offsets { get; } = new long[GroupLayout.MessagesMax];

    public int Record { get; set; }

    public bool IsSingle { get; set; }

    /// <summary>The tag under which the record was taken: of a range 32 bits.</summary>
    public uint Tag { get; set; }

    /// <summary>The record's state when it was taken.</summary>
    public LeaseState State { get; set; }

    public int Count { get; set; }

    /// <summary>A bit for each message that is still in hand.</summary>
    public uint Left { get; set; }

    /// <summary>A bit for each message that the caller has got, or was told of.</summary>
    public uint Shown { get; set; }

    /// <summary>The call that took it.</summary>
    public long Call { get; set; }

    public int Deliveries { get; set; }

    public int LeftCount => BitOperations.PopCount(Left);

    /// <summary>The message at an offset; -1 when it is not in hand.</summary>
    public int Find(long offset)
    {
        if (Left == 0 || offset < Offsets[0] || offset > Offsets[Count - 1])
            return -1;
        int found = Offsets.AsSpan(0, Count).BinarySearch(offset);
        return found >= 0 && (Left & (1u << found)) != 0 ? found : -1;
    }
}

/// <summary>All that a member has in hand, in the order in which it got it.</summary>
internal sealed class LeasesInHand
{
    private readonly List<GroupLease> _leases = [];
    private readonly Stack<GroupLease> _free = [];
    private GroupLease? _rented;
    private int _first;
    private int _found;

    /// <summary>The number of messages in hand.</summary>
    public int Count { get; private set; }

    /// <summary>The places of leases, for a loop from the last one on.</summary>
    public int First => _first;

    public int End => _leases.Count;

    public GroupLease this[int place] => _leases[place];

    /// <summary>A lease to be filled; in hand from <see cref="Begin"/> on.</summary>
    public GroupLease Rent() => _rented ??= _free.TryPop(out GroupLease? used) ? used : new GroupLease();

    /// <summary>The messages of the lease that was rented are in hand.</summary>
    public GroupLease Begin()
    {
        GroupLease lease = Rent();
        _rented = null;
        Trim();
        lease.Left = LeaseBits.Mask(lease.Count);
        lease.Shown = 0;
        Count += lease.Count;
        _leases.Add(lease);
        return lease;
    }

    /// <summary>Messages of a lease are in hand no longer.</summary>
    public void Drop(GroupLease lease, uint mask)
    {
        Count -= BitOperations.PopCount(lease.Left & mask);
        lease.Left &= ~mask;
    }

    /// <summary>The lease of a message; null when it is not in hand.</summary>
    public GroupLease? Find(long offset, out int message)
    {
        // Acknowledged in the order in which they came, which is usual, they are found at once.
        for (int i = Math.Max(_found, _first); i < Math.Min(_found + 2, _leases.Count); i++)
        {
            if ((message = _leases[i].Find(offset)) >= 0)
                return Note(i);
        }

        for (int i = _leases.Count - 1; i >= _first; i--)
        {
            if ((message = _leases[i].Find(offset)) >= 0)
                return Note(i);
        }

        message = -1;
        return null;
    }

    private GroupLease Note(int index)
    {
        _found = index;
        return _leases[index];
    }

    /// <summary>Leases that have ended serve again: those at the front at once, the others when the list has grown.</summary>
    private void Trim()
    {
        while (_first < _leases.Count && _leases[_first].Left == 0)
            _free.Push(_leases[_first++]);
        if (_first == _leases.Count)
        {
            _leases.Clear();
            (_first, _found) = (0, 0);
        }
        else if (_leases.Count == _leases.Capacity && _leases.Count > 0)
        {
            for (int i = _first; i < _leases.Count; i++)
            {
                if (_leases[i].Left == 0)
                    _free.Push(_leases[i]);
            }

            _leases.RemoveRange(0, _first);
            _leases.RemoveAll(lease => lease.Left == 0);
            (_first, _found) = (0, 0);
        }
    }
}
