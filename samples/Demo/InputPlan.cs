namespace MappedFileQueues.Demo;

/// <summary>
/// One file of the input. Its length is fixed when the plan is made, so a file that grows meanwhile does no harm.
/// </summary>
/// <param name="Path">The full path.</param>
/// <param name="Length">How many of its bytes are sent.</param>
/// <param name="EndsWithNewline">True if the last of these is a \n; otherwise the last line gets one in the output.</param>
internal readonly record struct InputFile(string Path, long Length, bool EndsWithNewline)
{
    /// <summary>The length of its lines with one \n each.</summary>
    public long LinesLength => EndsWithNewline ? Length : Length + 1;
}

/// <summary>
/// The exact bytes to send: these files in this order, this many times. Every producer process reads the same plan, so a new one
/// knows the line that follows the last one that the old one published.
/// </summary>
/// <param name="Files">The files of one round, none of them empty.</param>
/// <param name="Rounds">The number of rounds.</param>
internal sealed record InputPlan(IReadOnlyList<InputFile> Files, int Rounds)
{
    /// <summary>A demo sends at least this much: one that ends at once shows nothing.</summary>
    public const long LengthMin = 50_000_000;

    /// <summary>The length of everything that is sent, with one \n per line.</summary>
    public long TotalLength => Rounds * Files.Sum(file => file.LinesLength);

    /// <summary>Repeats the files as often as it takes to reach <see cref="LengthMin"/>.</summary>
    public static InputPlan Create(IReadOnlyList<InputFile> files)
    {
        long length = files.Sum(file => file.LinesLength);
        return new InputPlan(files, (int)Math.Max(1, (LengthMin + length - 1) / length));
    }

    /// <summary>Reads a plan that <see cref="Save"/> wrote.</summary>
    public static InputPlan Load(string path)
    {
        using BinaryReader reader = new(File.OpenRead(path));
        int rounds = reader.ReadInt32();
        InputFile[] files = new InputFile[reader.ReadInt32()];
        for (int index = 0; index < files.Length; index++)
            files[index] = new InputFile(reader.ReadString(), reader.ReadInt64(), reader.ReadBoolean());
        return new InputPlan(files, rounds);
    }

    /// <summary>Writes the plan for the producer processes.</summary>
    public void Save(string path)
    {
        using BinaryWriter writer = new(File.Create(path));
        writer.Write(Rounds);
        writer.Write(Files.Count);
        foreach (InputFile file in Files)
        {
            writer.Write(file.Path);
            writer.Write(file.Length);
            writer.Write(file.EndsWithNewline);
        }
    }
}
