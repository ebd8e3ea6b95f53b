namespace MappedFileQueues.Tool;

/// <summary>
/// Reads lines, or stretches of a known length, without decoding them. It takes what is there and waits for more
/// only when it has to: a pipe may bring a line now and the next one in an hour. A span is valid until the next call.
/// </summary>
internal sealed class InputReader(Func<byte[], int, int, int> source, string name, int lineLengthMax)
{
    private const int BufferLengthStart = 128 * 1024;

    private byte[] _buffer = new byte[BufferLengthStart];
    private int _start;
    private int _end;
    private bool _ended;
    private long _lineNumber;

    /// <summary>
    /// Reads the next line, without its \n; false at the end. Only \n ends a line, \r stays, a last line needs no \n, and an
    /// empty line is a line.
    /// </summary>
    public bool TryReadLine(out ReadOnlySpan<byte> line)
    {
        // Bytes that were searched before more came are not searched again; otherwise a long line would cost its length squared.
        int searched = 0;
        while (true)
        {
            ReadOnlySpan<byte> rest = _buffer.AsSpan(_start.._end);
            int newline = rest[searched..].IndexOf((byte)'\n');
            if (newline >= 0)
                return Take(searched + newline, 1, out line);

            searched = rest.Length;
            if (searched > lineLengthMax)
                throw TooLong($"more than {searched}");
            if (!_ended)
                Fill();
            else if (searched > 0)
                return Take(searched, 0, out line);
            else
            {
                line = default;
                return false;
            }
        }
    }

    /// <summary>The next bytes, which stay to be read; fewer only at the end.</summary>
    public ReadOnlySpan<byte> Peek(int count)
    {
        while (_end - _start < count && !_ended)
            Fill();
        return _buffer.AsSpan(_start, Math.Min(count, _end - _start));
    }

    /// <summary>Reads the next bytes; fewer only at the end.</summary>
    public ReadOnlySpan<byte> Read(int count)
    {
        ReadOnlySpan<byte> bytes = Peek(count);
        _start += bytes.Length;
        return bytes;
    }

    private bool Take(int length, int newlineLength, out ReadOnlySpan<byte> line)
    {
        _lineNumber++;
        if (length > lineLengthMax)
            throw TooLong($"{length}");
        line = _buffer.AsSpan(_start, length);
        _start += length + newlineLength;
        return true;
    }

    /// <summary>Reads more bytes after the unfinished ones, which move to the buffer's front or to a larger buffer.</summary>
    private void Fill()
    {
        int begun = _end - _start;
        byte[] target = begun <= _buffer.Length / 2 || (_buffer.Length == Array.MaxLength && begun < _buffer.Length)
            ? _buffer
            : new byte[Math.Min((long)_buffer.Length * 2, Array.MaxLength)];
        if (_start > 0 || target != _buffer)
            Buffer.BlockCopy(_buffer, _start, target, 0, begun);
        _buffer = target;
        _start = 0;
        _end = begun;

        int count = source(_buffer, begun, _buffer.Length - begun);
        _ended = count == 0;
        _end += count;
    }

    private ToolException TooLong(string length) => new(
        $"Line too long for a message: length={length}, limit={lineLengthMax}, line={_lineNumber + 1}, file={name}. Split it.");
}
