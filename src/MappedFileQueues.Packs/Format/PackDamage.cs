using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Packs;

/// <summary>A part of a file whose content differs from what was written.</summary>
public sealed class PackDamage
{
    /// <summary>The file, relative to the pack's directory.</summary>
    public string File { get; init; } = "";

    /// <summary>The position at which the damage begins, in bytes.</summary>
    public long Position { get; init; }

    /// <summary>The number of bytes that were skipped; 0 if the file is missing or too short.</summary>
    public long Length { get; init; }

    /// <summary>What is wrong, as a sentence.</summary>
    public string Reason { get; init; } = "";

    /// <summary>File, position, length and reason.</summary>
    public override string ToString() => FormattableString.Invariant(
        $"file={File}, position={Position}, length={Length}: {Reason}");

    internal static PackDamage At(VolumeName volume, long position, long length, string reason) =>
        new() { File = volume.Path, Position = position, Length = length, Reason = reason };
}
