namespace MappedFileQueues.Hosting.Consumers;

/// <summary>Copies of messages, one after the other, in memory that is used again.</summary>
internal sealed class ByteBuffer
{
    /// <summary>A batch ends with the message that reaches this length.</summary>
    private const int BatchBytes = 1 << 20;

    private readonly List<int> _ends = [];
    private byte[] _bytes = new byte[4096];
    private int _length;

    public bool IsFull => _length >= BatchBytes;

    public int Count => _ends.Count;

    public void Clear()
    {
        _ends.Clear();
        _length = 0;
    }

    public void Append(ReadOnlySpan<byte> message)
    {
        int end = checked(_length + message.Length);
        if (end > _bytes.Length)
            Array.Resize(ref _bytes, (int)Math.Min(Array.MaxLength, Math.Max(end, 2L * _bytes.Length)));
        message.CopyTo(_bytes.AsSpan(_length));
        _length = end;
        _ends.Add(end);
    }

    /// <summary>The messages, valid until the next call.</summary>
    public void CopyTo(Span<ReadOnlyMemory<byte>> messages)
    {
        for (int i = 0; i < _ends.Count; i++)
        {
            int start = i == 0 ? 0 : _ends[i - 1];
            messages[i] = _bytes.AsMemory(start, _ends[i] - start);
        }
    }
}
