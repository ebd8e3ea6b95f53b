using System.Runtime.CompilerServices;

namespace MappedFileQueues.Memory;

/// <summary>
/// The only way to read and write words that other threads or processes see. Every use names its pair ("P3 release … pairs with
/// P3 acquire in …"); docs/DESIGN.md, section 9, lists the pairs. x64 forgives a missing release, arm64 does not.
/// </summary>
internal static unsafe class SharedWord
{
    /// <summary>Later loads and stores of this thread see state that is at least as new as this value.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static ulong ReadAcquire(ulong* word) => Volatile.Read(ref *word);

    /// <inheritdoc cref="ReadAcquire(ulong*)"/>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static long ReadAcquire(long* word) => Volatile.Read(ref *word);

    /// <inheritdoc cref="ReadAcquire(ulong*)"/>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static uint ReadAcquire(uint* word) => Volatile.Read(ref *word);

    /// <summary>A thread that acquires this value also sees everything that this thread wrote before.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static void WriteRelease(ulong* word, ulong value) => Volatile.Write(ref *word, value);

    /// <inheritdoc cref="WriteRelease(ulong*, ulong)"/>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static void WriteRelease(long* word, long value) => Volatile.Write(ref *word, value);

    /// <inheritdoc cref="WriteRelease(ulong*, ulong)"/>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static void WriteRelease(uint* word, uint value) => Volatile.Write(ref *word, value);

    /// <summary>Full barrier. True when the word held <paramref name="expected"/> and now holds
    /// <paramref name="value"/>.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static bool CompareExchange(ulong* word, ulong expected, ulong value) =>
        Interlocked.CompareExchange(ref *word, value, expected) == expected;

    /// <summary>As CompareExchange, but returns the previous value, so that a failure needs no second load.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static ulong CompareExchangeValue(ulong* word, ulong expected, ulong value) =>
        Interlocked.CompareExchange(ref *word, value, expected);

    /// <summary>Full barrier. Stores a value and returns the previous one.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static ulong Exchange(ulong* word, ulong value) => Interlocked.Exchange(ref *word, value);

    /// <summary>Full barrier. Adds and returns the new value.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static ulong Add(ulong* word, ulong addend) => Interlocked.Add(ref *word, addend);

    /// <summary>Full barrier when it changes anything. Raises the word to at least <paramref name="value"/>.</summary>
    public static void RaiseTo(long* word, long value) => RaiseTo(ref *word, value);

    /// <summary>The same for a word of this process.</summary>
    public static void RaiseTo(ref long word, long value)
    {
        long seen = Volatile.Read(ref word);
        while (seen < value && Interlocked.CompareExchange(ref word, value, seen) != seen)
            seen = Volatile.Read(ref word);
    }

    /// <summary>Full barrier when it changes anything. The same for a word without a sign.</summary>
    public static void RaiseTo(ulong* word, ulong value)
    {
        ulong seen = ReadAcquire(word);
        while (seen < value && !CompareExchange(word, seen, value))
            seen = ReadAcquire(word);
    }

    /// <summary>Full barrier when it changes anything. Sets the bits.</summary>
    public static void SetBits(ulong* word, ulong bits)
    {
        ulong seen = ReadAcquire(word);
        while ((seen & bits) != bits && !CompareExchange(word, seen, seen | bits))
            seen = ReadAcquire(word);
    }
}
