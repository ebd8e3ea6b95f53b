namespace MappedFileQueues.Demo;

/// <summary>
/// All bytes of a plan, each line with its \n: the files one after the other, round after round. A small round is kept in memory,
/// because a file of a few bytes is repeated a million times.
/// </summary>
internal sealed class InputStream : Stream
{
    private const int RoundLengthKeptMax = 16 * 1024 * 1024;

    private readonly InputPlan _plan;
    private readonly byte[]? _round;
    private FileStream? _file;
    private long _fileLeft;
    private bool _needsNewline;
    private int _nextFile;
    private int _roundsDone;
    private int _roundPosition;

    /// <summary>Begins with the first byte of the first file.</summary>
    public InputStream(InputPlan plan)
    {
        _plan = plan;
        long length = plan.TotalLength / plan.Rounds;
        if (length > RoundLengthKeptMax)
            return;

        _round = new byte[length];
        for (int count = 0; count < _round.Length;)
            count += ReadFiles(_round.AsSpan(count));
    }

    public override bool CanRead => true;

    public override bool CanSeek => false;

    public override bool CanWrite => false;

    public override long Length => _plan.TotalLength;

    public override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    public override int Read(Span<byte> buffer) => _round is null ? ReadFiles(buffer) : ReadRounds(_round, buffer);

    public override int Read(byte[] buffer, int offset, int count) => Read(buffer.AsSpan(offset, count));

    public override void Flush()
    {
    }

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    protected override void Dispose(bool disposing)
    {
        _file?.Dispose();
        base.Dispose(disposing);
    }

    private int ReadRounds(byte[] round, Span<byte> buffer)
    {
        int count = 0;
        while (count < buffer.Length && _roundsDone < _plan.Rounds)
        {
            int length = Math.Min(buffer.Length - count, round.Length - _roundPosition);
            round.AsSpan(_roundPosition, length).CopyTo(buffer[count..]);
            count += length;
            _roundPosition += length;
            if (_roundPosition == round.Length)
                (_roundPosition, _roundsDone) = (0, _roundsDone + 1);
        }

        return count;
    }

    private int ReadFiles(Span<byte> buffer)
    {
        while (_fileLeft == 0 && !_needsNewline)
        {
            if (!OpenNext())
                return 0;
        }

        if (_fileLeft == 0)
        {
            buffer[0] = (byte)'\n';
            _needsNewline = false;
            return 1;
        }

        int count = _file!.Read(buffer[..(int)Math.Min(buffer.Length, _fileLeft)]);
        if (count == 0)
        {
            throw new ToolException(
                $"The input became shorter while it was sent: path={_file.Name}, missing={_fileLeft}. Use a copy of it.");
        }

        _fileLeft -= count;
        return count;
    }

    private bool OpenNext()
    {
        _file?.Dispose();
        _file = null;
        if (_nextFile == _plan.Files.Count)
            (_nextFile, _roundsDone) = (0, _roundsDone + 1);
        if (_roundsDone == _plan.Rounds)
            return false;

        InputFile next = _plan.Files[_nextFile++];
        _file = new FileStream(next.Path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete, bufferSize: 0);
        (_fileLeft, _needsNewline) = (next.Length, !next.EndsWithNewline);
        return true;
    }
}
