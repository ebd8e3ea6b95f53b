using System.Globalization;
using MappedFileQueues.Format;

namespace MappedFileQueues.TestPeer.Verbs;

internal enum HostileKind
{
    /// <summary>One bit of a byte, the value says which.</summary>
    Flip,

    /// <summary>All bits of a byte.</summary>
    Invert,

    /// <summary>A run of zeros, as long as the value says.</summary>
    Zero,

    /// <summary>The file ends here.</summary>
    Truncate,

    /// <summary>The file continues with bytes that are not zero, as many as the value says.</summary>
    Lengthen,

    /// <summary>The file is gone.</summary>
    Remove,

    /// <summary>A directory bears its name.</summary>
    Directory,

    /// <summary>A link that leads to itself bears its name.</summary>
    Loop,

    /// <summary>Two neighbouring blocks, as long as the value says, have changed places.</summary>
    Swap,

    /// <summary>The file holds what the next segment holds, or what the last one does.</summary>
    Duplicate,

    /// <summary>The file holds what has nothing to do with any store; the value is its seed.</summary>
    Foreign,
}

/// <summary>One way in which a file of the store is not what it was.</summary>
/// <param name="File">The file's name, relative to the store.</param>
/// <param name="Kind">What happened to it.</param>
/// <param name="Position">Where.</param>
/// <param name="Value">What the kind says.</param>
internal sealed record HostileDamage(string File, HostileKind Kind, int Position, int Value)
{
    /// <summary>Applies it to the file; false when that changes nothing.</summary>
    public bool Apply(string storePath, byte[] content)
    {
        string path = Path.Combine(storePath, File);
        byte[] bytes = [.. content];
        switch (Kind)
        {
            case HostileKind.Flip:
                bytes[Position] ^= (byte)(1 << Value);
                break;
            case HostileKind.Invert:
                bytes[Position] ^= 0xFF;
                break;
            case HostileKind.Zero:
                bytes.AsSpan(Position, Math.Min(Value, bytes.Length - Position)).Clear();
                if (bytes.AsSpan().SequenceEqual(content))
                    return false;
                break;
            case HostileKind.Truncate:
                bytes = bytes[..Position];
                break;
            case HostileKind.Lengthen:
                bytes = [.. bytes, .. Enumerable.Repeat((byte)0xA5, Value)];
                break;
            case HostileKind.Swap:
                content.AsSpan(Position, Value).CopyTo(bytes.AsSpan(Position + Value));
                content.AsSpan(Position + Value, Value).CopyTo(bytes.AsSpan(Position));
                if (bytes.AsSpan().SequenceEqual(content))
                    return false;
                break;
            case HostileKind.Duplicate:
                bytes = System.IO.File.ReadAllBytes(Neighbour(path));
                break;
            case HostileKind.Foreign:
                new Random(Value).NextBytes(bytes);
                break;
            case HostileKind.Loop:
                System.IO.File.Delete(path);
                System.IO.File.CreateSymbolicLink(path, path);
                return true;
            case HostileKind.Remove:
                System.IO.File.Delete(path);
                return true;
            default:
                System.IO.File.Delete(path);
                System.IO.Directory.CreateDirectory(path);
                return true;
        }

        System.IO.File.WriteAllBytes(path, bytes);
        return true;
    }

    /// <summary>The file after this one in its folder; of the last one, the one before it.</summary>
    private static string Neighbour(string path)
    {
        string[] all = [.. System.IO.Directory.EnumerateFiles(Path.GetDirectoryName(path)!).Order(StringComparer.Ordinal)];
        int index = Array.IndexOf(all, path);
        return all[index + 1 < all.Length ? index + 1 : Math.Max(0, index - 1)];
    }

    public override string ToString() =>
        string.Create(CultureInfo.InvariantCulture, $"{File} {Kind} at {Position} value {Value}");
}

/// <summary>Which damages are tried: all, or a sample that a seed repeats.</summary>
internal static class HostileDamages
{
    private const int LongRun = 40;

    private static readonly int[] s_swapLengths = [8, 32, 64, 512, 1024, 2048];
    private const int Page = 4096;

    /// <summary>
    /// Every length, and every byte: one of its bits, all of them in turn, and each aligned word as zeros. In files that hold
    /// little but zeros one byte of 64 stands for those.
    /// </summary>
    public static IEnumerable<HostileDamage> All(IReadOnlyDictionary<string, byte[]> files) =>
        files.OrderBy(file => file.Key, StringComparer.Ordinal).SelectMany(file => Whole(file.Key, file.Value)
            .Concat(Enumerable.Range(0, file.Value.Length)
                .Where(position => file.Value.Length <= 2 * Page || file.Value[position] != 0 || position % 64 == 0)
                .SelectMany(position => OnceAtByte(file.Key, position))));

    /// <summary>A sample: half of it among the bytes that say something, half anywhere.</summary>
    public static IEnumerable<HostileDamage> Sample(IReadOnlyDictionary<string, byte[]> files, Random random, int countPerFile)
    {
        foreach ((string name, byte[] content) in files.OrderBy(file => file.Key, StringComparer.Ordinal))
        {
            foreach (HostileDamage damage in Whole(name, content))
                yield return damage;
            if (content.Length == 0)
                continue;
            if (name.StartsWith("commitlog/", StringComparison.Ordinal) && FindExtended(content) is { Count: > 0 } extended)
                yield return new HostileDamage(name, HostileKind.Flip, extended[random.Next(extended.Count)] + 3, 7);
            int[] telling = [.. Enumerable.Range(0, content.Length).Where(position => content[position] != 0)];
            for (int i = 0; i < countPerFile; i++)
            {
                bool isAnywhere = telling.Length == 0 || random.Next(2) == 0;
                int position = isAnywhere ? random.Next(content.Length) : telling[random.Next(telling.Length)];
                HostileDamage[] choices = [.. AtByte(name, content, position)];
                yield return choices[random.Next(choices.Length)];
            }
        }
    }

    private static IEnumerable<HostileDamage> Whole(string name, byte[] content)
    {
        yield return new HostileDamage(name, HostileKind.Remove, 0, 0);
        yield return new HostileDamage(name, HostileKind.Directory, 0, 0);
        yield return new HostileDamage(name, HostileKind.Loop, 0, 0);
        if (content.Length == 0)
            yield break;
        yield return new HostileDamage(name, HostileKind.Foreign, 0, name.Length);
        if (name.StartsWith("commitlog/", StringComparison.Ordinal))
            yield return new HostileDamage(name, HostileKind.Duplicate, 0, 0);
        foreach (int length in s_swapLengths.Where(length => length * 2 <= content.Length))
            yield return new HostileDamage(name, HostileKind.Swap, content.Length / 2 / length * length - length, length);
        foreach (int more in new[] { 1, 8, 4096 })
            yield return new HostileDamage(name, HostileKind.Lengthen, content.Length, more);
    }

    /// <summary>The headers of messages with a header block, whose bit 31 says that they have one.</summary>
    private static List<int> FindExtended(byte[] content)
    {
        List<int> found = [];
        for (int at = 0; at < content.Length && BitConverter.ToUInt64(content, at) is var header and not 0;)
        {
            if (FrameHeader.IsExtended(header))
                found.Add(at);
            at += (int)FrameHeader.FrameLength(FrameHeader.Length(header));
        }

        return found;
    }

    private static IEnumerable<HostileDamage> OnceAtByte(string name, int position)
    {
        yield return new HostileDamage(name, HostileKind.Flip, position, position * 5 % 8);
        yield return new HostileDamage(name, HostileKind.Truncate, position, 0);
        if (position % 16 == 3)
            yield return new HostileDamage(name, HostileKind.Invert, position, 0);
        if (position % 8 == 0)
            yield return new HostileDamage(name, HostileKind.Zero, position, 8);
    }

    private static IEnumerable<HostileDamage> AtByte(string name, byte[] content, int position)
    {
        for (int bit = 0; bit < 8; bit++)
            yield return new HostileDamage(name, HostileKind.Flip, position, bit);
        yield return new HostileDamage(name, HostileKind.Invert, position, 0);
        yield return new HostileDamage(name, HostileKind.Truncate, position, 0);
        foreach (int length in new[] { 1, 8, LongRun, content.Length - position })
            yield return new HostileDamage(name, HostileKind.Zero, position, length);
    }
}
