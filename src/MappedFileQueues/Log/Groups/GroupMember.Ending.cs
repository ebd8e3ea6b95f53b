using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Memory;

namespace MappedFileQueues.Log.Groups;

/// <summary>How a member ends messages, or gives them back.</summary>
internal sealed unsafe partial class GroupMember
{
    /// <summary>When a message comes again whose dead letter could not be written.</summary>
    private static readonly TimeSpan s_letterPause = TimeSpan.FromSeconds(5);

    /// <summary>Ends what the last call returned, as far as it is still in hand.</summary>
    public void Acknowledge()
    {
        using LogReader.Call call = _reader.EnterCall();
        ThrowIfBarred();
        GroupMemberFencedException? fenced = null;
        for (int i = _inHand.End - 1; i >= _inHand.First && _inHand[i].Call == _call; i--)
        {
            GroupLease lease = _inHand[i];
            End(lease, lease.Left & lease.Shown, ref fenced);
        }

        if (fenced is not null)
            throw fenced;
    }

    /// <summary>Ends messages by their offsets: those of one record together.</summary>
    public void Acknowledge(ReadOnlySpan<long> offsets)
    {
        using LogReader.Call call = _reader.EnterCall();
        ThrowIfBarred();
        ThrowIfNotInHand(offsets);
        GroupMemberFencedException? fenced = null;
        GroupLease? lease = null;
        uint mask = 0;
        foreach (long offset in offsets)
        {
            GroupLease? found = _inHand.Find(offset, out int message);
            if (found is null)
                continue;
            if (found != lease && lease is not null)
            {
                End(lease, mask, ref fenced);
                mask = 0;
            }

            lease = found;
            mask |= 1u << message;
        }

        if (lease is not null)
            End(lease, mask, ref fenced);
        if (fenced is not null)
            throw fenced;
    }

    /// <summary>Whether a message is still in hand: after a fence none of its record is, once a call was told of it.</summary>
    public bool IsInHand(long offset)
    {
        using LogReader.Call call = _reader.EnterCall();
        ThrowIfBarred();
        return _inHand.Find(offset, out _) is not null;
    }

    /// <summary>Gives a message back, or moves it to the dead letters.</summary>
    public void Reject(long offset, TimeSpan delay, bool deadLetter, string? reason)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(delay, TimeSpan.Zero);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(delay, GroupClock.DelayMax);
        if (deadLetter)
        {
            MoveToLetters(offset, "Rejected", reason ?? "");
            return;
        }

        using LogReader.Call call = _reader.EnterCall();
        ThrowIfBarred();
        ThrowIfNotInHand([offset]);
        GroupLease lease = _inHand.Find(offset, out int message)!;
        long due = delay == TimeSpan.Zero ? 0 : _clock.NowMs + (long)Math.Ceiling(delay.TotalMilliseconds);
        switch (GiveBack(lease, message, due, counts: true))
        {
            case GivingBack.NotMine:
                throw Fenced(offset);
            case GivingBack.Full:
                throw new QueueFullException("So many messages of the group were given back that no more have room: "
                    + $"limit={GroupLayout.SingleCount}, offset={offset}, group=\"{Group}\", path={_store.Path}. "
                    + "The message stays in hand; try again when others have ended.");
            default:
                return;
        }
    }

    /// <summary>Moves a message to the dead letters, which are on disk when the call returns.</summary>
    /// <param name="offset">The message.</param>
    /// <param name="errorType">Why.</param>
    /// <param name="error">The same in words.</param>
    /// <param name="attempts">How often it was tried; null: as often as it was handed out.</param>
    public void MoveToLetters(long offset, string errorType, string error, int? attempts = null)
    {
        using LogReader.Call call = _reader.EnterCall();
        ThrowIfBarred();
        ThrowIfNotInHand([offset]);
        GroupLease lease = _inHand.Find(offset, out int message)!;
        SendLetter(offset, attempts ?? lease.Deliveries, errorType, error);
        GroupMemberFencedException? fenced = null;
        End(lease, 1u << message, ref fenced);
        if (fenced is not null)
            throw fenced;
    }

    /// <inheritdoc cref="GroupLeases.Fence"/>
    public int Fence(uint fenced)
    {
        using LogReader.Call call = _reader.EnterCall();
        ThrowIfBarred();
        return _leases.Fence(fenced);
    }

    /// <summary>
    /// Gives back what a batch has taken, but not what was shown. It does not count as a delivery. After the end all was given
    /// back.
    /// </summary>
    public void GiveBackUnshown(in BatchPlace batch)
    {
        using LogReader.Call call = _reader.EnterCall();
        if (!_reader.IsBarred)
            GiveBackCall(batch.Call, keepsShown: true);
    }

    private void ThrowIfNotInHand(ReadOnlySpan<long> offsets)
    {
        foreach (long offset in offsets)
        {
            if (_inHand.Find(offset, out _) is null)
                throw new ArgumentException($"The message is not in this member's hands: offset={offset}, group=\"{Group}\", "
                    + $"path={_store.Path}. Nothing was done. Pass offsets of messages that it has, each once.", nameof(offsets));
        }
    }

    private void End(GroupLease lease, uint mask, ref GroupMemberFencedException? fenced)
    {
        if (mask == 0)
            return;
        bool isMine = _leases.TryAcknowledge(lease, mask);
        NoteChange();
        if (!isMine)
        {
            fenced ??= Fenced(lease.Offsets[System.Numerics.BitOperations.TrailingZeroCount(mask)]);
            // All of it is gone.
            mask = lease.Left;
        }

        _inHand.Drop(lease, mask);
    }

    private GivingBack GiveBack(GroupLease lease, int message, long dueMs, bool counts)
    {
        GivingBack result = _leases.GiveBack(lease, message, dueMs, counts);
        NoteChange();
        if (result == GivingBack.Full)
            return result;
        uint bit = result == GivingBack.NotMine ? lease.Left : 1u << message;
        // The record ends with its last message.
        if (result == GivingBack.Done && lease.Left == bit && !lease.IsSingle)
            _ = _leases.TryAcknowledge(lease, bit);
        _inHand.Drop(lease, bit);
        return result;
    }

    /// <summary>Gives back what a call took.</summary>
    /// <param name="call">The call.</param>
    /// <param name="keepsShown">Only what the caller does not know of.</param>
    private void GiveBackCall(long call, bool keepsShown = false)
    {
        for (int i = _inHand.End - 1; i >= _inHand.First && _inHand[i].Call >= call; i--)
        {
            if (_inHand[i].Call == call)
                GiveBack(_inHand[i], keepsShown ? ~_inHand[i].Shown : uint.MaxValue);
        }
    }

    /// <summary>What has no room stays held by a slot that is about to be free, and is found there.</summary>
    private void GiveBackAll()
    {
        for (int i = _inHand.First; i < _inHand.End; i++)
            GiveBack(_inHand[i], uint.MaxValue);
    }

    private void GiveBack(GroupLease lease, uint mask)
    {
        for (int message = 0; message < lease.Count; message++)
        {
            if ((lease.Left & mask & (1u << message)) != 0
                && GiveBack(lease, message, dueMs: 0, counts: false) == GivingBack.Full)
                return;
        }
    }

    private void SendLetter(
        long offset, int deliveries, string type, string reason, ReadOnlySpan<byte> message, MessageHeaders? headers)
    {
        var letter = new GroupLetter(Group, offset, deliveries, type, reason, headers);
        _around.Send(in letter, message);
        ProtocolSteps.Reach(ProtocolStep.GroupLetterSent);
        _leases.Table.Add(GroupLayout.DeadLetteredAt, 1);
    }

    /// <summary>
    /// By a reader of its own, because the caller may still use the message that is shown. It verifies: a damaged message must
    /// not come back from its letter as a whole one.
    /// </summary>
    private void SendLetter(long offset, int deliveries, string type, string reason)
    {
        LogReader reader = new(_store, retention: _around.Retention);
        try
        {
            reader.MoveTo(offset);
            if (reader.TryRead(out byte* payload, out int length) != ReadStatus.Message || reader.Offset != offset)
                throw NoMessageAt(offset);
            SendLetter(offset, deliveries, type, reason, new ReadOnlySpan<byte>(payload, length), reader.CopyHeaders());
        }
        finally
        {
            reader.ReleaseSegment();
        }
    }
}
