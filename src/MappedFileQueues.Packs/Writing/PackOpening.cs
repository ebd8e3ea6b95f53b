using System.Globalization;
using MappedFileQueues.Memory;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Loading;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Packs.Writing;

/// <summary>A pack that this process may write to.</summary>
/// <param name="Loaded">The pack as found on disk.</param>
/// <param name="Active">The volume that takes the next needle; null if a new one has to be made.</param>
/// <param name="Mark">What is known to be on disk of the last volume.</param>
/// <param name="WriterLock">The lock that keeps other writers out.</param>
/// <param name="MetaLock">The same, where somebody removes the lock's file.</param>
internal sealed record OpenedPack(
    LoadedPack Loaded, Volume? Active, SyncedMark Mark, PlatformLock WriterLock, PlatformLock? MetaLock);

/// <summary>
/// Opens a pack for writing: creates it if it is missing, takes the writer's lock, loads the pack, and repairs what a crash left.
/// After a kill at any point the next opening starts again.
/// </summary>
internal static class PackOpening
{
    private const int CopyLength = 1024 * 1024;

    public static OpenedPack OpenWriter(string path, PackOptions options, bool useCheckpoint)
    {
        try
        {
            return Open(path, options, useCheckpoint);
        }
        catch (MappedFileQueueException error) when (PackErrors.OfPack(error) is { } own)
        {
            throw own;
        }
    }

    private static OpenedPack Open(string path, PackOptions options, bool useCheckpoint)
    {
        HeldDirectory directory = OpenDirectory(path, options);
        PlatformLock? writerLock = null;
        PlatformLock? metaLock = null;
        try
        {
            RefuseForeign(directory, options.CreateIfMissing);
            WholeFile.ThrowIfLinked(directory, PackNames.Meta, PackNames.Meta + WholeFile.TemporarySuffix);
            directory.AdoptModeOf(PackNames.Meta);
            directory.CreateSubdirectory(PackNames.Locks);
            writerLock = LockWait.TryTake(directory, PackNames.WriterLock, LockKind.Exclusive, LockWait.Passing)
                ?? throw PackErrors.InUse(directory);
            PackMeta? found = PackLoader.ReadMeta(directory);
            CheckBound(directory, found?.VolumeLength ?? options.VolumeSize, options);
            PackMeta meta = found ?? Create(directory, options);
            directory.AdoptModeOf(PackNames.Meta);
            metaLock = MetaLock.Take(directory, PackNames.Meta, isAlone: true);
            directory.KeepFromCleaners();
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
                return new OpenedPack(loaded, active, MarkOf(loaded), writerLock, metaLock);
            }
            catch
            {
                loaded.Core.Dispose();
                throw;
            }
        }
        catch
        {
            metaLock?.Dispose();
            writerLock?.Dispose();
            directory.Dispose();
            throw;
        }
    }

    private static HeldDirectory OpenDirectory(string path, PackOptions options)
    {
        HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(
            path, options.CreateIfMissing, options.UnixCreateMode) ?? throw PackErrors.NoPack(path);
        if (!options.DangerouslyAllowFileSystem && directory.UnsafeFileSystem is { } name)
        {
            directory.Dispose();
            throw PackErrors.FileSystem(path, name);
        }

        return directory;
    }

    /// <summary>An eviction takes whole volumes, and the one that takes puts has to stay.</summary>
    private static void CheckBound(HeldDirectory directory, long volumeLength, PackOptions options)
    {
        if (options.MaxBytes < 2 * volumeLength)
        {
            throw new ArgumentException(string.Create(CultureInfo.InvariantCulture,
                $"MaxBytes is less than two volumes of this pack: path={directory.Path}, maxBytes={options.MaxBytes}, ")
                + string.Create(CultureInfo.InvariantCulture, $"volumeSize={volumeLength}. ")
                + "Raise it, or make a new pack: its VolumeSize follows from MaxBytes.", nameof(options));
        }
    }

    /// <summary>Refuses a directory that holds something else.</summary>
    private static void RefuseForeign(HeldDirectory directory, bool mayCreate)
    {
        if (HasMeta(directory))
            return;
        if (!mayCreate)
            throw PackErrors.NoPack(directory.Path);
        string? foreign = directory.List("").FirstOrDefault(static name => name is not (PackNames.Locks or PackNames.Volumes)
            && !name.EndsWith(WholeFile.TemporarySuffix, StringComparison.Ordinal));

        // Volumes without their meta page are a damaged pack, not an empty directory.
        if (foreign is null && directory.List(PackNames.Volumes) is [{ } volume, ..])
            foreign = $"{PackNames.Volumes}/{volume}";

        // Another process may have made the pack between the looks.
        if (foreign is not null && !HasMeta(directory))
            throw PackErrors.Foreign(directory.Path, foreign);
    }

    private static bool HasMeta(HeldDirectory directory) =>
        directory.Identify(PackNames.Meta) is not null && directory.List("").Contains(PackNames.Meta);

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
    /// Removes what does not count, ends a torn volume, and makes up for a failed sync. Returns the volume that takes the next
    /// needle. Never makes a volume shorter: a reader in another process may have it mapped.
    /// </summary>
    private static Volume? PutInOrder(LoadedPack loaded)
    {
        PackCore core = loaded.Core;

        // A killed writer may have made names that are not on disk yet, and everything written from now on depends on them.
        core.Directory.FlushEntries(PackNames.Volumes);
        core.Directory.FlushEntries("");

        // What a damaged copy replaced may be all that is left of it.
        HashSet<string> damaged = [.. core.Damages.Select(static damage => Path.GetFileName(damage.File))];
        uint keptFrom = loaded.Leftovers
            .Where(leftover => damaged.Any(file => VolumeName.TryParse(file, out VolumeName copy) && copy.Replaces(leftover)))
            .Select(static leftover => leftover.First).DefaultIfEmpty(uint.MaxValue).Min();

        // The later ones first, and each deletion on disk before the next. An unfinished compaction left a tombstone out of a
        // later volume because it left out of an earlier one what the tombstone deletes. So what is after one that stays, stays.
        foreach (VolumeName leftover in loaded.Leftovers.Where(leftover => leftover.First < keptFrom)
            .OrderByDescending(static name => name.Last))
        {
            _ = core.Directory.Delete(leftover.Path);
            core.Directory.FlushEntries(PackNames.Volumes);
            ProtocolSteps.Reach(ProtocolStep.PackVolumeDeleted);
        }

        Volume? last = core.Volumes.InOrder.LastOrDefault();
        if (last is not null && core.Directory.Identify(PackNames.Poison) is not null)
            WriteAnew(last, loaded.CoveredTail);
        bool isTorn = last is not null && PackAppender.IsTorn(core, last);
        bool isLastMissing = loaded.LastNumber > (last?.Name.Last ?? 0);
        bool isDamaged = core.Damages.Any(damage => damage.File == last?.Name.Path);
        bool isActive = last is { Name.Generation: 0 } && !isDamaged && !isLastMissing && !isTorn;

        // Nothing syncs it later, and a volume that is not the last one has to be on disk completely.
        if (!isActive && last is not null)
            SyncOrPoison(core.Directory, last);
        RemovePoison(core.Directory);
        if (isActive)
            return last;
        if (isTorn)
            return EndTorn(core, last!, loaded.LastNumber + 1);

        // The missing volume's number is never used again: what the checkpoint says about that volume would count for the new
        // one.
        return isLastMissing ? PackAppender.MakeNext(core, loaded.LastNumber + 1) : null;
    }

    /// <summary>
    /// Ends a torn volume: the header of the next volume stores where the needles of this one end. A full pack has no room for a
    /// next volume. Then the next put or the next opening ends it, and a compaction leaves out what is torn.
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
        Volume next;
        try
        {
            next = PackAppender.MakeNext(core, nextNumber);
        }
        catch (QueueDiskException error) when (DiskErrors.IsFull(error.Errno)
            && new PackReserve(core.Directory).TryGive())
        {
            next = PackAppender.MakeNext(core, nextNumber);
        }

        ProtocolSteps.Reach(ProtocolStep.PackTailEnded);
        return next;
    }

    /// <summary>
    /// What the next recovery will know: the volume was on disk up to where its scan began, or has been synced since.
    /// </summary>
    private static SyncedMark MarkOf(LoadedPack loaded)
    {
        PackCore core = loaded.Core;
        SyncedMark before = SyncedMark.Read(core.Directory, core.Meta.PackId);
        Volume? last = core.Volumes.InOrder.LastOrDefault();
        long position = last is null ? 0 : Math.Max(last.Synced, before.SyncedOf(last.Name));
        return new SyncedMark(SyncedMark.CurrentBoot, Math.Max(loaded.LastNumber, last?.Name.Last ?? 0), position);
    }

    /// <summary>Copies what no longer counts to `salvage/`. After a crash a second copy replaces the first.</summary>
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
    /// Rewrites the last volume. After a failed sync the system may treat pages as clean that never reached the disk. Once
    /// rewritten, they are synced again.
    /// </summary>
    private static void WriteAnew(Volume last, long from)
    {
        CopyOver(last.File, from, last.File, 0);
        last.File.Sync();
    }

    /// <summary>After a failure the next opening would find the pages marked clean, and its own sync would succeed.</summary>
    private static void SyncOrPoison(HeldDirectory directory, Volume last)
    {
        try
        {
            last.File.Sync();
        }
        catch (QueueDiskException)
        {
            PackAppender.MakePoison(directory);
            throw;
        }
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
