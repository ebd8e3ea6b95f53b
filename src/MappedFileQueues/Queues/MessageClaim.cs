using MappedFileQueues.Format;
using MappedFileQueues.Log.Appending;

namespace MappedFileQueues;

/// <summary>A reserved message in the mapping. Publish it, or dispose it to abandon it, on the thread that opened it.</summary>
public unsafe ref struct MessageClaim
{
    private readonly ProducerCore _core;
    private readonly int _number;
    private AppendLane? _lane;

    internal MessageClaim(ProducerCore core, int lengthMax)
    {
        _core = core;
        // Its publish will wait for the flush, and this thread must not do that beside a claim of its own.
        if (core.HasFlushes)
            core.ThrowIfOwnClaimIsOpen();
        _lane = core.Appender.Claim(lengthMax);
        _number = _lane.ClaimNumber;
        Span = new Span<byte>(_lane.Next + FrameHeader.Size, lengthMax);
    }

    /// <summary>Where the message goes. Not to be used after Publish or Dispose.</summary>
    public Span<byte> Span { get; private set; }

    /// <summary>Makes the first <paramref name="length"/> bytes a message; returns its offset.</summary>
    /// <param name="length">At most what was claimed.</param>
    /// <returns>The message's offset.</returns>
    /// <exception cref="InvalidOperationException">It was published or abandoned before.</exception>
    /// <exception cref="ProducerFencedException">The claim was taken away; nothing was appended.</exception>
    public long Publish(int length)
    {
        AppendLane lane = _lane ?? throw Ended();
        ArgumentOutOfRangeException.ThrowIfNegative(length);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(length, Span.Length);
        _lane = null;
        Span = default;
        if (!lane.TryEndClaim(_number))
            throw lane.IsFenced ? Fenced() : Ended();
        long offset = _core.Appender.PublishClaim(lane, length);
        if (!_core.HasFlushes)
            return offset;
        _core.Confirm(offset + FrameHeader.FrameLength(length), 1);
        return offset;
    }

    /// <summary>Abandons the claim unless it was published: nobody reads anything of it.</summary>
    public void Dispose()
    {
        AppendLane? lane = _lane;
        _lane = null;
        Span = default;
        // False for a copy of a claim that has ended, and for one that was fenced.
        if (lane is not null && lane.TryEndClaim(_number))
            _core.Appender.AbandonClaim(lane);
    }

    private static InvalidOperationException Ended() => new("This claim was published or abandoned already.");

    private static ProducerFencedException Fenced() =>
        new("The producer was disposed while this claim was open; the message was not published. "
            + "Open a new producer and produce the message again.");
}
