using System.Buffers.Binary;
using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Hostile;

/// <summary>One random way in which the segments of a <see cref="DamagedLog"/> are not what they were.</summary>
internal sealed class LogDamage
{
    private readonly Dictionary<string, byte[]> _files = new(StringComparer.Ordinal);
    private readonly List<string> _steps = [];

    /// <param name="log">Whose.</param>
    /// <param name="random">Which.</param>
    /// <param name="keepsLengths">No file is removed or truncated: somebody has them mapped.</param>
    /// <param name="before">Only frames below this offset are hit.</param>
    public LogDamage(DamagedLog log, Random random, bool keepsLengths = false, long before = long.MaxValue)
    {
        int count = random.Next(4) == 0 ? random.Next(2, 6) : 1;
        for (int i = 0; i < count; i++)
            Add(log, random, keepsLengths, before);
    }

    /// <summary>The contents that differ; of length 0 a file that is gone.</summary>
    public IReadOnlyDictionary<string, byte[]> Files => _files;

    public override string ToString() => string.Join("; ", _steps);

    /// <summary>
    /// Eight random bytes looked like the claim of a producer that is gone, for 10,000 bytes: everything in it became padding.
    /// </summary>
    private static void MakeClaim(Span<byte> lowHalf, int length) =>
        BinaryPrimitives.WriteUInt32LittleEndian(lowHalf, FrameHeader.LowHalf(length, FrameState.Claimed));

    private void Add(DamagedLog log, Random random, bool keepsLengths, long before)
    {
        DamagedLog.Frame[] frames = [.. log.Frames.Where(frame => frame.Offset < before)];
        DamagedLog.Frame frame = frames[random.Next(frames.Length)];
        long start = frame.Offset - (frame.Offset % log.SegmentLength);
        int at = (int)(frame.Offset - start);
        string path = log.PathOf(start);
        byte[] bytes = _files.TryGetValue(path, out byte[]? hit) ? hit : [.. log.Segments[path]];
        if (bytes.Length < log.SegmentLength)
            return;
        // Free space stays free: garbage there, or a file that ends before the checkpoint, makes the store refuse producers.
        bool isLast = start + log.SegmentLength > log.End;
        int room = (int)Math.Min(log.SegmentLength, log.End - start) - at;
        int kind = random.Next(keepsLengths || isLast ? 8 : 10);
        switch (kind)
        {
            case 0:
                bytes[at + 8 + random.Next(frame.PayloadLength)] ^= (byte)(1 << random.Next(8));
                break;
            case 1 or 2:
                int bit = random.Next(64);
                bytes[at + (bit / 8)] ^= (byte)(1 << (bit % 8));
                break;
            case 3:
                bytes.AsSpan(at, 8).Clear();
                break;
            case 4:
                random.NextBytes(bytes.AsSpan(at, 8));
                if (random.Next(2) == 0)
                    MakeClaim(bytes.AsSpan(at, 4), random.Next(room - 7));
                break;
            case 5:
                bytes.AsSpan(at, Math.Min(random.Next(8, 3000), room)).Clear();
                break;
            case 6:
                random.NextBytes(bytes.AsSpan(at, Math.Min(random.Next(8, 3000), room)));
                break;
            case 7:
                // Text, of which each word looks like the header of a message of two megabytes.
                bytes.AsSpan(at, Math.Min(random.Next(8, 8000), room)).Fill((byte)' ');
                break;
            case 8:
                bytes = bytes[..(at + random.Next(frame.PayloadLength + 8))];
                break;
            default:
                bytes = [];
                break;
        }

        _files[path] = bytes;
        string header = at + 8 <= bytes.Length ? $", now {BitConverter.ToUInt64(bytes, at):x16}" : "";
        _steps.Add($"kind {kind} at {frame.Offset}{header}");
    }
}
