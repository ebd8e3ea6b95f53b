using System.Runtime.CompilerServices;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Log.Appending;
using MappedFileQueues.Threads;

namespace MappedFileQueues;

/// <summary>A reserved message in the mapping. Publish it, or dispose it to abandon it, on the thread that opened it.</summary>
public unsafe ref struct MessageClaim
{
    private readonly ProducerCore _core;
    private readonly int _number;
    private AppendLane? _lane;

    [SkipLocalsInit]
    internal MessageClaim(ProducerCore core, int lengthMax, MessageHeaders? headers, CallDeadline deadline)
    {
        _core = core;
        Span<byte> scratch = stackalloc byte[HeaderBlock.LengthMax];
        ReadOnlySpan<byte> block = core.WriteBlock(headers, scratch);
        // Publish will wait for the flush, and a thread that holds another claim must not do that.
        if (core.HasFlushes)
            core.ThrowIfOwnClaimIsOpen();
        _lane = core.Claim((int)Math.Min((long)block.Length + lengthMax, int.MaxValue), deadline);
        _number = _lane.ClaimNumber;
        _lane.BlockLength = block.Length;
        byte* at = _lane.Next + FrameHeader.Size;
        block.CopyTo(new Span<byte>(at, block.Length));
        Span = new Span<byte>(at + block.Length, lengthMax);
    }

    /// <summary>The bytes of the message. Do not use the span after Publish or Dispose.</summary>
    public Span<byte> Span { get; private set; }

    /// <summary>Publishes the first <paramref name="length"/> bytes as a message and returns its offset.</summary>
    /// <param name="length">At most the claimed length.</param>
    /// <returns>The message's offset.</returns>
    /// <exception cref="InvalidOperationException">The claim was published or abandoned before.</exception>
    /// <exception cref="ProducerFencedException">The claim was taken away; nothing was appended.</exception>
    public long Publish(int length)
    {
        long offset = PublishUnconfirmed(length, out long end);
        if (_core.HasFlushes)
            _core.Confirm(end, 1);
        return offset;
    }

    /// <summary>As <see cref="Publish"/>, without the flush that may be due; <paramref name="end"/> is the frame's.</summary>
    internal long PublishUnconfirmed(int length, out long end)
    {
        AppendLane lane = _lane ?? throw Ended();
        ArgumentOutOfRangeException.ThrowIfNegative(length);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(length, Span.Length);
        _lane = null;
        Span = default;
        if (!lane.TryEndClaim(_number))
            throw lane.IsFenced ? Fenced() : Ended();
        end = lane.Offset + FrameHeader.FrameLength(length) + lane.BlockLength;
        return _core.Appender.PublishClaim(lane, length);
    }

    /// <summary>Abandons the claim unless it was published. No reader sees anything of it.</summary>
    public void Dispose()
    {
        AppendLane? lane = _lane;
        _lane = null;
        Span = default;
        // False for a copy of an ended claim and for a fenced claim.
        if (lane is not null && lane.TryEndClaim(_number))
            _core.Appender.AbandonClaim(lane);
    }

    private static InvalidOperationException Ended() => new("This claim was published or abandoned already.");

    private static ProducerFencedException Fenced() =>
        new("The producer was disposed while this claim was open; the message was not published. "
            + "Open a new producer and produce the message again.");
}
