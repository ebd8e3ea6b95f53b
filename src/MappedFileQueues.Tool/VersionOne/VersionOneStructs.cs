namespace MappedFileQueues.Tool.VersionOne;

/// <summary>
/// The structs of a store of 1.x: each is its bytes and a byte 0xFF, one after the other. A segment begins at a multiple of that
/// length and is one byte longer than the structs that fit into it.
/// </summary>
internal sealed class VersionOneStructs : VersionOneReader
{
    private const byte EndMark = 0xFF;

    private readonly int _stride;

    /// <exception cref="ToolException">The store holds other structs, or messages.</exception>
    public VersionOneStructs(VersionOneFolder folder, int structSize, CancellationToken stopped)
        : base(folder, stopped)
    {
        _stride = structSize + 1;
        string? misfit = folder.Producer % _stride > 0 ? $"producer.offset={folder.Producer}"
            : folder.Confirmed % _stride > 0 ? $"producer.confirmed.offset={folder.Confirmed}"
            : folder.Segments.FirstOrDefault(segment => segment.Start % _stride > 0) is { } wrong ? $"segment={wrong.Name}"
            : folder.Segments.Length > 0 && folder.Segments.All(segment => segment.Length % _stride != 1)
                ? $"segmentLength={folder.Segments[0].Length}"
            : null;
        if (misfit is not null)
        {
            throw new ToolException($"The store does not hold structs of this size: path={folder.Path}, structSize={structSize}, "
                + $"{misfit}, bytesEach={_stride}. Give the size that `Unsafe.SizeOf` tells of the struct; a store of "
                + "MappedFileQueues.Stream needs --stream.");
        }
    }

    protected override bool TryReadNext(out ReadOnlySpan<byte> message, out int length)
    {
        length = _stride;
        int count = 0;
        long zeros = 0;
        // A store whose segment size was changed has segments that overlap; each struct is in one of them.
        for (int i = Folder.FindIndex(NextOffset); i >= 0 && Folder.Segments[i].Start > NextOffset - Folder.LengthMax; i--)
        {
            if (Folder.Segments[i].End - NextOffset < _stride)
                continue;
            count++;
            if (Folder.TryRead(Folder.Segments[i], NextOffset, _stride, out message) && message[^1] == EndMark)
            {
                message = message[..^1];
                return true;
            }

            zeros = Folder.CountZeros(Folder.Segments[i], NextOffset);
        }

        message = default;
        if (count == 0)
        {
            Skip(FindResumption(), "the segment is missing");
            return false;
        }

        // What was not forced to disk and has a hole is what a power loss left: 1.x went back to the confirmed offset then.
        if (Folder.Confirmed is { } confirmed && NextOffset >= confirmed)
            EndHere();
        // A segment was made at its full length: most of it may be zeros.
        long places = count == 1 ? Math.Max(zeros / _stride, 1) : 1;
        Skip(NextOffset + (places * _stride), "a message has no end mark");
        return false;
    }
}
