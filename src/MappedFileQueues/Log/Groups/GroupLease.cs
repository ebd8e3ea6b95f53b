using System.Numerics;
using System.Runtime.CompilerServices;
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

    /// <summary>The message at an offset; -1 when it is not in hand.</summary>
    public int Find(long offset)
    {
        if (Left == 0 || offset < Offsets[0] || offset > Offsets[Count - 1])
            return -1;
        int found = Offsets.AsSpan(0, Count).BinarySearch(offset);
        return found >= 0 && (Left & (1u << found)) != 0 ? found : -1;
    }
}

/// <summary>All that a member has in hand, in the order in which it got it: a ring of leases that serve again.</summary>
internal sealed class LeasesInHand
{
    /// <summary>Its length is a power of two. A lease outside of what is in hand is free.</summary>
    private GroupLease[] _ring = [new(), new()];
    private int _found;

    /// <summary>The number of messages in hand.</summary>
    public int Count { get; private set; }

    /// <summary>The places of leases, for a loop from the last one on.</summary>
    public int First { get; private set; }

    public int End { get; private set; }

    public GroupLease this[int place] => _ring[place & (_ring.Length - 1)];

    /// <summary>A lease to be filled; in hand from <see cref="Begin"/> on.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public GroupLease Rent()
    {
        while (First != End && this[First].Left == 0)
            First++;
        if (First == End)
            First = End = _found = 0;
        if (End - First == _ring.Length)
            MakeRoom();
        return this[End];
    }

    /// <summary>The messages of the lease that was rented are in hand.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public GroupLease Begin()
    {
        GroupLease lease = this[End++];
        lease.Left = LeaseBits.Mask(lease.Count);
        lease.Shown = 0;
        Count += lease.Count;
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
        for (int i = Math.Max(_found, First); i < Math.Min(_found + 2, End); i++)
        {
            if ((message = this[i].Find(offset)) >= 0)
                return Note(i);
        }

        for (int i = End - 1; i >= First; i--)
        {
            if ((message = this[i].Find(offset)) >= 0)
                return Note(i);
        }

        message = -1;
        return null;
    }

    private GroupLease Note(int place)
    {
        _found = place;
        return this[place];
    }

    /// <summary>The leases that have ended come last, in a ring twice as long when they are few.</summary>
    private void MakeRoom()
    {
        GroupLease[] inOrder = new GroupLease[_ring.Length];
        int kept = 0;
        int ended = _ring.Length;
        for (int i = First; i < End; i++)
        {
            if (this[i].Left != 0)
                inOrder[kept++] = this[i];
            else
                inOrder[--ended] = this[i];
        }

        if (kept > _ring.Length / 2)
        {
            Array.Resize(ref inOrder, 2 * _ring.Length);
            for (int i = _ring.Length; i < inOrder.Length; i++)
                inOrder[i] = new GroupLease();
        }

        (_ring, First, End, _found) = (inOrder, 0, kept, 0);
    }
}
