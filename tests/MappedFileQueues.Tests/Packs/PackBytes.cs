using System.Buffers;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Tests.Packs;

/// <summary>Data that tells where it comes from, and the ways to get it back.</summary>
internal static class PackBytes
{
    /// <summary>Bytes that follow from length and seed alone; no two seeds give the same from 8 bytes on.</summary>
    public static byte[] Make(int length, int seed)
    {
        byte[] bytes = new byte[length];
        new Random((seed * 31) + length).NextBytes(bytes);
        for (int i = 0; i < Math.Min(4, length); i++)
            bytes[i] = (byte)(seed >> (8 * i));
        return bytes;
    }

    /// <summary>Where the text is in the bytes.</summary>
    public static int IndexOf(byte[] bytes, string text, bool last)
    {
        byte[] sought = System.Text.Encoding.UTF8.GetBytes(text);
        int found = last ? bytes.AsSpan().LastIndexOf(sought) : bytes.AsSpan().IndexOf(sought);
        Assert.True(found >= 0, $"Not there: {text}");
        return found;
    }

    /// <summary>What a kill of the pack's writer would leave now, in a folder of its own beside it.</summary>
    public static string Copy(TempStore pack, string name)
    {
        string folder = Path.Combine(pack.Root, name);
        foreach (string file in Directory.GetFiles(pack.StorePath, "*", SearchOption.AllDirectories))
        {
            if (file.Contains("locks", StringComparison.Ordinal))
                continue;
            string copy = Path.Combine(folder, Path.GetRelativePath(pack.StorePath, file));
            Directory.CreateDirectory(Path.GetDirectoryName(copy)!);
            File.Copy(file, copy);
        }

        return folder;
    }

    /// <summary>Gets by the buffer writer; null when there is nothing.</summary>
    public static byte[]? Get(this PackStore pack, string key)
    {
        var destination = new ArrayBufferWriter<byte>();
        bool isFound = pack.TryGet(key, destination);
        Assert.True(isFound || destination.WrittenCount == 0);
        return isFound ? destination.WrittenSpan.ToArray() : null;
    }

    /// <summary>Gets owned memory; null when there is nothing.</summary>
    public static byte[]? GetOwned(this PackStore pack, string key)
    {
        if (!pack.TryGet(key, out IMemoryOwner<byte>? owner))
            return null;
        using (owner)
            return owner.Memory.ToArray();
    }

    /// <summary>Gets by a reader; null when there is nothing.</summary>
    public static byte[]? Get(this PackReader pack, string key)
    {
        var destination = new ArrayBufferWriter<byte>();
        return pack.TryGet(key, destination) ? destination.WrittenSpan.ToArray() : null;
    }
}
