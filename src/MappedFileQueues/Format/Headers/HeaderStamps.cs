using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Format.Headers;

/// <summary>
/// What a queue adds to the headers of the messages that it produces. Any thread. The system's clock is read once for each tick
/// of <see cref="Environment.TickCount64"/>, some milliseconds, which is a third of the cost.
/// </summary>
internal sealed class HeaderStamps(bool time, bool traceContext, TimeProvider clock)
{
    private readonly bool _isSystemClock = clock == TimeProvider.System;
    private long _tick = long.MinValue;
    private long _ticksUtc;

    /// <summary>Whether messages get a header block that their caller did not give.</summary>
    public bool StampsAny => time || traceContext;

    /// <summary>The fields of a message's block.</summary>
    public HeaderFields FieldsOf(MessageHeaders? headers, MessageNumber number = default) => new(
        headers,
        time && headers?.Time is null ? new DateTimeOffset(NowTicks(), TimeSpan.Zero) : null,
        traceContext && Activity.Current is { } activity ? activity.Context : default,
        number);

    /// <summary>Writes a message's block; empty when there is none.</summary>
    /// <param name="headers">What the caller gave.</param>
    /// <param name="number">Of a producer with an id.</param>
    /// <param name="scratch">Room for <see cref="HeaderBlock.LengthMax"/> bytes.</param>
    public ReadOnlySpan<byte> Write(MessageHeaders? headers, MessageNumber number, Span<byte> scratch) =>
        FieldsOf(headers, number).Write(scratch);

    /// <summary>
    /// Writes a block of a time, a number and a short key, which is what most messages have, in a quarter of the time of
    /// <see cref="Write"/>. Returns its length, 0 when there is none, or a negative number when it has more than that.
    /// </summary>
    /// <param name="headers">What the caller gave.</param>
    /// <param name="number">Of a producer with an id.</param>
    /// <param name="block">Where it goes.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public int TryWrite(MessageHeaders? headers, MessageNumber number, ref SmallHeaderBlock block)
    {
        ref ulong words = ref block.First;
        HeaderField fields = HeaderField.None;
        int at = 1;
        long ticks = -1;
        ReadOnlySpan<byte> key = default;
        if (traceContext)
            return -1;
        if (headers is not null)
        {
            // Read once: somebody may change the headers meanwhile.
            key = headers.KeySpan;
            if (headers.IsCarriedOrTraced || key.Length > SmallHeaderBlock.KeyLengthMax)
                return -1;
            ticks = headers.TimeUtcTicks;
        }

        if (time && ticks < 0)
            ticks = NowTicks();
        if (ticks >= 0)
        {
            fields = HeaderField.Time;
            Unsafe.Add(ref words, at++) = (ulong)(ticks - DateTimeOffset.UnixEpoch.Ticks);
        }

        if (number.ProducerId != 0)
        {
            fields |= HeaderField.Producer;
            Unsafe.Add(ref words, at++) = number.ProducerId;
            Unsafe.Add(ref words, at++) = number.Sequence;
        }

        if (!key.IsEmpty)
        {
            fields |= HeaderField.Key;
            at += CopyKey(key, ref Unsafe.Add(ref words, at));
        }

        if (fields == HeaderField.None)
            return 0;
        words = HeaderBlock.FirstWord(at * sizeof(ulong), fields, key.Length, 0);
        return at * sizeof(ulong);
    }

    /// <summary>Copies a key, filled up with zeros; returns the number of words.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private static int CopyKey(ReadOnlySpan<byte> key, ref ulong words)
    {
        if (key.Length == sizeof(ulong))
        {
            words = MemoryMarshal.Read<ulong>(key);
            return 1;
        }

        int count = HeaderBlock.Padded(key.Length) / sizeof(ulong);
        Unsafe.Add(ref words, count - 1) = 0;
        key.CopyTo(MemoryMarshal.AsBytes(MemoryMarshal.CreateSpan(ref words, count)));
        return count;
    }

    private long NowTicks()
    {
        if (!_isSystemClock)
            return clock.GetUtcNow().UtcTicks;
        long tick = Environment.TickCount64;
        if (Volatile.Read(ref _tick) != tick)
        {
            Volatile.Write(ref _ticksUtc, clock.GetUtcNow().UtcTicks);
            Volatile.Write(ref _tick, tick);
        }

        return Volatile.Read(ref _ticksUtc);
    }
}
