namespace MappedFileQueues.Packs;

/// <summary>A part of a file that is not what was written there.</summary>
/// <param name="File">The file, relative to the pack's directory.</param>
/// <param name="Position">Where the damage begins, in bytes.</param>
/// <param name="Length">How many bytes were passed over; 0 when the file is missing or too short.</param>
/// <param name="Reason">What is wrong, as a sentence.</param>
public sealed record PackDamage(string File, long Position, long Length, string Reason);
