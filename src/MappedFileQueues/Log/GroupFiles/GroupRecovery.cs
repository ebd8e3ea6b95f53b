using MappedFileQueues.Format;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.GroupFiles;

/// <summary>
/// What an opener that is alone does to the groups, before anybody appends and before slots begin with their first generation
/// again.
/// <code>
/// table                   saved copy    after deaths                  after a power loss, in a log that ends at a tail
/// whole                   whole         its owners are forgotten      both are made anew of the copy, with nothing at or after
/// whole                   bad, missing  its owners are forgotten      the tail; bad copy: the group is refused until it is reset
/// bad, beyond the log     whole         made anew of the copy         as above
/// bad, beyond the log     bad           refused until it is reset     the same
/// missing                 any           no group: the copy goes
/// </code>
/// After a power loss the table is not believed: its pages are of different moments. The copy is clamped on disk too, because
/// after a second power loss an end that was inside messages which came after the first would be believed.
/// </summary>
/// <param name="directory">The store.</param>
/// <param name="storeId">Its id.</param>
/// <param name="time">Its clock.</param>
internal sealed class GroupRecovery(HeldDirectory directory, Guid storeId, TimeProvider time)
{
    /// <param name="isAfterPowerLoss">Whether the tables count no more.</param>
    /// <param name="tail">The end of the log.</param>
    /// <param name="epoch">The store's.</param>
    /// <param name="countMessages">As <see cref="SavedGroup.ClampTo"/> has it.</param>
    public void Run(bool isAfterPowerLoss, long tail, long epoch, Func<long, long, long?> countMessages)
    {
        RemoveLeftovers();
        foreach (string name in GroupFile.Names(directory))
        {
            bool isAstray = isAfterPowerLoss && !PlantedFaults.Has(PlantedFault.GroupLiveBelievedAfterCut);
            if ((isAstray || !TryForgetOwners(name, tail, out isAstray)) && !TryMakeAnew(name, tail, epoch, countMessages)
                && (isAfterPowerLoss || isAstray))
                Refuse(name);
        }
    }

    /// <summary>
    /// Whether a group says that messages beyond a tail were handed out, or at a place where a claim is: then memory was lost.
    /// </summary>
    public bool IsAstray(Func<long, bool> isAstray)
    {
        foreach (string name in GroupFile.Names(directory))
        {
            try
            {
                using MappedRegion? region = GroupFile.MapForReading(directory, storeId, StoreNames.Group(name));
                if (region is null)
                    continue;
                GroupScan.ReadNext(new GroupTable(region), StoreNames.Group(name), out _, out long end);
                if (isAstray(end))
                    return true;
            }
            catch (Exception error) when (error is QueueDiskException or QueueCorruptException)
            {
                // It tells nothing here: its members will report the error.
            }
        }

        return false;
    }

    /// <summary>Nobody holds anything any longer: in place, and the same however often it is begun.</summary>
    /// <param name="name">The group.</param>
    /// <param name="tail">The end of the log.</param>
    /// <param name="isAstray">Whether it speaks of messages beyond the log: it would pass over those that come there.</param>
    private bool TryForgetOwners(string name, long tail, out bool isAstray)
    {
        isAstray = false;
        string file = StoreNames.Group(name);
        try
        {
            using PlatformFile? opened = directory.Open(file, FileOpening.ReadWrite);
            using MappedRegion? region = opened is null ? null : GroupFile.Map(opened, storeId, file, writable: true);
            if (region is null)
                return true;
            GroupTable table = new(region);
            // Words that cannot be: its members would refuse it for ever.
            GroupScan.FindFloor(table, file);
            GroupScan.ReadNext(table, file, out _, out long end);
            isAstray = end > tail && !PlantedFaults.Has(PlantedFault.GroupLiveBelievedAfterCut);
            if (isAstray)
                return false;
            if (!PlantedFaults.Has(PlantedFault.GroupGenerationReset))
                ForgetOwners(table);
            return true;
        }
        catch (QueueCorruptException)
        {
            return false;
        }
    }

    private static void ForgetOwners(GroupTable table)
    {
        foreach ((int range, LeaseState state) in table.Ranges)
            ForgetOwner(table, range, state);
        foreach ((int single, LeaseState state) in table.Singles)
            ForgetOwner(table, single, state);
    }

    private static void ForgetOwner(GroupTable table, int record, LeaseState state)
    {
        if (state.Kind is LeaseKind.Held or LeaseKind.Filling)
            table.TryChange(record, state, state.With(state.Kind, owner: 0));
    }

    private bool TryMakeAnew(string name, long tail, long epoch, Func<long, long, long?> countMessages)
    {
        if (GroupFile.ReadSaved(directory, storeId, name) is not { } saved)
            return false;
        SavedGroup clamped = PlantedFaults.Has(PlantedFault.GroupNotClamped) ? saved : saved.ClampTo(tail, countMessages);
        GroupFile.Make(directory, storeId, name, clamped with { Epoch = epoch }, time.GetUtcNow(), new GroupClock(time),
            PlantedFaults.Has(PlantedFault.GroupSavedNotClamped) ? saved : null);
        return true;
    }

    /// <summary>Nobody knows where the group was. Its head goes, so that its members hear of it.</summary>
    private void Refuse(string name)
    {
        using PlatformFile? file = directory.Open(StoreNames.Group(name), FileOpening.ReadWrite);
        file?.WriteAt(new byte[GroupLayout.HeadLength], 0);
        file?.Sync();
    }

    /// <summary>What dead makers have left, and the copies of groups that were never made, or are removed.</summary>
    private void RemoveLeftovers() => directory.DeleteWhere(
        StoreNames.Groups,
        file => file.EndsWith(WholeFile.TemporarySuffix, StringComparison.Ordinal)
            || (file.EndsWith(StoreNames.SavedGroupSuffix, StringComparison.Ordinal)
                && !GroupFile.Exists(directory, file[..^StoreNames.SavedGroupSuffix.Length])));
}
