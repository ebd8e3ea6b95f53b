using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.Format;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>What the control page promises to every process: all before it is on disk.</summary>
internal static class Confirmed
{
    public static long In(SimDisk disk) => disk.Find(StoreNames.Control) is { } control ? In(control.Content) : 0;

    public static long In(ReadOnlySpan<byte> control) => control.Length < ControlLayout.ConfirmedAt + 8
        ? 0
        : BitConverter.ToInt64(control[ControlLayout.ConfirmedAt..]);
}
