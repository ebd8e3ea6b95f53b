using System.Diagnostics;
using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;

namespace MappedFileQueues.Log.Appending;

/// <summary>
/// What a call appends: one message, a batch of messages of one size, or a batch of any lengths; each with a header block or
/// without.
/// </summary>
internal readonly ref struct MessagesToAppend
{
    private readonly ReadOnlySpan<byte> _bytes;
    private readonly int _messageLength;
    private readonly ReadOnlySpan<ReadOnlyMemory<byte>> _list;
    private readonly ReadOnlySpan<byte> _block;

    // Where each message has a block of its own.
    private readonly ReadOnlySpan<MessageHeaders?> _headers;
    private readonly MessageHeaders? _ofAll;
    private readonly MessageNumber _firstNumber;
    private readonly HeaderStamps? _stamps;

    /// <summary>One message, which may be empty.</summary>
    /// <param name="message">The message.</param>
    /// <param name="block">Its header block; empty for none.</param>
    public MessagesToAppend(ReadOnlySpan<byte> message, ReadOnlySpan<byte> block = default)
    {
        _bytes = message;
        _block = block;
        Count = 1;
    }

    /// <summary>A batch of messages of one size. Whoever appends it has checked that it is not empty.</summary>
    /// <param name="messages">The messages.</param>
    /// <param name="messageLength">The length of each; more than 0.</param>
    /// <param name="block">The header block of each.</param>
    public MessagesToAppend(ReadOnlySpan<byte> messages, int messageLength, ReadOnlySpan<byte> block = default)
    {
        _bytes = messages;
        _messageLength = messageLength;
        _block = block;
        Count = messages.Length / messageLength;
    }

    /// <summary>A batch of messages of any lengths. Whoever appends it has checked that it is not empty.</summary>
    public MessagesToAppend(ReadOnlySpan<ReadOnlyMemory<byte>> messages, ReadOnlySpan<byte> block = default)
    {
        _list = messages;
        _block = block;
        Count = messages.Length;
    }

    /// <summary>The same batch with headers of its own for each message, instead of one block for all.</summary>
    public MessagesToAppend(in MessagesToAppend batch, ReadOnlySpan<MessageHeaders?> headers, HeaderStamps stamps)
    {
        this = batch;
        _block = default;
        _headers = headers;
        _stamps = stamps;
    }

    /// <summary>The same batch with a number for each message, instead of one block for all.</summary>
    public MessagesToAppend(
        in MessagesToAppend batch, MessageHeaders? ofAll, MessageNumber firstNumber, HeaderStamps stamps)
    {
        this = batch;
        _block = default;
        _ofAll = ofAll;
        _firstNumber = firstNumber;
        _stamps = stamps;
    }

    /// <summary>The same messages, each with a header block.</summary>
    public MessagesToAppend(in MessagesToAppend messages, ReadOnlySpan<byte> block)
    {
        this = messages;
        _block = block;
    }

    public int Count { get; }

    /// <summary>What they take in the log.</summary>
    public long FramesLength
    {
        get
        {
            long total = (long)_block.Length * Count;
            for (int i = 0; _stamps is not null && i < Count; i++)
                total += FieldsOf(i).BlockLength;
            if (_list.IsEmpty)
                return total + (FrameHeader.FrameLength(_messageLength == 0 ? _bytes.Length : _messageLength) * Count);
            foreach (ReadOnlyMemory<byte> message in _list)
                total += FrameHeader.FrameLength(message.Length);
            return total;
        }
    }

    /// <summary>One of the messages of a batch.</summary>
    public ReadOnlySpan<byte> this[int index] =>
        _list.IsEmpty ? _bytes.Slice(index * _messageLength, _messageLength) : _list[index].Span;

    /// <summary>The header block of one of them; empty for none.</summary>
    /// <param name="index">Which.</param>
    /// <param name="scratch">Room for <see cref="HeaderBlock.LengthMax"/> bytes.</param>
    public ReadOnlySpan<byte> WriteBlock(int index, Span<byte> scratch) =>
        _stamps is null ? _block : FieldsOf(index).Write(scratch);

    /// <summary>The messages from one of a batch on, before they get their blocks.</summary>
    public MessagesToAppend From(int index) => _list.IsEmpty
        ? new MessagesToAppend(_bytes[(index * _messageLength)..], _messageLength, _block)
        : new MessagesToAppend(_list[index..], _block);

    /// <summary>Appends them; returns the first one's offset, or <see cref="LogAppender.Full"/>.</summary>
    public long AppendTo(LogAppender appender)
    {
        if (_messageLength == 0 && _list.IsEmpty)
            return appender.TryAppend(_block, _bytes);
        return _list.IsEmpty && _block.IsEmpty && _stamps is null
            ? appender.AppendBatch(ref MemoryMarshal.GetReference(_bytes), _messageLength, Count)
            : appender.AppendBatch(this);
    }

    /// <summary>Copies them, to append them later; a batch with one block at most.</summary>
    public WaitingMessages Copy()
    {
        Debug.Assert(_stamps is null);
        var copies = new ReadOnlyMemory<byte>[_list.Length];
        for (int i = 0; i < copies.Length; i++)
            copies[i] = _list[i].ToArray();
        return new WaitingMessages(_bytes.ToArray(), _messageLength, copies, _block.ToArray());
    }

    private HeaderFields FieldsOf(int index) =>
        _stamps!.FieldsOf(_headers.IsEmpty ? _ofAll : _headers[index], _firstNumber.Next(index));
}
