using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Demo;

/// <summary>
/// Records when each eighth message was sent or received, by the clock that all processes of the machine share. Times that a
/// killed process had not yet written are missing (0) and do not count. If a message is sent or received again, its later time
/// counts.
/// </summary>
internal sealed class MessageTimes(string path) : IDisposable
{
    /// <summary>
    /// Only one in this many messages is timed: reading the clock costs about as much as appending a short message.
    /// </summary>
    private const int SampleInterval = 8;

    private readonly SafeFileHandle _file = File.OpenHandle(path, FileMode.OpenOrCreate, FileAccess.Write);
    private readonly long[] _buffer = new long[512];
    private long _firstSlot;
    private int _count;

    /// <summary>Reads all recorded times; the index in the array times the sample interval is the message's index.</summary>
    public static long[] Load(string path) =>
        File.Exists(path) ? MemoryMarshal.Cast<byte, long>(File.ReadAllBytes(path)).ToArray() : [];

    /// <summary>The slot in the array of the first sampled message at or after a message's index.</summary>
    public static long SlotOf(long messageIndex) => (messageIndex + SampleInterval - 1) / SampleInterval;

    /// <summary>True if the message is timed.</summary>
    public static bool IsSampled(long messageIndex) => messageIndex % SampleInterval == 0;

    /// <summary>Records the time of a sampled message.</summary>
    public void Note(long messageIndex, long timestamp)
    {
        long slot = SlotOf(messageIndex);
        if (_count == _buffer.Length || slot != _firstSlot + _count)
            Drain();
        if (_count == 0)
            _firstSlot = slot;
        _buffer[_count++] = timestamp;
    }

    /// <summary>Writes the rest and closes the file.</summary>
    public void Dispose()
    {
        Drain();
        _file.Dispose();
    }

    private void Drain()
    {
        RandomAccess.Write(_file, MemoryMarshal.AsBytes(_buffer.AsSpan(0, _count)), _firstSlot * sizeof(long));
        _count = 0;
    }
}
