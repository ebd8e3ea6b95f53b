using System.Diagnostics;
using System.Runtime.InteropServices;
using MappedFileQueues.Format.Headers;

namespace MappedFileQueues;

/// <summary>
/// What a message carries beside its bytes. All of it is optional. One object may serve any number of messages; do not change it
/// during a call that uses it. Headers are covered by the message's checksum and shorten the longest message by their length.
/// </summary>
public sealed record MessageHeaders
{
    /// <summary>The longest key in bytes.</summary>
    public const int KeyLengthMax = HeaderBlock.KeyLengthMax;

    private ArraySegment<byte> _keyArray;
    private bool _isTraced;

    /// <summary>
    /// When the message was produced, to 100 ns. Null leaves it out, unless <see cref="MappedFileQueueOptions.StampTime"/> fills
    /// it in.
    /// </summary>
    public DateTimeOffset? Time
    {
        get;
        set => (field, TimeUtcTicks) = (value, value?.UtcTicks ?? -1);
    }

    /// <summary>The time's ticks in UTC; negative without one.</summary>
    internal long TimeUtcTicks { get; private set; } = -1;

    /// <summary>
    /// What the message is about, for example a customer's number; empty, the default, for none. The queue gives it no meaning.
    /// </summary>
    /// <exception cref="ArgumentException">Longer than <see cref="KeyLengthMax"/>.</exception>
    public ReadOnlyMemory<byte> Key
    {
        get;
        set
        {
            field = value.Length <= KeyLengthMax ? value : throw new ArgumentException(
                $"The key is too long: length={value.Length}, limit={KeyLengthMax}.", nameof(Key));
            _keyArray = MemoryMarshal.TryGetArray(value, out ArraySegment<byte> array) ? array : default;
        }
    }

    /// <summary>The key. Where it is in an array, in half the time of <see cref="ReadOnlyMemory{T}.Span"/>.</summary>
    internal ReadOnlySpan<byte> KeySpan => _keyArray.Array is null ? Key.Span : _keyArray.AsSpan();

    /// <summary>
    /// The trace that the message belongs to; default for none. A trace state that is longer than 512 characters, or not ASCII,
    /// is left out. What was read is remote.
    /// </summary>
    public ActivityContext TraceContext
    {
        get;
        set => (field, _isTraced) = (value, value.TraceId != default);
    }

    /// <summary>
    /// The producer of a message that is copied from another store; 0 for none. It tells where the message comes from, and takes
    /// no part in the suppression of duplicates.
    /// </summary>
    public ulong ProducerId { get; init; }

    /// <summary>The number that <see cref="ProducerId"/> gave the message.</summary>
    public ulong Sequence { get; init; }

    /// <summary>Whether there is more than a time and a key.</summary>
    internal bool IsCarriedOrTraced => _isTraced || ProducerId != 0;

    /// <summary>Whether all of it is the same; keys are compared by their bytes.</summary>
    /// <param name="other">The other headers.</param>
    /// <returns>Whether they are equal.</returns>
    public bool Equals(MessageHeaders? other) => other is not null && Time == other.Time && Key.Span.SequenceEqual(other.Key.Span)
        && TraceContext == other.TraceContext && ProducerId == other.ProducerId && Sequence == other.Sequence;

    /// <inheritdoc/>
    public override int GetHashCode() => HashCode.Combine(Time, TraceContext, ProducerId, Sequence, Key.Length);
}
