using MappedFileQueues.Format;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Opening;

/// <summary>
/// Opening a store. Two locks: `open`, exclusive and short, serialises openers; `attached`, shared and held for life by
/// everyone who writes anything. Taking `attached` exclusively under `open` succeeds only for a lone opener. A shared lock is
/// never upgraded (a failed upgrade drops it); the downgrade happens under `open` only; nothing of the store is touched before
/// `attached` is held.
/// <code>
/// attached          control says                    then
/// exclusively       this boot                       recover after deaths, or after a cut if memory was lost all the same
/// exclusively       nothing that can be believed    the same; the boot is the checkpoint's
/// exclusively       another boot, an unknown one,   recover after a cut
///                   poison, a cut under way
/// shared, twice     recovered in this boot          somebody is alive, memory is whole: just attach
/// shared            anything else                   let go, and try it exclusively again
/// </code>
/// Who fails to get it exclusively and then gets it shared need not be with somebody alive: an opener that is killed lets go of
/// its locks one after the other, of `open` first perhaps, and the failure may have been its. Only when both happen a second
/// time, with `open` in hand all the while, there is somebody who holds it shared, and who attached by these rules.
/// </summary>
internal static class StoreOpening
{
    public static OpenedStore Open(StoreRequest request, LogSettings settings, OperatingSystemServices os)
    {
        ThrowIfUnsupportedMachine();
        HeldDirectory directory = OpenDirectory(request, settings, os);
        try
        {
            directory.AdoptModeOf(StoreNames.Meta);
            StoreMeta? meta = StoreMetaFile.Read(directory);
            if (meta is null)
            {
                if (!request.CreateIfMissing)
                    throw Missing(directory.Path);
                StoreMetaFile.ThrowIfForeign(directory);
                MakeDirectories(directory);
            }
            else
            {
                StoreMetaFile.ThrowIfOther(meta, request, directory.Path);
                // It holds nothing but locks and generations, so copies of a store may lack it.
                directory.CreateSubdirectory(StoreNames.Locks);
            }

            using PlatformLock open = OpenLock.Take(directory, settings.LockTimeout);
            ProtocolSteps.Reach(ProtocolStep.OpenLocked);
            ThrowIfLocksDoNotWork(directory);
            meta = StoreMetaFile.Read(directory);
            // Deleted since the first look.
            if (meta is null && !request.CreateIfMissing)
                throw Missing(directory.Path);
            if (meta is null)
                meta = StoreMetaFile.Create(directory, request, settings, StoreRecovery.BootOf(os), open);
            else
                StoreMetaFile.ThrowIfOther(meta, request, directory.Path);
            directory.AdoptModeOf(StoreNames.Meta);
            return Attach(os, directory, meta);
        }
        catch
        {
            directory.Dispose();
            throw;
        }
    }

    private static QueueNotFoundException Missing(string path) =>
        new($"There is no store: path={path}. Set CreateIfMissing, or correct StorePath.", path);

    private static OpenedStore Attach(OperatingSystemServices os, HeldDirectory directory, StoreMeta meta)
    {
        PlatformLock? attached = null;
        ControlPage? control = null;
        SlotTable? slots = null;
        try
        {
            attached = TakeAttached(directory, StoreRecovery.BootOf(os), out bool isAlone);
            MakeDirectories(directory);
            control = ControlPage.Open(directory, isAlone);
            slots = new SlotTable(directory, os, isAlone);
            var checkpoints = new CheckpointFile(directory, meta.StoreId);
            if (isAlone)
            {
                ProtocolSteps.Reach(ProtocolStep.AttachedAlone);
                new StoreRecovery(os, directory, meta, control, slots, checkpoints).Run();
                ProtocolSteps.Reach(ProtocolStep.Recovered);
                attached.Downgrade();
            }

            RemoveDeadTemporaries(directory, slots);
            // Last: nothing that fails comes after it.
            return new OpenedStore(os, directory, meta, control, slots, checkpoints, new MetaWatch(directory), attached);
        }
        catch
        {
            slots?.Dispose();
            control?.Dispose();
            attached?.Dispose();
            throw;
        }
    }

    private static HeldDirectory OpenDirectory(StoreRequest request, LogSettings settings, OperatingSystemServices os)
    {
        HeldDirectory directory = os.OpenDirectory(request.Path, request.CreateIfMissing, settings.UnixCreateMode)
            ?? throw Missing(request.Path);
        if (directory.UnsafeFileSystem is not { } name || request.AllowUnsafeFileSystem)
            return directory;
        directory.Dispose();
        throw new QueueFormatException($"Locks and shared mappings are not dependable on this file system: path={request.Path}, "
            + $"fileSystem={name}. Use a local disk, or set DangerouslyAllowFileSystem if you know better.");
    }

    private static void MakeDirectories(HeldDirectory directory)
    {
        foreach (string name in StoreNames.Directories)
            directory.CreateSubdirectory(name);
    }

    /// <summary>A second open and lock of a held file must fail; where it does not, locks mean nothing here.</summary>
    private static void ThrowIfLocksDoNotWork(HeldDirectory directory)
    {
        using PlatformLock? second = directory.TryLock(StoreNames.OpenLock, LockKind.Exclusive);
        if (second is not null)
            throw new QueueFormatException($"File locks do not work here: path={directory.Path}. Use a local file system, "
                + "and do not turn the runtime's file locking off.");
    }

    /// <summary>Alone where that is possible, else beside those who have recovered the store.</summary>
    private static PlatformLock TakeAttached(HeldDirectory directory, Guid boot, out bool isAlone)
    {
        var deadline = new Deadline(OpenLock.Timeout);
        for (bool wasShared = false; ; wasShared = true)
        {
            PlatformLock? taken = directory.TryLock(StoreNames.AttachedLock, LockKind.Exclusive);
            isAlone = taken is not null;
            if (taken is not null)
                return taken;
            // Null: a dying opener still has it alone, or a probe is in the way for a moment.
            while ((taken = directory.TryLock(StoreNames.AttachedLock, LockKind.Shared)) is null && !deadline.IsOver)
                Thread.Sleep(1);
            if (taken is null)
                throw directory.InUse(StoreNames.AttachedLock, "The store is held exclusively", "Look at that process.");
#if MFQ_PLANTED
            wasShared |= PlantedFaults.Has(PlantedFault.AttachedUnrecovered);
#endif
            if (wasShared && IsRecovered(directory, boot))
                return taken;
            taken.Dispose();
            if (!wasShared)
                continue;
            if (deadline.IsOver)
                throw directory.InUse(
                    StoreNames.AttachedLock, "The store is attached, but its control page does not say that it was recovered",
                    "Somebody has replaced or damaged the page: close every queue on the store, then open it again.");
            Thread.Sleep(1);
        }
    }

    /// <summary>
    /// By the stage and the boot alone: whoever died while it changed one of the cold words has left a wrong checksum, and the
    /// others go on all the same. No boot: recovery found damage, or this system does not tell.
    /// </summary>
    private static bool IsRecovered(HeldDirectory directory, Guid boot)
    {
#if MFQ_PLANTED
        if (PlantedFaults.Has(PlantedFault.AttachedUnrecovered))
            return true;
#endif
        using ControlPage? control = ControlPage.OpenForReading(directory);
        return control is not null && control.Stage == RecoveryStage.Finished
            && (control.BootId == boot || control.BootId == Guid.Empty);
    }

    /// <summary>
    /// Temporary files of makers that are gone. Their names carry the maker's slot and generation; while that slot is held by
    /// that maker the file may still be renamed. Those named "open" were made under the lock that we hold.
    /// </summary>
    private static void RemoveDeadTemporaries(HeldDirectory directory, SlotTable slots)
    {
        foreach (string name in directory.List(StoreNames.CommitLog))
        {
            if (!name.EndsWith(WholeFile.TemporarySuffix, StringComparison.Ordinal))
                continue;
            string[] parts = name.Split('.');
            string owner = parts.Length >= 2 ? parts[^2] : "";
            if (owner.StartsWith("open", StringComparison.Ordinal))
            {
                directory.Delete($"{StoreNames.CommitLog}/{name}");
            }
            else if (owner.Split('-') is [string slotText, string generationText, ..]
                && int.TryParse(slotText, out int slot) && slot is >= 0 and < SlotLayout.SlotCount
                && uint.TryParse(generationText, out uint generation))
            {
                using PlatformLock? probe = directory.Probe(StoreNames.SlotLock(slot));
                if (probe is not null || slots.Generation(slot) != generation)
                    directory.Delete($"{StoreNames.CommitLog}/{name}");
            }
        }
    }

    private static void ThrowIfUnsupportedMachine()
    {
        if (!BitConverter.IsLittleEndian || !Environment.Is64BitProcess)
            throw new PlatformNotSupportedException("MappedFileQueues needs a 64-bit little-endian machine (x64, arm64).");
    }
}
