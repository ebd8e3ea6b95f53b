using System.Buffers;
using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `pack-hostile FOLDER closed|killed`: makes a small pack, and opens copies of it with bytes flipped or zeroed, and with
/// files cut, all over it. A get has to give the exact bytes, or say that they are damaged; what is deleted stays deleted.
/// `killed` leaves the checkpoint out: then the end of the last volume may be gone, which is reported, and values are right that
/// were the newest before it.
/// </summary>
internal static class PackHostile
{
    /// <summary>Each image is read. One in this many is written to as well, which takes longer.</summary>
    private const int WriteEvery = 10;

    private static readonly PackOptions s_options = new() { VolumeSize = 4096 };
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(60);

    /// <summary>The values that each key has had, the newest last; null: deleted or not there yet.</summary>
    private static readonly Dictionary<string, List<byte[]?>> s_history = new(StringComparer.Ordinal);

    public static int Run(string[] arguments)
    {
        string original = Path.Combine(arguments[0], "original");
        string copy = Path.Combine(arguments[0], "copy");
        bool isClosed = arguments[1] == "closed";
        Make(original);
        if (!isClosed)
            File.Delete(Path.Combine(original, PackNames.Checkpoint));
        int images = 0;
        foreach (string file in Directory.GetFiles(original, "*", SearchOption.AllDirectories).Order(StringComparer.Ordinal))
        {
            string name = Path.GetRelativePath(original, file);
            if (name.StartsWith(PackNames.Locks, StringComparison.Ordinal))
                continue;
            byte[] bytes = File.ReadAllBytes(file);
            foreach ((string what, byte[] damaged) in Damages(bytes))
            {
                CopyPack(original, copy);
                File.WriteAllBytes(Path.Combine(copy, name), damaged);
                Check(copy, $"{name}: {what}", isClosed || !IsEndCut(name, what), alsoWrites: images % WriteEvery == 0);
                images++;
            }
        }

        Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"checked {images}"));
        return 0;
    }

    private static void Make(string path)
    {
        using PackStore pack = PackStore.Open(path, s_options);
        Put(pack, "first", 60);
        Put(pack, "second", 0);
        Put(pack, "gone", 40);
        Put(pack, "first", 70);
        pack.Delete("gone");
        History("gone").Add(null);
        Put(pack, "large", 3900);
        Put(pack, "last", 30);
        Put(pack, "second", 25);
    }

    private static void Put(PackStore pack, string key, int length)
    {
        byte[] data = new byte[length];
        new Random(length).NextBytes(data);
        pack.Put(key, data);
        History(key).Add(data);
    }

    private static List<byte[]?> History(string key)
    {
        if (!s_history.TryGetValue(key, out List<byte[]?>? history))
            s_history[key] = history = [null];
        return history;
    }

    /// <summary>Long runs of one object's data, or of empty shards, are sampled: a byte in them is like the next one.</summary>
    private static IEnumerable<(string What, byte[] Damaged)> Damages(byte[] bytes)
    {
        for (int i = 0; i < bytes.Length; i += i > 500 && i < bytes.Length - 300 ? 97 : 1)
        {
            yield return ($"byte {i} flipped", Changed(bytes, i, (byte)(bytes[i] ^ 0xFF)));
            yield return (i % 3) switch
            {
                0 => ($"a bit of byte {i} flipped", Changed(bytes, i, (byte)(bytes[i] ^ (1 << (i % 8))))),
                1 => ($"byte {i} zeroed", Changed(bytes, i, 0)),
                _ => ($"cut at {i}", bytes[..i]),
            };
        }
    }

    private static bool IsEndCut(string name, string what) => name.EndsWith("3-00000003-0000.pack", StringComparison.Ordinal)
        && what.StartsWith("cut", StringComparison.Ordinal);

    private static byte[] Changed(byte[] bytes, int index, byte value)
    {
        byte[] changed = [.. bytes];
        changed[index] = value;
        return changed;
    }

    private static void CopyPack(string from, string to)
    {
        if (Directory.Exists(to))
            Directory.Delete(to, recursive: true);
        foreach (string file in Directory.GetFiles(from, "*", SearchOption.AllDirectories))
        {
            string target = Path.Combine(to, Path.GetRelativePath(from, file));
            Directory.CreateDirectory(Path.GetDirectoryName(target)!);
            File.Copy(file, target);
        }
    }

    private static void Check(string path, string what, bool isStrict, bool alsoWrites)
    {
        long began = Stopwatch.GetTimestamp();
        try
        {
            CheckReader(path, isStrict);
            if (alsoWrites)
                CheckWriter(path, isStrict);
        }
        catch (PackFormatException) when (what.StartsWith(PackNames.Meta, StringComparison.Ordinal))
        {
            // Without the pack's id nothing in it can be checked.
        }
        catch (Exception error)
        {
            throw new InvalidOperationException($"{what}: {error.Message}", error);
        }

        if (Stopwatch.GetElapsedTime(began) > s_patience)
            throw new InvalidOperationException($"{what}: took {Stopwatch.GetElapsedTime(began)}");
    }

    private static void CheckReader(string path, bool isStrict)
    {
        using PackReader reader = PackReader.Open(path);
        bool isWhole = true;
        foreach (string key in s_history.Keys)
            isWhole &= CheckKey(key, isStrict, destination => reader.TryGet(key, destination));
        _ = reader.Enumerate(static _ => { }).Count();
        bool isReported = reader.Damages.Count > 0 || !reader.Verify().IsWhole;
        if (!isWhole && !isReported)
            throw new InvalidOperationException("something is lost, and nothing is reported");
    }

    private static void CheckWriter(string path, bool isStrict)
    {
        byte[] added = [1, 2, 3, 4, 5];
        using (PackStore pack = PackStore.Open(path, s_options))
        {
            foreach (string key in s_history.Keys)
                CheckKey(key, isStrict, destination => pack.TryGet(key, destination));
            pack.Put("added", added);
            pack.Put("second", added);
            pack.Compact(0);
        }

        using PackStore reopened = PackStore.Open(path, s_options);
        foreach (string key in (string[])["added", "second"])
        {
            var destination = new ArrayBufferWriter<byte>();
            if (!reopened.TryGet(key, destination) || !destination.WrittenSpan.SequenceEqual(added))
                throw new InvalidOperationException($"{key} was put after the damage and is not there");
        }

        foreach (string key in s_history.Keys.Where(key => key != "second"))
            CheckKey(key, isStrict, destination => reopened.TryGet(key, destination));
    }

    /// <summary>False when the newest value is not there.</summary>
    private static bool CheckKey(string key, bool isStrict, Func<IBufferWriter<byte>, bool> get)
    {
        var destination = new ArrayBufferWriter<byte>();
        List<byte[]?> history = s_history[key];
        bool isFound;
        try
        {
            isFound = get(destination);
        }
        catch (PackCorruptException) when (destination.WrittenCount == 0)
        {
            return false;
        }

        if (!isFound)
        {
            return history[^1] is null
                || (isStrict ? throw new InvalidOperationException($"{key} is gone, and nobody says so") : false);
        }

        byte[] got = destination.WrittenSpan.ToArray();
        bool isRight = isStrict
            ? history[^1] is { } newest && newest.SequenceEqual(got)
            : history.Exists(value => value is not null && value.SequenceEqual(got));
        if (!isRight)
            throw new InvalidOperationException($"{key} is {got.Length} bytes that are not its value");
        return history[^1] is { } value && value.SequenceEqual(got);
    }
}
