using System.Diagnostics;
using System.Text.Json;

namespace MappedFileQueues.Tests.Interop;

/// <summary>
/// The stores of `interop/vectors/make.py`, which knows only docs/FORMAT.md, and what it says that a reader must answer. They are
/// made once, by Python, when a test first asks for them.
/// </summary>
internal static class Vectors
{
    private static readonly Lazy<TempStore> s_made = new(Make);

    private static readonly JsonSerializerOptions s_json = new(JsonSerializerDefaults.Web);

    /// <summary>The folder with a store and a JSON file for each case. Skips the test where Python cannot be had.</summary>
    public static string Folder
    {
        get
        {
            SkipWithoutPython();
            return s_made.Value.Root;
        }
    }

    /// <summary>Every case, with the folder of its store.</summary>
    public static IEnumerable<(string Path, Answer Expected)> All() =>
        from file in Directory.EnumerateFiles(Folder, "*.json").Order(StringComparer.Ordinal)
        select (Path.ChangeExtension(file, null), JsonSerializer.Deserialize<Answer>(File.ReadAllText(file), s_json)!);

    /// <summary>Makes a copy of a store, for those who write.</summary>
    public static void CopyTo(string path, string target)
    {
        foreach (string folder in Directory.EnumerateDirectories(path, "*", SearchOption.AllDirectories).Prepend(path))
            Directory.CreateDirectory(Path.Combine(target, Path.GetRelativePath(path, folder)));
        foreach (string file in Directory.EnumerateFiles(path, "*", SearchOption.AllDirectories))
            File.Copy(file, Path.Combine(target, Path.GetRelativePath(path, file)));
    }

    public static void SkipWithoutPython()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "The readers in other languages are for Linux");
        Assert.SkipUnless(InteropTools.Has("python3"), "python3 is not installed");
    }

    /// <summary>Makes the stores anew, for those who damage them.</summary>
    public static void MakeIn(string folder)
    {
        SkipWithoutPython();
        using ChildProcess python = ChildProcess.Start(
            new ProcessStartInfo("python3", [Repository.PathOf("interop/vectors/make.py"), folder]));
        python.ExpectExit();
    }

    private static TempStore Make()
    {
        var folder = new TempStore();
        AppDomain.CurrentDomain.ProcessExit += (_, _) => folder.Dispose();
        MakeIn(folder.Root);
        return folder;
    }

    /// <summary>What a reader must answer; the head of the generator describes it.</summary>
    public sealed record Answer(
        string Name, string Open, int? Kind, int? StructSize, long? SegmentLength, long? First, Message[] Messages, End? End,
        Dictionary<string, JsonElement> Cursors, string Attach, long? Recovered, Dictionary<string, JsonElement> Floors,
        Dictionary<string, ulong> Producers, long? Number);

    public sealed record Message(long Offset, long Next, string Payload, Headers? Headers);

    public sealed record Headers(
        long? Time, ulong[]? Producer, bool Carried, string? TraceId, string? SpanId, int? TraceFlags, string TraceState,
        string? Key);

    public sealed record End(string Kind, long Offset);
}
