using MappedFileQueues.Packs.Format;

namespace MappedFileQueues.Packs;

/// <summary>A part of a file that is not what was written there.</summary>
public sealed class PackDamage
{
    /// <summary>The file, relative to the pack's directory.</summary>
    public string File { get; init; } = "";

    /// <summary>Where the damage begins, in bytes.</summary>
    public long Position { get; init; }

    /// <summary>How many bytes were passed over; 0 when the file is missing or too short.</summary>
    public long Length { get; init; }

    /// <summary>What is wrong, as a sentence.</summary>
    public string Reason { get; init; } = "";

    /// <summary>File, position, length and reason.</summary>
    public override string ToString() => FormattableString.Invariant(
        $"file={File}, position={Position}, length={Length}: {Reason}");

    internal static PackDamage At(VolumeName volume, long position, long length, string reason) =>
        new() { File = volume.Path, Position = position, Length = length, Reason = reason };
}
