using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Bench.Measuring;

/// <summary>
/// The message of every figure: 64 bytes. Its first word is the message's number, written just before the message is sent, as by
/// a program that fills a message in. The copy then has to wait for that store, which the raw loop pays for as well.
/// </summary>
[StructLayout(LayoutKind.Sequential)]
internal struct Message64
{
    public const int Length = 64;

    /// <summary>The length of its frame: header and payload, and no padding.</summary>
    public const int FrameLength = 8 + Length;

    public ulong Number;
    private ulong _word1;
    private ulong _word2;
    private ulong _word3;
    private ulong _word4;
    private ulong _word5;
    private ulong _word6;
    private ulong _word7;

    /// <summary>A message whose constant words are the same in every process.</summary>
    public static Message64 Create() => new()
    {
        _word1 = Word(1),
        _word2 = Word(2),
        _word3 = Word(3),
        _word4 = Word(4),
        _word5 = Word(5),
        _word6 = Word(6),
        _word7 = Word(7),
    };

    /// <summary>The sum over the messages 0 to <paramref name="count"/> - 1.</summary>
    public static ulong ExpectedSum(long count) => (ulong)count * Create().Sum() + (ulong)count * (ulong)(count - 1) / 2;

    /// <summary>The sum of all eight words, with wrap-around.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public readonly ulong Sum() => Number + _word1 + _word2 + _word3 + _word4 + _word5 + _word6 + _word7;

    private static ulong Word(int index) => unchecked((ulong)index * 0x9E3779B97F4A7C15UL);
}
