using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Loading;
using MappedFileQueues.Packs.Volumes;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Packs.Reading;

/// <summary>
/// Keeps a reader's pack up to date: continues to read the last volume, then the next, and loads again when a compaction has
/// changed the files. For one thread at a time; gets continue meanwhile.
/// </summary>
internal sealed class PackFollower : IDisposable
{
    private readonly HeldDirectory _directory;
    private readonly PackMeta _meta;
    private readonly PackAccess _access;
    private readonly bool _hasIdentities = !CurrentPlatform.Services.IsPortable;
    private PackCore _core;
    private PlatformFile? _checkpoint;
    private Volume? _last;
    private VolumeName _next;

    /// <summary>What lay beside the volumes when they were loaded, and did not count.</summary>
    private HashSet<string> _leftovers = [];

    /// <summary>The length of the last volume at the last look.</summary>
    private long _seenLength;

    /// <summary>
    /// The bytes after the tail when a look found no needle there. As long as they and the length are the same, another look
    /// would find the same, and one look may read 200 MiB. Null: no such look, or there was the header of a needle that is being
    /// written.
    /// </summary>
    private byte[]? _seenRest;

    public PackFollower(HeldDirectory directory, PackMeta meta, PackAccess access)
    {
        (_directory, _meta, _access) = (directory, meta, access);
        _core = Load();
    }

    /// <summary>The pack as of the last refresh.</summary>
    public PackCore Core => Volatile.Read(ref _core);

    public void Refresh()
    {
        if (IsCompacted() || _last?.File.Length < _seenLength || IsLastReplaced())
        {
            PackCore old = _core;
            Volatile.Write(ref _core, Load());
            old.Dispose();
        }

        while (true)
        {
            // Look for the next volume first: if it exists, the last one has everything that it will ever have.
            bool hasNext = _directory.Identify(_next.Path) is not null;
            Volume? next = hasNext ? OpenNext() : null;
            try
            {
                ReadOn(next, isLast: !hasNext);
            }
            catch
            {
                next?.Retire();
                throw;
            }

            if (next is null)
                return;
            _core.Volumes.Add(next);
            SetLast(next, next.Name.Last);
        }
    }

    /// <summary>The pack as of now, loaded a second time. For any thread; the caller disposes it.</summary>
    public PackCore LoadApart() =>
        new PackLoader(_directory, _meta, _access with { MapsVolumes = false }).Load(useCheckpoint: true, writable: false).Core;

    public void Dispose()
    {
        _checkpoint?.Dispose();
        _core.Dispose();
    }

    /// <summary>Loads the pack. A failure changes nothing, so the next refresh tries again.</summary>
    private PackCore Load()
    {
        // Opened before the pack is loaded: a later checkpoint is another file.
        PlatformFile? checkpoint = OpenCheckpoint();
        try
        {
            LoadedPack loaded = new PackLoader(_directory, _meta, _access).Load(useCheckpoint: true, writable: false);
            SetLast(loaded.Core.Volumes.InOrder.LastOrDefault(), loaded.LastNumber);
            Hold(checkpoint);
            _leftovers = [.. loaded.Leftovers.Select(static leftover => leftover.FileName)];
            return loaded.Core;
        }
        catch
        {
            checkpoint?.Dispose();
            throw;
        }
    }

    private void SetLast(Volume? last, uint lastNumber)
    {
        (_last, _seenLength, _seenRest) = (last, 0, null);
        _next = new VolumeName(lastNumber + 1, lastNumber + 1, 0);
    }

    /// <summary>Takes over what was added to the last volume.</summary>
    private void ReadOn(Volume? next, bool isLast)
    {
        if (_last is not { } last)
            return;
        if (next is not null)
            last.EndBefore(next);
        long length = last.File.Length;
        bool hasMore = length > last.Tail && !(isLast && length == _seenLength && IsAsSeen(last));
        if (hasMore)
        {
            new PackReplay(_core).Replay(last, last.Tail, isLast, proven: last.Tail);
            _seenRest = isLast && length > last.Tail ? RestOf(last) : null;
        }

        _seenLength = length;
    }

    /// <summary>
    /// Whether the writer has made the last volume anew. It does when it failed between the rename and its first needle.
    /// </summary>
    private bool IsLastReplaced() => _hasIdentities && _last is { NeedlesLength: 0 } last
        && _directory.Identify(last.Name.Path) != last.File.Identity;

    private bool IsAsSeen(Volume last) => _seenRest is { } seen && RestOf(last) is { } now && seen.AsSpan().SequenceEqual(now);

    /// <summary>
    /// The bytes at which the next needle would begin. Null if they are a valid header: the rest of that needle may arrive
    /// although the file keeps its length.
    /// </summary>
    private static byte[]? RestOf(Volume last)
    {
        byte[] header = new byte[NeedleLayout.HeaderLength];
        last.File.ReadAt(header, last.Tail);
        if (!NeedleLayout.TryRead(header, out NeedleLayout needle))
            return header;
        using var scanner = new VolumeScanner(last, last.Tail, last.Tail + needle.DataAt);
        return scanner.TryLook(out _) ? null : header;
    }

    /// <summary>
    /// Null if there is no slot for the volume. Then it is an empty volume too many, or a compaction has made room for it and the
    /// next refresh loads again.
    /// </summary>
    private Volume? OpenNext()
    {
        PlatformFile? file = _core.Volumes.FreeCount == 0 ? null : _directory.Open(_next.Path, FileOpening.Read);
        if (file is null)
            return null;
        Span<byte> bytes = stackalloc byte[VolumeHeader.Length];
        int read = Volume.ReadHeader(file, bytes);
        return new Volume(_next, file, _meta.PackId)
        {
            Tail = VolumeHeader.Length,
            PreviousEnd = VolumeHeader.Parse(bytes[..read], _meta.PackId, _next)?.PreviousEnd ?? 0,
        };
    }

    /// <summary>
    /// Whether the set of volumes has changed in any other way than by a new one at its end. Each compaction ends with a new
    /// checkpoint, which is a new file. If files have no identity, or there is no checkpoint (it may have been deleted), the
    /// names are compared each time.
    /// </summary>
    private bool IsCompacted()
    {
        bool isSame = _hasIdentities && _checkpoint is not null
            && _directory.Identify(PackNames.Checkpoint) == _checkpoint.Identity;
        if (isSame)
            return false;
        PackErrors.ThrowIfRemoved(_directory);
        PlatformFile? checkpoint = OpenCheckpoint();
        try
        {
            if (!IsSetChanged(isComparedAgain: checkpoint is null))
            {
                Hold(checkpoint);
                checkpoint = null;
                return false;
            }

            return true;
        }
        finally
        {
            checkpoint?.Dispose();
        }
    }

    /// <param name="isComparedAgain">
    /// Whether the next refresh compares the names again. Then a leftover may wait until what it replaces is gone.
    /// </param>
    private bool IsSetChanged(bool isComparedAgain)
    {
        HashSet<string> files = [.. _directory.List(PackNames.Volumes)];
        if (isComparedAgain)
            files.ExceptWith(_leftovers);
        IReadOnlyList<Volume> known = _core.Volumes.InOrder;
        foreach (Volume volume in known)
        {
            if (!files.Remove(volume.Name.FileName))
                return true;
        }

        return files.Any(file => VolumeName.TryParse(file, out VolumeName name) && (name.Generation > 0 || IsRestored(name)));

        bool IsRestored(VolumeName name) => name.Last < _next.First && !known.Any(volume => volume.Name.Overlaps(name));
    }

    /// <summary>
    /// Null where files have no identity, because an open checkpoint would tell nothing there. And Windows replaces no file that
    /// somebody has open: a reader that kept it open made each compaction of the writer fail.
    /// </summary>
    private PlatformFile? OpenCheckpoint() =>
        _hasIdentities ? _directory.Open(PackNames.Checkpoint, FileOpening.Read) : null;

    /// <summary>
    /// The file stays open: otherwise its inode could be used again for a later checkpoint, which would then look the same.
    /// </summary>
    private void Hold(PlatformFile? checkpoint)
    {
        _checkpoint?.Dispose();
        _checkpoint = checkpoint;
    }
}
