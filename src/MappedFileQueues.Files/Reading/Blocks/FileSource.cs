namespace MappedFileQueues.Files.Reading.Blocks;

/// <summary>What is read: a file, and where its successors come from.</summary>
/// <param name="First">The file to begin with.</param>
/// <param name="Sequence">What comes after it; null when it stays the only one.</param>
internal sealed record FileSource(ReadableFile First, FileSequence? Sequence)
{
    /// <summary>Opens what the options say.</summary>
    public static FileSource Open(string path, ReadAheadOptions options)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        if (!options.FollowRolls && options.ResumeAt is null)
            return new FileSource(ReadableFile.Open(path), null);
        if (options is { FollowRolls: true, MapBlocks: true })
            throw new ArgumentException("Blocks of a file that is rolled cannot be mapped: FollowRolls=true, MapBlocks=true.");
        FileSequence sequence = new(path);
        ReadableFile first = sequence.Open(options.ResumeAt, mayBeMissing: options is { Follow: true, FollowRolls: true });
        return new FileSource(first, options.FollowRolls ? sequence : null);
    }
}
