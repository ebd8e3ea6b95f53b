using MappedFileQueues.Format;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Groups;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Engine;

/// <summary>The groups: their files, and their members.</summary>
internal sealed partial class StoreEngine
{
    /// <summary>Opens a member of a group; makes the group when there is none.</summary>
    /// <param name="group">The group's name.</param>
    /// <param name="options">The member's options.</param>
    /// <param name="letters">Takes its dead letters.</param>
    /// <param name="face">Creates its public face.</param>
    public T OpenGroupMember<T>(string group, GroupOptions options, LetterSink letters, Func<GroupMember, T> face)
        where T : IDisposable
    {
        using CallGate.Call call = BeginCall();
        string name = Check(group);
        options.Validate();
        CorruptionPolicy policy = options.Corruption ?? Corruption;
        return Add(face(OpenMember(name, options, policy, letters)));
    }

    private GroupMember OpenMember(string name, GroupOptions options, CorruptionPolicy policy, LetterSink letters)
    {
        GroupFile file = OpenGroup(name, options.Start, policy, skipsGaps: options.OnOutOfRange != OutOfRangePolicy.Throw);
        OwnerSlot? slot = null;
        try
        {
            // With the name held: its lock may be a new file.
            Store.ThrowIfLocksRemoved();
            slot = Store.Slots.Take();
            var around = new GroupSurroundings(
                Store, RetentionThread, options.DurableOnly ? _durableAsyncWaits : _asyncWaits, policy, _groupSaver, letters,
                (error, from, to) => _onSkipped?.Invoke(new CorruptionSkippedEventArgs(name, error, from, to)),
                (from, to) => _onGap?.Invoke(new MessagesSkippedEventArgs(name, from, to)));
            return new GroupMember(around, file, slot, options);
        }
        catch
        {
            slot?.Dispose();
            file.Dispose();
            throw;
        }
    }

    /// <summary>Ends a member, and its letters after it.</summary>
    public void Close(GroupMember member, IDisposable letters, IDisposable face)
    {
        try
        {
            member.Dispose();
        }
        finally
        {
            letters.Dispose();
            Remove(face);
        }
    }

    /// <summary>Removes a group, once it has no members; false when there is none.</summary>
    public bool DeleteGroup(string group)
    {
        using CallGate.Call call = BeginCall();
        string name = Check(group);
        if (!GroupFile.Exists(Store.Directory, name))
        {
            // Whoever has removed it may have died before a power loss could not bring it back.
            Store.Directory.FlushEntriesIfThere(StoreNames.Groups);
            return false;
        }

        using PlatformLock held = TakeGroup(name);
        using PlatformLock open = Store.TakeOpenLock();
        bool existed = GroupFile.Exists(Store.Directory, name);
        GroupFile.Remove(Store.Directory, name);
        PlaceFiles.NoteChange(Store.Control);
        Store.CapacityWake.WakeIfAwaited();
        return existed;
    }

    /// <summary>Makes a group anew that has no members, from a start on; makes it when there is none.</summary>
    public void ResetGroup(string group, QueueStart start)
    {
        using CallGate.Call call = BeginCall();
        string name = Check(group);
        using PlatformLock held = TakeGroup(name);
        MakeGroup(name, start, Corruption, skipsGaps: false, replaces: true);
    }

    /// <summary>
    /// Takes away what a member has in hand, dead or alive, because an operator says so: other members get it. The member's own
    /// calls for these messages throw <see cref="GroupMemberFencedException"/>.
    /// </summary>
    /// <returns>How many records it held.</returns>
    public int FenceGroupMember(string group, int slot)
    {
        using CallGate.Call call = BeginCall();
        string name = Check(group);
        if (slot is < 0 or >= SlotLayout.SlotCount || !GroupFile.Exists(Store.Directory, name))
            return 0;
        uint fenced = SlotLayout.Owner(slot, Store.Slots.Generation(slot));
        using GroupMember operating = OpenMember(name, new GroupOptions(), Corruption, static (in _, _) => { });
        return operating.Fence(fenced);
    }

    private GroupFile OpenGroup(string name, QueueStart start, CorruptionPolicy policy, bool skipsGaps)
    {
        // Where a lock is a file that is opened without sharing, a look at the group is in the way for a moment.
        TimeSpan timeout = Store.Settings.LockTimeout;
        var deadline = new Deadline(timeout > LockWait.Passing ? timeout : LockWait.Passing);
        while (true)
        {
            if (GroupFile.TryOpen(Store.Directory, Store.Meta.StoreId, name) is { } file)
                return file;
            if (!GroupFile.Exists(Store.Directory, name))
            {
                MakeGroup(name, start, policy, skipsGaps, replaces: false);
                continue;
            }

            if (deadline.IsOver)
                throw GroupInUse(name, "The group is being removed or reset", CloseOrWait);
            Store.ThrowIfClosing();
            Thread.Sleep(1);
        }
    }

    /// <summary>
    /// Where it starts is found before `open` is taken, and looked at again under it: what is not removed by then stays, because
    /// whoever removes messages counts the group from then on.
    /// </summary>
    private void MakeGroup(string name, QueueStart start, CorruptionPolicy policy, bool skipsGaps, bool replaces)
    {
        while (true)
        {
            long offset = ConsumerStart.FindNew(Store, RetentionThread, start, policy, skipsGaps);
            using PlatformLock open = Store.TakeOpenLock();
            Store.ThrowIfReplaced();
            if (!replaces && GroupFile.Exists(Store.Directory, name))
                return;
            if (offset < Store.LogStart && !(skipsGaps && start.ExactOffset is not null))
                continue;
            TimeProvider time = Store.Settings.TimeProvider;
            GroupFile.Make(Store.Directory, Store.Meta.StoreId, name,
                new SavedGroup(Store.Control.Epoch, offset, []), time.GetUtcNow(), new GroupClock(time));
            PlaceFiles.NoteChange(Store.Control);
            Store.CapacityWake.WakeIfAwaited();
            return;
        }
    }

    private PlatformLock TakeGroup(string name) => LockWait.TryTake(
        Store.Directory, StoreNames.GroupLock(name), LockKind.Exclusive, Store.Settings.LockTimeout, Store.ThrowIfClosing,
        Store.Settings.LockWaits)
        ?? throw GroupInUse(name, "The group has members", CloseOrWait);

    private QueueInUseException GroupInUse(string name, string what, string remedy) => Store.Directory.InUse(
        StoreNames.GroupLock(name), what, remedy, $"group=\"{name}\", path={Store.Path}", waited: Store.Settings.LockTimeout);

    /// <summary>Checks a name, and the store; returns the name as files have it.</summary>
    private string Check(string group)
    {
        ArgumentNullException.ThrowIfNull(group);
        if (group.Length == 0 || !StoreNames.IsValidConsumer(group))
            throw new ArgumentException(
                $"A group's name is not empty, and {StoreNames.NameRule}: group=\"{group}\".", nameof(group));
        Store.ThrowIfReplaced();
        return group.ToLowerInvariant();
    }
}
