using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Loading;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Packs.Writing;

/// <summary>A pack that this process may write to.</summary>
/// <param name="Loaded">What was found.</param>
/// <param name="Active">The volume that takes the next needle; null when a new one has to be made.</param>
/// <param name="Mark">What is known to be on disk of the last volume.</param>
/// <param name="WriterLock">Keeps other writers out.</param>
internal sealed record OpenedPack(LoadedPack Loaded, Volume? Active, SyncedMark Mark, PlatformLock WriterLock);

/// <summary>
/// Opens a pack for writing: makes it when it is missing, takes the writer's lock, loads, and puts in order what a crash left.
/// May be killed anywhere and begun anew.
/// </summary>
internal static class PackOpening
{
    private const int CopyLength = 1024 * 1024;

    public static OpenedPack OpenWriter(string path, PackOptions options, bool useCheckpoint)
    {
        HeldDirectory directory = OpenDirectory(path, options);
        PlatformLock? writerLock = null;
        try
        {
            RefuseForeign(directory, options.CreateIfMissing);
            directory.AdoptModeOf(PackNames.Meta);
            directory.CreateSubdirectory(PackNames.Locks);
            writerLock = directory.TryLock(PackNames.WriterLock, LockKind.Exclusive)
                ?? throw PackErrors.InUse(directory);
            PackMeta meta = PackLoader.ReadMeta(directory) ?? Create(directory, options);
            directory.AdoptModeOf(PackNames.Meta);
            RemoveTemporaries(directory);
            var access = new PackAccess
            {
                Owner = typeof(PackStore),
                MapsVolumes = options.MapVolumes,
                AllowsStaleValues = options.AllowStaleValues,
            };
            LoadedPack loaded = new PackLoader(directory, meta, access).Load(useCheckpoint, writable: true);
            try
            {
                Volume? active = PutInOrder(loaded);
                return new OpenedPack(loaded, active, MarkOf(loaded), writerLock);
            }
            catch
            {
                loaded.Core.Dispose();
                throw;
            }
        }
        catch
        {
            writerLock?.Dispose();
            directory.Dispose();
            throw;
        }
    }

    private static HeldDirectory OpenDirectory(string path, PackOptions options)
    {
        HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(
            Path.GetFullPath(path), options.CreateIfMissing, options.UnixCreateMode) ?? throw PackErrors.NoPack(path);
        if (!options.DangerouslyAllowFileSystem && directory.UnsafeFileSystem is { } name)
        {
            directory.Dispose();
            throw PackErrors.FileSystem(path, name);
        }

        return directory;
    }

    /// <summary>Nothing is written into a folder that holds something else.</summary>
    private static void RefuseForeign(HeldDirectory directory, bool mayCreate)
    {
        if (directory.Identify(PackNames.Meta) is not null && directory.List("").Contains(PackNames.Meta))
            return;
        if (!mayCreate)
            throw PackErrors.NoPack(directory.Path);
        string? foreign = directory.List("").FirstOrDefault(static name => name is not (PackNames.Locks or PackNames.Volumes)
            && !name.EndsWith(WholeFile.TemporarySuffix, StringComparison.Ordinal));
        if (foreign is not null)
            throw PackErrors.Foreign(directory.Path, foreign);

        // Volumes without their meta page are a damaged pack, not an empty folder.
        if (directory.List(PackNames.Volumes) is [{ } volume, ..])
            throw PackErrors.Foreign(directory.Path, $"{PackNames.Volumes}/{volume}");
    }

    private static PackMeta Create(HeldDirectory directory, PackOptions options)
    {
        directory.CreateSubdirectory(PackNames.Volumes);
        var meta = new PackMeta(Guid.NewGuid(), options.VolumeSize, DateTimeOffset.UtcNow);
        WholeFile.Write(directory, PackNames.Meta, file => file.WriteAt(meta.ToBytes(), 0));
        WholeFile.Install(directory, PackNames.Meta);
        return meta;
    }

    private static void RemoveTemporaries(HeldDirectory directory)
    {
        directory.CreateSubdirectory(PackNames.Volumes);
        foreach (string folder in new[] { "", PackNames.Volumes })
        {
            foreach (string name in directory.List(folder))
            {
                if (name.EndsWith(WholeFile.TemporarySuffix, StringComparison.Ordinal))
                    _ = directory.Delete(folder.Length == 0 ? name : $"{folder}/{name}");
            }
        }
    }

    /// <summary>
    /// Removes what does not count, ends a torn volume, makes a failed sync good; returns the volume to write on in. No volume
    /// is ever made shorter here: a reader in another process may have it mapped.
    /// </summary>
    private static Volume? PutInOrder(LoadedPack loaded)
    {
        PackCore core = loaded.Core;

        // The names that a killed writer gave may not be on disk yet, and what is written below them counts on that.
        core.Directory.FlushEntries(PackNames.Volumes);
        core.Directory.FlushEntries("");

        // The later ones first, each deletion on disk before the next: what an unfinished compaction left out of a later volume
        // is deleted only by what it left out of an earlier one.
        foreach (VolumeName leftover in loaded.Leftovers.OrderByDescending(static name => name.Last))
        {
            _ = core.Directory.Delete(leftover.Path);
            core.Directory.FlushEntries(PackNames.Volumes);
            ProtocolSteps.Reach(ProtocolStep.PackVolumeDeleted);
        }

        Volume? last = core.Volumes.InOrder.LastOrDefault();
        if (last is not null && core.Directory.Identify(PackNames.Poison) is not null)
            WriteAnew(last, loaded.CoveredTail);
        bool isTorn = last is { Name.Generation: 0 } && last.File.Length > last.Tail;
        bool isLastMissing = loaded.LastNumber > (last?.Name.Last ?? 0);
        bool isDamaged = core.Damages.Any(damage => damage.File == last?.Name.Path);
        bool isActive = last is { Name.Generation: 0 } && !isDamaged && !isLastMissing && !isTorn;

        // Nobody syncs it later: a volume before the last one is on disk as a whole.
        if (!isActive)
            last?.File.Sync();
        RemovePoison(core.Directory);
        if (isActive)
            return last;
        if (isTorn)
            return EndTorn(core, last!, loaded.LastNumber + 1);

        // The missing volume's number is never given again: what the checkpoint says of it would count for the new one.
        return isLastMissing ? PackAppender.MakeNext(core, loaded.LastNumber + 1) : null;
    }

    /// <summary>
    /// The next volume says where the needles of this one end. A full pack has no room for it: then the next opening finds the
    /// same, and a compaction leaves what is torn out.
    /// </summary>
    private static Volume? EndTorn(PackCore core, Volume last, uint nextNumber)
    {
        using (var scanner = new VolumeScanner(last, last.Tail, last.File.Length))
        {
            if (scanner.TryResync(sequenceAbove: 0, wholeNeedle: true))
                Salvage(core.Directory, last);
        }

        if (core.Volumes.FreeCount <= VolumeTable.ReservedForCompaction)
            return null;
        Volume next = PackAppender.MakeNext(core, nextNumber, previousEnd: last.Tail);
        last.EndBefore(next);
        ProtocolSteps.Reach(ProtocolStep.PackTailEnded);
        return next;
    }

    /// <summary>
    /// What the next recovery will know: the volume was on disk up to where it was scanned from, or was synced by now.
    /// </summary>
    private static SyncedMark MarkOf(LoadedPack loaded)
    {
        PackCore core = loaded.Core;
        SyncedMark before = SyncedMark.Read(core.Directory, core.Meta.PackId);
        Volume? last = core.Volumes.InOrder.LastOrDefault();
        long position = last is null ? 0 : Math.Max(last.Synced, before.SyncedOf(last.Name));
        return new SyncedMark(SyncedMark.CurrentBoot, Math.Max(loaded.LastNumber, last?.Name.Last ?? 0), position);
    }

    /// <summary>Sets aside what does not count any more; a second time, after a crash, over the first.</summary>
    private static void Salvage(HeldDirectory directory, Volume last)
    {
        directory.CreateSubdirectory(PackNames.Salvage);
        string name = $"{PackNames.Salvage}/{last.Name.FileName}-{last.Tail}";
        using PlatformFile copy = directory.Open(name, FileOpening.ReadWriteOrCreate)!;
        copy.SetLength(0);
        CopyOver(last.File, last.Tail, copy, -last.Tail);
        copy.Sync();
        directory.FlushEntries(PackNames.Salvage);
        directory.FlushEntries("");
    }

    /// <summary>
    /// After a failed sync the system may call pages clean that never reached the disk: written again, they are synced again.
    /// </summary>
    private static void WriteAnew(Volume last, long from)
    {
        CopyOver(last.File, from, last.File, 0);
        last.File.Sync();
    }

    private static void CopyOver(PlatformFile source, long from, PlatformFile destination, long shift)
    {
        byte[] buffer = new byte[CopyLength];
        for (long at = from; ;)
        {
            int read = source.ReadAt(buffer, at);
            if (read == 0)
                return;
            destination.WriteAt(buffer.AsSpan(0, read), at + shift);
            at += read;
        }
    }

    private static void RemovePoison(HeldDirectory directory)
    {
        if (directory.Delete(PackNames.Poison))
            directory.FlushEntries("");
    }
}
