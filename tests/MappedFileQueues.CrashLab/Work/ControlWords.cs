using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.Format;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>What the control page promises to every process.</summary>
/// <param name="Confirmed">All before it is on disk.</param>
/// <param name="LowWater">All before it was removed, or is about to be.</param>
internal readonly record struct ControlWords(long Confirmed, long LowWater)
{
    public static ControlWords Of(SimDisk disk) => disk.Find(StoreNames.Control) is { } control ? Of(control.Content) : default;

    public static ControlWords Of(ReadOnlySpan<byte> control) =>
        new(Word(control, ControlLayout.ConfirmedAt), Word(control, ControlLayout.LowWaterAt));

    private static long Word(ReadOnlySpan<byte> control, int at) =>
        control.Length < at + sizeof(long) ? 0 : BitConverter.ToInt64(control[at..]);
}
