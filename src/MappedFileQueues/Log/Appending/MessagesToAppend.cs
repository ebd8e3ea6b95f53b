using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;

namespace MappedFileQueues.Log.Appending;

/// <summary>What a call appends: one message, a batch of messages of one size, or a batch of any lengths.</summary>
internal readonly ref struct MessagesToAppend
{
    private readonly ReadOnlySpan<byte> _bytes;
    private readonly int _messageLength;
    private readonly ReadOnlySpan<ReadOnlyMemory<byte>> _list;

    /// <summary>One message, which may be empty.</summary>
    public MessagesToAppend(ReadOnlySpan<byte> message)
    {
        _bytes = message;
        Count = 1;
    }

    /// <summary>A batch of messages of one size; at least one.</summary>
    public MessagesToAppend(ReadOnlySpan<byte> messages, int messageLength)
    {
        _bytes = messages;
        _messageLength = messageLength;
        Count = messages.Length / messageLength;
    }

    /// <summary>A batch of messages of any lengths; at least one.</summary>
    public MessagesToAppend(ReadOnlySpan<ReadOnlyMemory<byte>> messages)
    {
        _list = messages;
        Count = messages.Length;
    }

    public int Count { get; }

    /// <summary>What they take in the log.</summary>
    public long FramesLength => !_list.IsEmpty
        ? FrameHeader.BatchLength(_list)
        : FrameHeader.FrameLength(_messageLength == 0 ? _bytes.Length : _messageLength) * Count;

    /// <summary>Appends them; returns the first one's offset, or <see cref="LogAppender.Full"/>.</summary>
    public long AppendTo(LogAppender appender)
    {
        if (!_list.IsEmpty)
            return appender.AppendBatch(_list);
        ref byte first = ref MemoryMarshal.GetReference(_bytes);
        return _messageLength == 0
            ? appender.TryAppend(ref first, _bytes.Length)
            : appender.AppendBatch(ref first, _messageLength, Count);
    }

    /// <summary>Copies them, to append them later.</summary>
    public WaitingMessages Copy()
    {
        var copies = new ReadOnlyMemory<byte>[_list.Length];
        for (int i = 0; i < copies.Length; i++)
            copies[i] = _list[i].ToArray();
        return new WaitingMessages(_bytes.ToArray(), _messageLength, copies);
    }
}
