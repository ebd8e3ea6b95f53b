namespace MappedFileQueues.Packs;

/// <summary>
/// Scans volumes in their order and changes the index needle by needle: the rebuild, the recovery after a crash, and a reader's
/// way of following are this one walk. What it does at a place where no needle stands is the table of docs/PACKS.md section 5.
/// </summary>
internal sealed class PackReplay(PackCore core)
{
    /// <summary>
    /// Applies what stands in a volume from <paramref name="from"/> on and sets its tail. The last volume may end in a torn
    /// write, but not below <paramref name="proven"/>, which was on disk.
    /// </summary>
    public void Replay(Volume volume, long from, bool isLast, long proven)
    {
        long end = volume.File.Length;
        using var scanner = new VolumeScanner(volume, from, end);
        while (true)
        {
            while (scanner.TryNext(core.Sequence, wholeNeedle: isLast))
                Apply(volume, scanner);
            bool isOver = scanner.IsAtEnd
                || (isLast && scanner.Position >= proven && !IsProvenDamage(volume, scanner.Position, end))
                || !TryPass(volume, scanner, isLast);
            if (isOver)
                return;
        }
    }

    private void Apply(Volume volume, VolumeScanner scanner)
    {
        ReadOnlySpan<byte> key = scanner.Key;
        ulong hash = core.Lookup.HashOf(key);
        core.TryFindPlace(key, hash, out NeedlePlace old);

        // The tail is set before the index: a look at the index reads nothing behind it.
        volume.Tail = scanner.Position;
        core.Sequence = scanner.Needle.Sequence;
        core.Apply(hash, old, volume, scanner.NeedlePosition, scanner.Needle);
    }

    /// <summary>Cases 3 and 4: reports the damage and goes on behind it. False when no needle follows.</summary>
    private bool TryPass(Volume volume, VolumeScanner scanner, bool isLast)
    {
        long damaged = scanner.Position;
        bool isFound = scanner.TryResync(core.Sequence, wholeNeedle: isLast);
        core.Report(new PackDamage(volume.Name.Path, damaged, scanner.Position - damaged,
            "No valid needle stands here. What was put or deleted here is lost."));
        if (!isFound)
            volume.Tail = scanner.Position;
        return isFound;
    }

    /// <summary>
    /// Case 4, not 5. The needle may have been in the making when it was looked at, and whole before the proof was found. So it
    /// is read once more.
    /// </summary>
    private bool IsProvenDamage(Volume volume, long position, long end)
    {
        if (!IsProvenBehind(volume, position, end))
            return false;
        using var again = new VolumeScanner(volume, position, end);
        return !again.TryNext(core.Sequence, wholeNeedle: true);
    }

    /// <summary>
    /// Whether a valid needle further on says that this place was on disk when it was written. It looks no further than the
    /// scan: beside a writer the file grows, and a needle that the scan's end cuts is followed by others soon.
    /// </summary>
    private bool IsProvenBehind(Volume volume, long position, long end)
    {
        using var scanner = new VolumeScanner(volume, position, end);
        ulong sequence = core.Sequence;
        while (!scanner.IsAtEnd)
        {
            if (!scanner.TryNext(sequence, wholeNeedle: true))
            {
                if (!scanner.TryResync(sequence, wholeNeedle: true))
                    return false;
                continue;
            }

            if (scanner.Needle.Synced > position)
                return true;
            sequence = scanner.Needle.Sequence;
        }

        return false;
    }
}
