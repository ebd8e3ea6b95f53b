using System.Diagnostics.CodeAnalysis;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Format.Headers;

/// <summary>Room for the header block of a time, a number and a key of at most four words.</summary>
[StructLayout(LayoutKind.Sequential,
    Size = HeaderBlock.WordLength + HeaderBlock.TimeLength + HeaderBlock.ProducerLength + KeyLengthMax)]
internal struct SmallHeaderBlock
{
    /// <summary>The longest key in bytes.</summary>
    public const int KeyLengthMax = 32;

    private ulong _first;

    [UnscopedRef]
    public ref ulong First => ref _first;

    /// <summary>Makes it the block of a message that has a number alone; returns its length.</summary>
    public int SetNumber(MessageNumber number)
    {
        const int length = HeaderBlock.WordLength + HeaderBlock.ProducerLength;
        _first = HeaderBlock.FirstWord(length, HeaderField.Producer, 0, 0);
        Unsafe.Add(ref _first, 1) = number.ProducerId;
        Unsafe.Add(ref _first, 2) = number.Sequence;
        return length;
    }

    /// <summary>What was written.</summary>
    [UnscopedRef]
    public ReadOnlySpan<byte> Bytes(int length) =>
        MemoryMarshal.CreateReadOnlySpan(ref Unsafe.As<ulong, byte>(ref _first), length);
}
