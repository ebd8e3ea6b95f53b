using System.Buffers.Binary;

namespace MappedFileQueues.Platform;

/// <summary>
/// Identifies a boot of Windows, which gives its boots no id: by the time at which the machine was started, as its counters tell
/// it, and by the system's own count of boots. In files it takes the place of the boot id:
/// <code>
///  0 4 "boot"   4 4 the count of boots, 0 where it is unknown   8 8 when it started: milliseconds from the year 1, UTC
/// </code>
/// Both must fit. The count may repeat: a power loss takes it back if it was not flushed yet. The time may repeat on a machine
/// whose clock does not survive, which starts each time at the same moment. What else goes wrong makes one boot look like two,
/// and costs a recovery as after a power loss: a clock that was set or drifted, and .NET 11, which does not count sleep, beside
/// .NET 10, which does.
/// </summary>
/// <param name="Count">The count of boots.</param>
/// <param name="Start">When the machine was started.</param>
internal readonly record struct BootMoment(uint Count, long Start)
{
    /// <summary>
    /// How far two readings of one boot may be apart: the counters move in steps of 16 ms, and time services correct clocks. Two
    /// boots are not so close: the machine would have to start, to write into the store, to lose its power and to start again.
    /// </summary>
    public static readonly TimeSpan Tolerance = TimeSpan.FromSeconds(5);

    private const uint Tag = 0x746f_6f62;

    /// <summary>As files hold it.</summary>
    public Guid Stored
    {
        get
        {
            Span<byte> bytes = stackalloc byte[16];
            BinaryPrimitives.WriteUInt32LittleEndian(bytes, Tag);
            BinaryPrimitives.WriteUInt32LittleEndian(bytes[4..], Count);
            BinaryPrimitives.WriteInt64LittleEndian(bytes[8..], Start);
            return new Guid(bytes);
        }
    }

    /// <summary>The boot of a system whose clock and whose counter since the start say this.</summary>
    public static BootMoment Of(uint count, DateTime now, long millisecondsSinceStart) =>
        new(count, (now.Ticks / TimeSpan.TicksPerMillisecond) - millisecondsSinceStart);

    /// <summary>Takes a stored identity apart; null when it is of another kind.</summary>
    public static BootMoment? TryParse(Guid stored)
    {
        Span<byte> bytes = stackalloc byte[16];
        stored.TryWriteBytes(bytes);
        return BinaryPrimitives.ReadUInt32LittleEndian(bytes) == Tag
            ? new(BinaryPrimitives.ReadUInt32LittleEndian(bytes[4..]), BinaryPrimitives.ReadInt64LittleEndian(bytes[8..]))
            : null;
    }

    /// <summary>Whether both can be of one boot. What files hold may be anything.</summary>
    public bool IsSameAs(BootMoment other) =>
        Count == other.Count && Math.Abs((double)Start - other.Start) <= Tolerance.TotalMilliseconds;
}
