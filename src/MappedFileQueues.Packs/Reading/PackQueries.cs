using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;

namespace MappedFileQueues.Packs.Reading;

/// <summary>The questions to a pack in memory, for writers and readers alike. For any thread.</summary>
internal static class PackQueries
{
    /// <summary>A needle of up to this length is read into a buffer on the stack.</summary>
    private const int StackLength = 4096;

    public static bool Contains(PackCore core, ReadOnlySpan<byte> key)
    {
        var read = new NeedleRead(stackalloc byte[256]);
        try
        {
            return core.Lookup.TryFind(key, core.Lookup.HashOf(key), wholeNeedle: false, passDamage: false, ref read, out _);
        }
        finally
        {
            read.Dispose();
        }
    }

    public static bool TryGetLength(PackCore core, ReadOnlySpan<byte> key, out int length)
    {
        length = 0;
        var read = new NeedleRead(stackalloc byte[256]);
        try
        {
            if (!core.Lookup.TryFind(key, core.Lookup.HashOf(key), wholeNeedle: false, passDamage: false, ref read, out _))
                return false;
            length = read.Needle.DataLength;
            return true;
        }
        finally
        {
            read.Dispose();
        }
    }

    public static bool TryOpenRead(PackCore core, ReadOnlySpan<byte> key, [NotNullWhen(true)] out Stream? stream)
    {
        stream = null;
        var read = new NeedleRead(stackalloc byte[256]);
        try
        {
            if (!core.Lookup.TryFind(key, core.Lookup.HashOf(key), wholeNeedle: false, passDamage: false, ref read, out _))
                return false;
            stream = PackObjectStream.Open(ref read);
            return true;
        }
        finally
        {
            read.Dispose();
        }
    }

    [SkipLocalsInit]
    public static bool TryGet(PackCore core, ReadOnlySpan<byte> key, IBufferWriter<byte> destination)
    {
        var read = new NeedleRead(stackalloc byte[StackLength]);
        try
        {
            if (!core.Lookup.TryFind(key, core.Lookup.HashOf(key), wholeNeedle: true, passDamage: false, ref read, out _))
                return false;
            int length = read.Needle.DataLength;
            if (read.IsWhole)
            {
                if (!read.IsBodyValid())
                    throw PackLookup.Damaged(read.Volume, read.Position);
                destination.Write(read.Data);
                return true;
            }

            Span<byte> room = destination.GetSpan(length)[..length];
            if (!read.TryReadData(room))
                throw PackLookup.Damaged(read.Volume, read.Position);
            destination.Advance(length);
            return true;
        }
        finally
        {
            read.Dispose();
        }
    }

    public static bool TryGet(PackCore core, ReadOnlySpan<byte> key, [NotNullWhen(true)] out IMemoryOwner<byte>? data)
    {
        data = null;
        var read = new NeedleRead([]);
        try
        {
            if (!core.Lookup.TryFind(key, core.Lookup.HashOf(key), wholeNeedle: true, passDamage: false, ref read, out _))
                return false;
            read.ReadRest();
            if (!read.IsBodyValid())
                throw PackLookup.Damaged(read.Volume, read.Position);
            int start = read.Needle.DataAt;
            int length = read.Needle.DataLength;
            data = new PackValue(read.Detach()!, start, length);
            return true;
        }
        finally
        {
            read.Dispose();
        }
    }

    /// <summary>
    /// The objects in their order on disk. The enumeration holds references on the volumes until it ends,
    /// whatever a compaction does meanwhile. It reports first what hides needles. Keys are only in the volumes: it looks at
    /// each object, and returns those whose key begins with the prefix.
    /// </summary>
    public static IEnumerable<PackEntry> Enumerate(
        PackCore core, ReadOnlyMemory<byte> keyPrefix, Action<PackDamage>? onDamage)
    {
        var held = new Volume?[IndexEntry.SlotCount];
        try
        {
            core.Volumes.ThrowIfDisposed();
            IEnumerable<HiddenStretch> hidden = core.Hidden.IsIgnored ? [] : core.Hidden.Stretches;
            foreach (HiddenStretch stretch in hidden.DistinctBy(stretch => stretch.Place))
            {
                if (onDamage is null)
                    throw core.Hidden.Error(stretch);
                onDamage(stretch.ToDamage());
            }

            foreach (ulong entry in Snapshot(core, held))
            {
                if (TryLook(core, entry, held, keyPrefix.Span, onDamage) is { } found)
                    yield return found;
            }
        }
        finally
        {
            ReleaseAll(held);
        }
    }

    public static PackInfo Info(PackCore core)
    {
        IReadOnlyList<Volume> volumes = core.Volumes.InOrder;
        return new PackInfo
        {
            Path = core.Directory.Path,
            Count = core.Index.Count,
            LiveLength = volumes.Sum(static volume => volume.LiveLength),
            Length = volumes.Sum(static volume => volume.Tail),
            VolumeCount = volumes.Count,
            VolumeSize = core.Meta.VolumeLength,
            IndexBytes = core.Index.Bytes,
            Sequence = (long)core.Sequence,
            Created = core.Meta.Created,
        };
    }

    /// <summary>
    /// All entries, ordered by volume and position. References on the volumes are taken first, so each entry's volume is among
    /// them.
    /// </summary>
    private static ulong[] Snapshot(PackCore core, Volume?[] held)
    {
        while (true)
        {
            core.Volumes.ThrowIfDisposed();
            foreach (Volume volume in core.Volumes.InOrder)
            {
                if (volume.TryAcquire())
                    held[volume.Slot] = volume;
            }

            List<ulong> all = new((int)Math.Min(core.Index.Count, int.MaxValue / 16));
            for (int number = 0; number < PackIndex.ShardCount; number++)
                all.AddRange(core.Index.CopyShard(number));
            if (all.TrueForAll(entry => IsHeld(core, held, core.Layout.Slot(entry))))
            {
                ulong[] places = [.. all.Select(entry =>
                    ((ulong)held[core.Layout.Slot(entry)]!.Name.Last << 36) | (ulong)core.Layout.Position(entry))];
                ulong[] entries = [.. all];
                Array.Sort(places, entries);
                return entries;
            }

            // A volume was added or removed between the two looks.
            ReleaseAll(held);
        }
    }

    private static bool IsHeld(PackCore core, Volume?[] held, int slot) =>
        held[slot] is { } volume && core.Volumes.At(slot) == volume;

    private static void ReleaseAll(Volume?[] held)
    {
        foreach (Volume? volume in held)
            volume?.Release();
        Array.Clear(held);
    }

    private static PackEntry? TryLook(
        PackCore core, ulong entry, Volume?[] held, ReadOnlySpan<byte> keyPrefix, Action<PackDamage>? onDamage)
    {
        Volume volume = held[core.Layout.Slot(entry)]!;
        long position = core.Layout.Position(entry);
        volume.Share();
        var read = new NeedleRead(stackalloc byte[256]);
        try
        {
            if (read.LookAtAny(volume, position) && read.Needle.Kind == NeedleKind.Value)
            {
                if (!read.Key.StartsWith(keyPrefix))
                    return null;

                // The newer value of this key is damaged, which was reported already.
                bool isHidden = !core.Hidden.IsEmpty && !core.Hidden.IsIgnored && core.Hidden.Find(
                    read.Key, core.Lookup.HashOf(read.Key), new NeedlePosition(volume.Name.Last, position))
                    is { Trace: not null };
                return isHidden ? null : new PackEntry
                {
                    KeyBytes = read.Key.ToArray(),
                    Length = read.Needle.DataLength,
                    Sequence = (long)read.Needle.Sequence,
                };
            }

            PackCorruptException damaged = PackLookup.Damaged(volume, position);
            if (onDamage is null)
                throw damaged;
            onDamage(PackDamage.At(volume.Name, position, 0, "The object is damaged."));
            return null;
        }
        finally
        {
            read.Dispose();
        }
    }
}
