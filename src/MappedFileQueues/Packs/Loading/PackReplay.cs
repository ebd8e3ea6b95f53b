using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Volumes;

namespace MappedFileQueues.Packs.Loading;

/// <summary>
/// Scans volumes in their order and changes the index needle by needle: the rebuild, the recovery after a crash, and a reader's
/// way of following are this one walk. What it does at a place where no needle stands is the table of docs/PACKS.md section 5.
/// </summary>
/// <param name="core">The pack.</param>
/// <param name="hasLock">The caller holds the writer's lock, so that nobody writes meanwhile.</param>
internal sealed class PackReplay(PackCore core, bool hasLock = false)
{
    /// <summary>
    /// Applies what stands in a volume from <paramref name="from"/> on and sets its tail. The last volume may end in a torn
    /// write, but not below <paramref name="proven"/>, which was on disk.
    /// </summary>
    public void Replay(Volume volume, long from, bool isLast, long proven)
    {
        long end = Math.Min(volume.File.Length, volume.EndsAt);

        // A compaction's copy is whole before it has its name.
        bool mayEnd = isLast && volume.Name.Generation == 0;
        VolumeEnd? judge = mayEnd ? new VolumeEnd(core, volume, end, proven, hasLock) : null;
        using var scanner = new VolumeScanner(volume, from, end);
        while (true)
        {
            while (scanner.TryNext(core.Sequence, wholeNeedle: mayEnd))
                Apply(volume, scanner);
            bool isOver = scanner.IsAtEnd || judge?.IsDamage(scanner.Position) == false;
            if (isOver)
                return;
            Pass(volume, scanner, isLast);
        }
    }

    private void Apply(Volume volume, VolumeScanner scanner)
    {
        ReadOnlySpan<byte> key = scanner.Key;
        ulong hash = core.Lookup.HashOf(key);
        core.TryFindPlace(key, hash, out NeedlePlace old);

        // The tail is set before the index: a look at the index reads nothing behind it.
        volume.Tail = scanner.Position;
        core.Reach(scanner.Needle.Sequence);
        core.Apply(hash, old, volume, scanner.NeedlePosition, scanner.Needle);
    }

    /// <summary>Reports the damage and goes on behind it.</summary>
    private void Pass(Volume volume, VolumeScanner scanner, bool isLast)
    {
        long damaged = scanner.Position;

        // Header and key are whole: the object is known, and a get says that it is damaged.
        if (scanner.TryNext(core.Sequence, wholeNeedle: false))
        {
            core.Report(PackDamage.At(volume.Name, damaged, scanner.Position - damaged, "The data of an object is damaged."));
            Apply(volume, scanner);
            return;
        }

        bool isFound = scanner.TryResync(core.Sequence, wholeNeedle: false);
        long length = scanner.Position - damaged;
        IReadOnlyList<NeedleTrace?> traces = LostNeedle.TracesOf(volume, damaged, scanner.Position);
        foreach (NeedleTrace? trace in traces.Count > 0 ? traces : [null])
            core.Hide(new HiddenStretch(volume.Name, damaged, length, trace));
        volume.Tail = scanner.Position;

        // The lost ones had sequences too, which are not given again: they could not be told apart if the bytes came back.
        if (!isFound && isLast && hasLock)
            core.LeapTo(core.Sequence + (ulong)(length / NeedleLayout.LengthMin) + 1);
    }
}
