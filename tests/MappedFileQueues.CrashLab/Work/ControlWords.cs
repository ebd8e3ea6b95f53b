using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.Format;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>What the control page promises to every process.</summary>
/// <param name="Confirmed">All before it is on disk.</param>
/// <param name="LogStart">All before it was removed, or is about to be.</param>
/// <param name="RecoveredIn">The boot in which the last recovery ended; empty while one is under way.</param>
/// <param name="Epoch">Of the offsets.</param>
internal readonly record struct ControlWords(long Confirmed, long LogStart, Guid RecoveredIn, long Epoch)
{
    public static ControlWords Of(SimDisk disk) => disk.Find(StoreNames.Control) is { } control ? Of(control.Content) : default;

    public static ControlWords Of(ReadOnlySpan<byte> control) =>
        new(Word(control, ControlLayout.DurableAt), Word(control, ControlLayout.LogStartAt), RecoveryOf(control),
            Word(control, ControlLayout.EpochAt));

    private static Guid RecoveryOf(ReadOnlySpan<byte> control) =>
        Word(control, ControlLayout.RecoveryStageAt) == (long)RecoveryStage.Finished
            ? new Guid(control.Slice(ControlLayout.BootIdAt, 16))
            : Guid.Empty;

    private static long Word(ReadOnlySpan<byte> control, int at) =>
        control.Length < at + sizeof(long) ? 0 : BitConverter.ToInt64(control[at..]);
}
