using System.Globalization;
using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.Files;
using MappedFileQueues.Tests.Files;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>Opens a file that a crash left behind, closes it, and holds what is there against what was promised.</summary>
internal sealed class AppendOracle(SimDisk disk, SimServices os, AppendFileOptions plan, bool isOpenedAsBinary)
{
    public const string Name = "app.log";

    public static string FilePath => $"{SimDisk.Root}/{Name}";

    /// <summary>The first <paramref name="floor"/> lines must be there; more than the first `most` cannot.</summary>
    public void Check(int floor, int most, bool isCut)
    {
        // A stream that knows nothing of text goes by the mark that the other left.
        AppendFileOptions binary = new() { BufferLength = plan.BufferLength, RollLength = plan.RollLength };
        new AppendFileStream(FilePath, isOpenedAsBinary ? binary : plan).Dispose();
        CheckNames();
        CheckText(floor, most, isCut);

        using (AppendFileStream stream = new(FilePath, plan))
        {
            stream.Write("and on\n"u8);
            stream.Flush(durable: true);
        }

        if (!disk.Find(Name)!.Content.EndsWith("and on\n"u8))
            throw new LabViolation("What was appended after the crash is not at the end.");
        CheckNames();
    }

    private void CheckNames()
    {
        if (os.OpenCount != 0)
            throw new LabViolation($"{os.OpenCount} files or directories are still open.");
        string[] strange = [.. disk.Names.Keys.Where(name => name is not (Name or Name + ".lock") && NumberOf(name) == 0)];
        if (strange.Length > 0)
            throw new LabViolation($"Files were left behind: {string.Join(", ", strange)}.");
    }

    private void CheckText(int floor, int most, bool isCut)
    {
        string[] names = [.. disk.Names.Keys.Where(name => NumberOf(name) > 0).OrderBy(NumberOf), Name];
        foreach (string name in names)
        {
            ReadOnlySpan<byte> content = disk.Find(name)!.Content;
            if (content.EndsWith((byte)0))
                throw new LabViolation($"{name} ends with zeros.");
        }

        byte[] text = [.. names.SelectMany(name => disk.Find(name)!.Content.ToArray())];
        int first = FirstLine(text);
        if (plan.RetainedFileCount is null && first != 0)
            throw new LabViolation($"The first line is {first}, and nothing was to be deleted.");
        byte[][] lines = [.. Enumerable.Range(first, Math.Max(0, most - first)).Select(line => LineMaker.Line(0, line))];
        byte[] expected = [.. lines.SelectMany(line => line)];
        int needed = lines.Take(Math.Max(0, floor - first)).Sum(line => line.Length);
        if (text.Length < needed || (floor > 0 && text.Length == 0))
            throw new LabViolation($"Lines are missing: bytes={text.Length}, needed={needed}, lines={first}..{floor}.");
        for (int i = 0; i < text.Length; i++)
        {
            // What a cut took from the middle of what was never flushed reads as zeros.
            bool isMissing = isCut && i >= needed && text[i] == 0;
            if (i >= expected.Length || (text[i] != expected[i] && !isMissing))
                throw new LabViolation($"The byte at {i} of {text.Length} is a wrong one: needed={needed}, first line={first}.");
        }
    }

    private static int FirstLine(ReadOnlySpan<byte> text)
    {
        // "0:NUMBER:…"; a first line that a cut took the beginning of is no durable one, and then none before it was deleted.
        int colon = text.Length > 2 ? text[2..].IndexOf((byte)':') : -1;
        return colon > 0 && int.TryParse(text.Slice(2, colon), CultureInfo.InvariantCulture, out int number) ? number : 0;
    }

    private static long NumberOf(string name) =>
        name.StartsWith("app.roll-", StringComparison.Ordinal) && name.EndsWith(".log", StringComparison.Ordinal)
            && long.TryParse(name.AsSpan(9, Math.Max(0, name.Length - 13)), CultureInfo.InvariantCulture, out long number)
            ? number
            : 0;
}
