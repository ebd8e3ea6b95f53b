using System.Buffers;
using System.Globalization;
using System.Text;

namespace MappedFileQueues.Hosting;

/// <summary>UTF-8 text that grows; belongs to one thread.</summary>
internal sealed class LineBuffer : IBufferWriter<byte>
{
    private const int CapacityFirst = 1024;
    private const int CharsOnStack = 256;

    /// <summary>The room for values that tell their own length; longer text becomes a string first.</summary>
    private const int FormattedLengthMax = 256;

    private byte[] _bytes = new byte[CapacityFirst];

    /// <summary>The text written so far.</summary>
    public Span<byte> Written => _bytes.AsSpan(0, Length);

    /// <summary>Its length in bytes.</summary>
    public int Length { get; private set; }

    public int Capacity => _bytes.Length;

    public void Clear() => Length = 0;

    /// <summary>Takes back what was written after a position.</summary>
    public void Truncate(int length) => Length = length;

    public void Advance(int count) => Length += count;

    public Memory<byte> GetMemory(int sizeHint = 0)
    {
        MakeRoom(sizeHint);
        return _bytes.AsMemory(Length);
    }

    public Span<byte> GetSpan(int sizeHint = 0)
    {
        MakeRoom(sizeHint);
        return _bytes.AsSpan(Length);
    }

    public void Write(ReadOnlySpan<byte> utf8)
    {
        utf8.CopyTo(GetSpan(utf8.Length));
        Length += utf8.Length;
    }

    public void Write(byte value)
    {
        GetSpan(1)[0] = value;
        Length++;
    }

    public void Write(ReadOnlySpan<char> text) =>
        Length += Encoding.UTF8.GetBytes(text, GetSpan(Encoding.UTF8.GetMaxByteCount(text.Length)));

    /// <summary>Writes a number, a time and the like, as the invariant culture formats it.</summary>
    public void Write<T>(T value, string? format = null)
        where T : IUtf8SpanFormattable, IFormattable
    {
        if (!TryWrite(value, format))
            Write(value.ToString(format, CultureInfo.InvariantCulture));
    }

    /// <summary>The same, unless it is too long.</summary>
    public bool TryWrite<T>(T value, string? format)
        where T : IUtf8SpanFormattable
    {
        Span<byte> room = GetSpan(FormattedLengthMax);
        if (!value.TryFormat(room, out int written, format, CultureInfo.InvariantCulture))
            return false;
        if ((uint)written > (uint)room.Length)
            throw new FormatException("A value reports that it has written more than the room it was given.");
        Length += written;
        return true;
    }

    /// <summary>The same for a value that offers only chars.</summary>
    public void WriteChars(ISpanFormattable value, string? format)
    {
        Span<char> chars = stackalloc char[CharsOnStack];
        if (value.TryFormat(chars, out int written, format, CultureInfo.InvariantCulture))
            Write(chars[..written]);
        else
            Write(value.ToString(format, CultureInfo.InvariantCulture));
    }

    /// <summary>Inserts spaces at a position.</summary>
    public void Pad(int at, int count)
    {
        _ = GetSpan(count);
        _bytes.AsSpan(at, Length - at).CopyTo(_bytes.AsSpan(at + count));
        _bytes.AsSpan(at, count).Fill((byte)' ');
        Length += count;
    }

    private void MakeRoom(int sizeHint)
    {
        int needed = Math.Max(sizeHint, 1);
        if (_bytes.Length - Length < needed)
            Array.Resize(ref _bytes, Math.Max(2 * _bytes.Length, Length + needed));
    }
}
