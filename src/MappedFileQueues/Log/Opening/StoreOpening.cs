using MappedFileQueues.Format;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Opening;

/// <summary>
/// Opens a store. Two locks: `open`, exclusive and short, serialises openers; `attached`, shared, is held for life by every
/// process that writes anything. Taking `attached` exclusively under `open` succeeds only for a lone opener. A shared lock is
/// never upgraded (a failed upgrade drops it), and the downgrade happens only under `open`. Nothing of the store is touched
/// before `attached` is held.
/// <code>
/// attached          control says                    then
/// exclusively       this boot                       recover after deaths, or after a power loss if memory was lost nevertheless
/// exclusively       nothing valid                   the same; the checkpoint names the boot
/// exclusively       another boot, an unknown one,   recover after a power loss
///                   poison, a cut under way
/// shared, twice     recovered                       another process is alive, memory is whole: just attach
/// shared            anything else                   release it, and try exclusively again
/// </code>
/// An opener that fails to get it exclusively and then gets it shared need not be beside a live process: a killed opener releases
/// its locks one after the other, perhaps `open` first, and may have caused the failure. Only when both happen a second time,
/// with `open` held all the while, does a process hold it shared that attached by these rules.
/// <para>Lock files can be removed while they are held. So `queue.meta` carries the same lock (<see cref="MetaLock"/>), and the
/// files whose names are taken later, beside others, are made by a lone opener alone: one that is missing then was removed.
/// </para>
/// </summary>
internal static unsafe class StoreOpening
{
    public static LogStore Open(StoreRequest request, LogSettings settings, OperatingSystemServices os)
    {
        ThrowIfUnsupportedMachine();
        // A folder that is there has rights of its own.
        string? modelMeta = settings.RightsOf is { } model && !Directory.Exists(request.Path)
            ? Path.Combine(model, StoreNames.Meta)
            : null;
        HeldDirectory directory = OpenDirectory(request, settings, modelMeta, os);
        try
        {
            if (modelMeta is not null)
            {
                // The name is a whole path. What is found there counts until this store has a meta page.
                directory.AdoptModeOf(modelMeta);
                directory.AdoptOwner();
            }

            directory.AdoptModeOf(StoreNames.Meta);
            StoreMeta? meta = StoreMetaFile.Read(directory);
            if (meta is null)
            {
                if (!request.CreateIfMissing)
                    throw Missing(directory.Path);
                StoreMetaFile.ThrowIfForeign(directory, request);
                MakeDirectories(directory);
                // Some of them may have been there before. What has files already keeps the rule under which they were made.
                directory.AvoidCopyOnWrite("");
                foreach (string name in StoreNames.Directories)
                    directory.AvoidCopyOnWrite(name);
            }
            else
            {
                StoreMetaFile.ThrowIfOther(meta, request, directory.Path);
                WholeFile.ThrowIfLinked(
                    directory, StoreNames.Meta, StoreNames.Meta + WholeFile.TemporarySuffix, StoreNames.UnfinishedSnapshot);
                // It holds only locks and generations, so copies of a store may lack it.
                directory.CreateSubdirectory(StoreNames.Locks);
            }

            using PlatformLock open = OpenLock.Take(
                directory, settings.LockTimeout, waits: settings.LockWaits);
            ProtocolSteps.Reach(ProtocolStep.OpenLocked);
            ThrowIfLocksDoNotWork(directory);
            meta = StoreMetaFile.Read(directory);
            // The store was deleted after the first read.
            if (meta is null && !request.CreateIfMissing)
                throw Missing(directory.Path);
            if (meta is null)
                meta = StoreMetaFile.Create(directory, request, settings, os.Boot.Stored, open);
            else
                StoreMetaFile.ThrowIfOther(meta, request, directory.Path);
            directory.AdoptModeOf(StoreNames.Meta);
            return Attach(os, directory, meta, settings);
        }
        catch (QueueDiskException error) when (error.Errno == DiskErrors.ENOENT && IsDeleted(directory))
        {
            directory.Dispose();
            throw new QueueDeletedException(
                $"The store was deleted while this call waited to open it: path={directory.Path}. Open it again.");
        }
        catch
        {
            directory.Dispose();
            throw;
        }
    }

    private static QueueNotFoundException Missing(string path) =>
        new($"There is no store: path={path}. Set CreateIfMissing, or correct StorePath.", path);

    /// <summary>A deletion is under way, or has ended: the locks go after the store, and before the folder.</summary>
    private static bool IsDeleted(HeldDirectory directory) => !directory.IsStillInPlace
        || directory.Identify(StoreNames.Locks) is null || directory.Identify(StoreNames.DeletedMeta) is not null;

    private static LogStore Attach(
        OperatingSystemServices os, HeldDirectory directory, StoreMeta meta, LogSettings settings)
    {
        PlatformLock? attached = null;
        PlatformLock? metaLock = null;
        ControlPage? control = null;
        SlotTable? slots = null;
        try
        {
            attached = TakeAttached(directory, os.Boot, out bool isAlone);
            metaLock = MetaLock.Take(directory, StoreNames.Meta, isAlone);
            directory.KeepFromCleaners();
            MakeDirectories(directory);
            // A producer that made it would not see who holds the lock of a file that was removed.
            if (isAlone)
                directory.Open(StoreNames.ProducersLock, FileOpening.ReadWriteOrCreate)!.Dispose();
            control = ControlPage.Open(directory, isAlone);
            slots = new SlotTable(directory, os, isAlone);
            if (isAlone)
                slots.MakeMissingFiles();
            var checkpoints = new CheckpointFile(directory, meta.StoreId);
            OpeningRecovery recovery = default;
            if (isAlone)
            {
                ProtocolSteps.Reach(ProtocolStep.AttachedAlone);
                recovery = new StoreRecovery(os, directory, meta, control, slots, checkpoints, settings.TimeProvider).Run();
                ProtocolSteps.Reach(ProtocolStep.Recovered);
                attached.Downgrade();
            }

            // Under `open`: a process that holds `open` and finds the word 0 knows that no such process is attached.
            if (os.IsPortable)
                SharedWord.WriteRelease(control.HasPollers, 1); // P35 release: pairs with P35 acquire in LogStore.HasPollers.
            RemoveDeadTemporaries(directory, slots);
            if (isAlone)
                CursorFile.RemoveTemporaries(directory);
            // Last: nothing after it can fail.
            return new LogStore(os, directory, meta, settings, control, slots, checkpoints, new MetaWatch(directory), attached,
                metaLock, recovery);
        }
        catch
        {
            slots?.Dispose();
            control?.Dispose();
            metaLock?.Dispose();
            attached?.Dispose();
            throw;
        }
    }

    private static HeldDirectory OpenDirectory(
        StoreRequest request, LogSettings settings, string? modelMeta, OperatingSystemServices os)
    {
        UnixFileMode? mode = settings.UnixCreateMode ?? (modelMeta is null ? null : CreateModes.SharedAs(modelMeta));
        HeldDirectory directory = os.OpenDirectory(request.Path, request.CreateIfMissing, mode)
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

    /// <summary>Locking a held file a second time must fail; where it succeeds, locks do not work.</summary>
    private static void ThrowIfLocksDoNotWork(HeldDirectory directory)
    {
        using PlatformLock? second = directory.TryLock(StoreNames.OpenLock, LockKind.Exclusive);
        if (second is not null)
            throw new QueueFormatException($"File locks do not work here: path={directory.Path}. Use a local file system, "
                + "and do not turn the runtime's file locking off.");
    }

    /// <summary>Takes `attached` alone where possible, otherwise beside the processes that have recovered the store.</summary>
    private static PlatformLock TakeAttached(HeldDirectory directory, BootIdentity boot, out bool isAlone)
    {
        var deadline = new Deadline(LockWait.Timeout);
        for (bool wasShared = false; ; wasShared = true)
        {
            PlatformLock? taken = directory.TryLock(StoreNames.AttachedLock, LockKind.Exclusive);
            isAlone = taken is not null;
            if (taken is not null)
                return taken;
            // Null: a dying opener still holds it exclusively, or a probe is briefly in the way.
            while ((taken = directory.TryLock(StoreNames.AttachedLock, LockKind.Shared)) is null && !deadline.IsOver)
                Thread.Sleep(1);
            if (taken is null)
                throw directory.InUse(StoreNames.AttachedLock, "The store is held exclusively", "Check that process.");
            wasShared |= PlantedFaults.Has(PlantedFault.AttachedUnrecovered);
            if (wasShared && IsRecovered(directory, boot))
                return taken;
            taken.Dispose();
            if (!wasShared)
                continue;
            if (deadline.IsOver)
                throw directory.InUse(
                    StoreNames.AttachedLock, "The store is attached, but its control page does not say that it was recovered",
                    "The page was replaced or damaged: close every queue on the store, then open it again.");
            Thread.Sleep(1);
        }
    }

    /// <summary>
    /// Uses only the stage: a process that died while it changed one of the cold words has left a wrong checksum, and the others
    /// continue regardless. The boot does not count beside a process that is attached: it proves that memory is whole, and
    /// recovery was finished before it let anybody share the lock. A program that only copies the files may hold the lock too
    /// (.NET locks what it reads); nobody else shares the lock of the meta page then.
    /// </summary>
    private static bool IsRecovered(HeldDirectory directory, BootIdentity boot)
    {
        if (PlantedFaults.Has(PlantedFault.AttachedUnrecovered))
            return true;
        using ControlPage? control = ControlPage.OpenForReading(directory);
        if (control is null || control.Stage != RecoveryStage.Finished)
            return false;
        if (OperatingSystem.IsWindows() || boot.IsSameAs(control.BootId))
            return true;
        using PlatformLock? ofNobody = directory.TryLock(StoreNames.Meta, LockKind.Exclusive, create: false);
        return ofNobody is null;
    }

    /// <summary>
    /// Removes the temporary files of dead makers. Their names carry the maker's slot and generation; while the maker holds that
    /// slot, it may still rename the file. Files named "open" were made under the lock that this process holds.
    /// </summary>
    private static void RemoveDeadTemporaries(HeldDirectory directory, SlotTable slots)
    {
        // Written under `open`.
        directory.Delete(StoreNames.Retention + WholeFile.TemporarySuffix);
        // Written by the leader of a flush, and nobody else is here.
        directory.Delete(StoreNames.Index + WholeFile.TemporarySuffix);
        directory.DeleteWhere(StoreNames.CommitLog, name => IsOfDeadMaker(directory, slots, name));
    }

    private static bool IsOfDeadMaker(HeldDirectory directory, SlotTable slots, string name)
    {
        if (!name.EndsWith(WholeFile.TemporarySuffix, StringComparison.Ordinal))
            return false;
        string[] parts = name.Split('.');
        string owner = parts.Length >= 2 ? parts[^2] : "";
        return owner.StartsWith("open", StringComparison.Ordinal)
            || (owner.Split('-') is [string slotText, string generationText, ..]
                && int.TryParse(slotText, out int slot) && slot is >= 0 and < SlotLayout.SlotCount
                && uint.TryParse(generationText, out uint generation)
                && (slots.Generation(slot) != generation || IsHeldByNobody(directory, slot)));
    }

    /// <summary>
    /// False where it is unknown. Without the slot's file, which somebody removed, its holder may be alive; and the file may be
    /// another user's.
    /// </summary>
    private static bool IsHeldByNobody(HeldDirectory directory, int slot)
    {
        try
        {
            using PlatformLock? probe = directory.Probe(StoreNames.SlotLock(slot));
            return probe is not null && directory.Identify(StoreNames.SlotLock(slot)) is not null;
        }
        catch (QueueDiskException error) when (error.Errno == DiskErrors.EACCES)
        {
            return false;
        }
    }

    private static void ThrowIfUnsupportedMachine()
    {
        if (!BitConverter.IsLittleEndian || !Environment.Is64BitProcess)
            throw new PlatformNotSupportedException("MappedFileQueues needs a 64-bit little-endian machine (x64, arm64).");
    }
}
