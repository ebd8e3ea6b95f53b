using MappedFileQueues.Format;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.GroupFiles;

/// <summary>
/// A group's two files: the mapped table, and what a power loss leaves of it. A group exists once its table has its name; that
/// comes last, under `open`. All blocks of the table are allocated before it is mapped, so a full disk is an error when the group
/// is made, not the end of a member.
/// </summary>
/// <param name="name">The group's name.</param>
/// <param name="held">The lock of the name.</param>
/// <param name="region">The table.</param>
internal sealed class GroupFile(string name, PlatformLock held, MappedRegion region) : IDisposable
{
    /// <summary>
    /// How long a save waits for another one, which may be that of a stopped process, where somebody waits for this one: the end
    /// of a member, and a removal, which holds `open`.
    /// </summary>
    public static readonly TimeSpan SaveWaitMax = TimeSpan.FromSeconds(2);

    /// <summary>The group's name.</summary>
    public string Name => name;

    /// <summary>The name of its file.</summary>
    public string File => StoreNames.Group(Name);

    public GroupTable Table { get; } = new(region);

    /// <summary>The groups of a store, by name.</summary>
    public static IEnumerable<string> Names(HeldDirectory directory) =>
        from file in directory.List(StoreNames.Groups)
        where file.EndsWith(StoreNames.GroupSuffix, StringComparison.Ordinal)
        select file[..^StoreNames.GroupSuffix.Length];

    public static bool Exists(HeldDirectory directory, string name) => directory.Identify(StoreNames.Group(name)) is not null;

    /// <summary>
    /// Opens a group for a member. Null when there is no such group, or when somebody removes or resets it just now.
    /// </summary>
    /// <exception cref="QueueCorruptException">The file is damaged.</exception>
    public static GroupFile? TryOpen(HeldDirectory directory, Guid storeId, string name)
    {
        // First: a look for a wrong name makes no lock's file.
        if (!Exists(directory, name) || directory.TryLock(StoreNames.GroupLock(name), LockKind.Shared) is not { } held)
            return null;
        MappedRegion? region = null;
        try
        {
            using PlatformFile? file = directory.Open(StoreNames.Group(name), FileOpening.ReadWrite);
            if (file is not null)
                region = Map(file, storeId, StoreNames.Group(name), writable: true);
            if (region is not null)
            {
                // Whoever made the group may have died before its name was on disk, and what this member saves counts.
                directory.FlushEntries(StoreNames.Groups);
                directory.FlushEntries(StoreNames.Offsets);
                return new GroupFile(name, held, region);
            }

            held.Dispose();
            return null;
        }
        catch
        {
            region?.Dispose();
            held.Dispose();
            throw;
        }
    }

    /// <summary>Maps a group's table to look at it; null when there is no such group.</summary>
    /// <exception cref="QueueCorruptException">The file is damaged.</exception>
    public static MappedRegion? MapForReading(HeldDirectory directory, Guid storeId, string fileName)
    {
        using PlatformFile? file = directory.Open(fileName, FileOpening.Read);
        return file is null ? null : Map(file, storeId, fileName, writable: false);
    }

    /// <summary>Makes a group, or makes it anew. The caller holds `open`, and for a group that exists its name.</summary>
    /// <param name="directory">The store.</param>
    /// <param name="storeId">Its id.</param>
    /// <param name="name">The group's name.</param>
    /// <param name="group">What it begins with.</param>
    /// <param name="made">When it was made.</param>
    /// <param name="clock">Turns dues into times of this boot.</param>
    /// <param name="saved">What a power loss leaves of it instead; for a planted mistake.</param>
    public static void Make(
        HeldDirectory directory, Guid storeId, string name, SavedGroup group, DateTimeOffset made, GroupClock clock,
        SavedGroup? saved = null)
    {
        if (directory.CreateSubdirectory(StoreNames.Groups))
            directory.AvoidCopyOnWrite(StoreNames.Groups);
        // Whoever made the folder may have died before this.
        directory.FlushEntries(StoreNames.Offsets);
        // First: after a power loss a table without it would be of no use.
        WriteSaved(directory, storeId, name, saved ?? group);
        ProtocolSteps.Reach(ProtocolStep.GroupSavedMade);
        WholeFile.Replace(directory, StoreNames.Group(name), file => GroupImage.Write(file, storeId, group, made, clock));
        ProtocolSteps.Reach(ProtocolStep.GroupMade);
    }

    /// <summary>Writes what a power loss leaves of a group. One at a time: no older scan may replace a younger one.</summary>
    public static void WriteSaved(HeldDirectory directory, Guid storeId, string name, SavedGroup group) =>
        WholeFile.Replace(directory, StoreNames.SavedGroup(name), file => file.WriteAt(group.ToBytes(storeId), 0));

    /// <summary>Saves a group as it is now. Any thread and process.</summary>
    public static void Save(
        HeldDirectory directory, Guid storeId, string name, GroupTable table, long epoch, GroupClock clock, TimeSpan timeout,
        LockWaits? waits = null)
    {
        using PlatformLock alone = LockWait.TryTake(
            directory, StoreNames.SavedGroupLock(name), LockKind.Exclusive, timeout, waits: waits)
            ?? throw directory.InUse(StoreNames.SavedGroupLock(name), "Another process has been saving the group for too long",
                "Check that process.", waited: timeout);
        // Under the lock: a removal of messages relies on the one who saves last having looked last.
        WriteSaved(directory, storeId, name, GroupScan.Save(table, StoreNames.Group(name), epoch, clock));
        ProtocolSteps.Reach(ProtocolStep.GroupSaved);
    }

    /// <summary>What a power loss leaves of a group; null when it is missing or damaged.</summary>
    public static SavedGroup? ReadSaved(HeldDirectory directory, Guid storeId, string name)
    {
        using PlatformFile? file = directory.Open(StoreNames.SavedGroup(name), FileOpening.Read);
        if (file is null || file.Length > SavedGroup.LengthMax)
            return null;
        byte[] bytes = new byte[file.Length];
        return file.ReadAt(bytes, 0) == bytes.Length ? SavedGroup.Parse(bytes, storeId) : null;
    }

    /// <summary>Removes a group for good. The caller holds its name exclusively, and `open`.</summary>
    public static void Remove(HeldDirectory directory, string name)
    {
        // The table first: without it there is no group.
        _ = directory.Delete(StoreNames.Group(name));
        ProtocolSteps.Reach(ProtocolStep.GroupDeleted);
        directory.FlushEntries(StoreNames.Groups);
        _ = directory.Delete(StoreNames.SavedGroup(name));
        directory.FlushEntries(StoreNames.Groups);
    }

    /// <summary>Unmaps the table; releases the name last.</summary>
    public void Dispose()
    {
        region.Dispose();
        held.Dispose();
    }

    /// <summary>Maps a table, and checks its head.</summary>
    /// <exception cref="QueueCorruptException">It is damaged.</exception>
    public static MappedRegion Map(PlatformFile file, Guid storeId, string name, bool writable)
    {
        if (file.Length < GroupLayout.FileLength)
            throw Damaged(name, $"it is too short, length={file.Length}");
        MappedRegion region = MappedRegion.MapWhole(file, GroupLayout.FileLength, writable);
        if (GroupLayout.FindFault(new GroupTable(region).Head, storeId) is not { } fault)
            return region;
        region.Dispose();
        throw Damaged(name, fault);
    }

    private static QueueCorruptException Damaged(string file, string fault) => new(
        $"The group's file is damaged: {fault}, file={file}. Reset the group.", file, 0);
}
