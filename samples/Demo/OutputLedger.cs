using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Demo;

/// <summary>How far the output had come when the log was consumed up to an offset.</summary>
/// <param name="Offset">The offset that is then committed.</param>
/// <param name="OutputLength">The length of the output that belongs to the messages before it.</param>
/// <param name="MessageCount">How many messages these are.</param>
internal readonly record struct LedgerEntry(long Offset, long OutputLength, long MessageCount);

/// <summary>
/// Makes the output exactly-once although the consumer may be killed at any moment. For each batch it does, in this order: 1.
/// write the lines to the output; 2. write an entry here; 3. commit the offset in the store. A killed process loses nothing that
/// it wrote, because the pages belong to the kernel. So a new consumer finds one of these:
/// killed before 2: the newest entry is that of the committed offset, and the output may be too long;
/// killed between 2 and 3: the entry before the newest is that of the committed offset, and the output is too long;
/// killed after 3: the newest entry is that of the committed offset, and the output has its length.
/// It takes the entry of the committed offset, cuts the output to that length and reads on. Two slots are enough, and the
/// overwritten one is never the one that may be needed.
/// </summary>
internal sealed class OutputLedger : IDisposable
{
    private const int SlotCount = 2;

    private readonly SafeFileHandle _file;
    private readonly LedgerEntry[] _slots = new LedgerEntry[SlotCount];
    private int _newest;

    /// <summary>Opens the ledger, or creates one that holds only the beginning.</summary>
    public OutputLedger(string path)
    {
        _file = File.OpenHandle(path, FileMode.OpenOrCreate, FileAccess.ReadWrite);
        Span<byte> bytes = MemoryMarshal.AsBytes(_slots.AsSpan());
        bytes[RandomAccess.Read(_file, bytes, 0)..].Clear();
        _newest = _slots[0].Offset >= _slots[1].Offset ? 0 : 1;
    }

    /// <summary>The entry of a committed offset: the last one that is not above it.</summary>
    public LedgerEntry Find(long committedOffset)
    {
        LedgerEntry newest = _slots[_newest];
        LedgerEntry older = _slots[1 - _newest];
        if (newest.Offset > committedOffset && older.Offset > committedOffset)
            throw new ToolException($"The committed offset is below both entries of the ledger: offset={committedOffset}.");
        _newest = newest.Offset <= committedOffset ? _newest : 1 - _newest;
        return _slots[_newest];
    }

    /// <summary>
    /// Writes the entry over the older one. Ordinary processes cannot see half of such a small write in one page.
    /// </summary>
    public void Write(LedgerEntry entry)
    {
        _newest = 1 - _newest;
        _slots[_newest] = entry;
        ReadOnlySpan<byte> bytes = MemoryMarshal.AsBytes(_slots.AsSpan(_newest, 1));
        RandomAccess.Write(_file, bytes, (long)_newest * bytes.Length);
    }

    /// <summary>Closes the file.</summary>
    public void Dispose() => _file.Dispose();
}
