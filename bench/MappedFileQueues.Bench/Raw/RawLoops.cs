using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Runtime.Intrinsics.Arm;
using System.Runtime.Intrinsics.X86;

namespace MappedFileQueues.Bench.Raw;

/// <summary>What a figure compares with: both halves of one loop.</summary>
/// <param name="Copy">Writes the messages from 0 on.</param>
/// <param name="Read">Adds up what <paramref name="Copy"/> wrote; 0 when it is not there.</param>
internal sealed record RawSides(RawSides.Copying Copy, RawSides.Reading Read)
{
    public unsafe delegate void Copying(byte* place, ref Message64 message, long count);

    public unsafe delegate ulong Reading(byte* place, long count);

    /// <summary>Without a checksum.</summary>
    public static unsafe RawSides Bare { get; } = new(
        static (place, ref message, count) => RawLoops.Copy(place, ref message, 0, count), RawLoops.Read);

    /// <summary>With the two locked instructions by which several processes can append to one log.</summary>
    public static unsafe RawSides Claiming { get; } = new(RawLoops.ClaimAndCopy, RawLoops.Read);
}

/// <summary>
/// The bare loops, each the twin of one in bench/limits.c: 64 bytes and an 8-byte header a message, and nothing else. They
/// work in pieces of <see cref="ChunkLength"/> messages, so that they run as fully optimised code after the warm-up.
/// </summary>
internal static unsafe class RawLoops
{
    /// <summary>Messages a call: few enough that the warm-up calls each loop often, enough that a call costs nothing.</summary>
    public const int ChunkLength = 1000;

    /// <summary>Messages that <see cref="FollowInBatches"/> waits for.</summary>
    private const int FollowBatch = 64;

    /// <summary>Published, 64 bytes long; the bare loops make no checksum.</summary>
    private const ulong Header = (2UL << 28) | Message64.Length;

    /// <summary>The same, not published yet.</summary>
    private const ulong Claimed = (1UL << 28) | Message64.Length;

    private static readonly bool s_isAlone = Environment.ProcessorCount < 2;

    /// <summary>Copies the messages into a mapping: a release store of the header publishes each.</summary>
    public static void Copy(byte* place, ref Message64 message, long from, long count)
    {
        for (long done = 0; done < count; done += ChunkLength)
        {
            int chunk = (int)Math.Min(ChunkLength, count - done);
            CopyChunk(place + done * Message64.FrameLength, ref message, from + done, chunk);
        }
    }

    /// <summary>As <see cref="Copy"/>, but claims each place by a compare-and-swap and publishes by another.</summary>
    public static void ClaimAndCopy(byte* place, ref Message64 message, long count)
    {
        for (long done = 0; done < count; done += ChunkLength)
        {
            int chunk = (int)Math.Min(ChunkLength, count - done);
            if (!TryClaimAndCopyChunk(place + done * Message64.FrameLength, ref message, done, chunk))
                throw new ToolException($"Another writer has changed a place: message={done}, or one of the next {chunk}.");
        }
    }

    /// <summary>Adds up what <see cref="Copy"/> wrote; 0 at the first frame that is not there.</summary>
    public static ulong Read(byte* place, long count)
    {
        ulong sum = 0;
        for (long done = 0; done < count; done += ChunkLength)
            sum += ReadChunk(place + done * Message64.FrameLength, (int)Math.Min(ChunkLength, count - done));
        return sum;
    }

    /// <summary>The same after a running producer: spins for each frame.</summary>
    public static ulong Follow(byte* place, long count)
    {
        ulong sum = 0;
        for (long done = 0; done < count; done += ChunkLength)
            sum += FollowChunk(place + done * Message64.FrameLength, (int)Math.Min(ChunkLength, count - done));
        return sum;
    }

    /// <summary>
    /// The same in batches: spins until a batch is whole, and leaves the producer's cache lines alone until then. A reader that
    /// spins for each frame takes each line away from the producer that is writing to it, and both together are ten times slower.
    /// </summary>
    public static ulong FollowInBatches(byte* place, long count)
    {
        ulong sum = 0;
        for (long done = 0; done < count; done += FollowBatch)
        {
            int batch = (int)Math.Min(FollowBatch, count - done);
            byte* first = place + done * Message64.FrameLength;
            FollowChunk(first + (batch - 1) * Message64.FrameLength, 1);
            sum += FollowChunk(first, batch);
        }

        return sum;
    }

    /// <summary>Takes each place by fetch-add on a shared tail, so that several processes can write at once.</summary>
    public static void FetchAdd(byte* place, ref long tail, ref Message64 message, long count)
    {
        for (long done = 0; done < count; done += ChunkLength)
            FetchAddChunk(place, ref tail, ref message, done, (int)Math.Min(ChunkLength, count - done));
    }

    /// <summary>One step of a spinning wait. A lone CPU must be given away, or nothing moves for a time slice.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static void Relax()
    {
        if (s_isAlone)
            Thread.Yield();
        else if (X86Base.IsSupported)
            X86Base.Pause();
        else if (ArmBase.IsSupported)
            ArmBase.Yield();
        else
            Thread.SpinWait(1);
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void CopyChunk(byte* place, ref Message64 message, long from, int count)
    {
        for (int i = 0; i < count; i++, place += Message64.FrameLength)
        {
            message.Number = (ulong)(from + i);
            *(Message64*)(place + 8) = message;
            Volatile.Write(ref *(ulong*)place, Header);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static bool TryClaimAndCopyChunk(byte* place, ref Message64 message, long from, int count)
    {
        for (int i = 0; i < count; i++, place += Message64.FrameLength)
        {
            message.Number = (ulong)(from + i);
            // Not from 0: the warm-up writes the same places again and again.
            ulong former = Volatile.Read(ref *(ulong*)place);
            if (Interlocked.CompareExchange(ref *(ulong*)place, Claimed, former) != former)
                return false;
            *(Message64*)(place + 8) = message;
            if (Interlocked.CompareExchange(ref *(ulong*)place, Header, Claimed) != Claimed)
                return false;
        }

        return true;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong ReadChunk(byte* place, int count)
    {
        ulong sum = 0;
        for (int i = 0; i < count; i++, place += Message64.FrameLength)
        {
            if (Volatile.Read(ref *(ulong*)place) != Header)
                return 0;
            sum += ((Message64*)(place + 8))->Sum();
        }

        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static ulong FollowChunk(byte* place, int count)
    {
        ulong sum = 0;
        for (int i = 0; i < count; i++, place += Message64.FrameLength)
        {
            while (Volatile.Read(ref *(ulong*)place) != Header)
                Relax();
            sum += ((Message64*)(place + 8))->Sum();
        }

        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void FetchAddChunk(byte* start, ref long tail, ref Message64 message, long from, int count)
    {
        for (int i = 0; i < count; i++)
        {
            byte* place = start + (Interlocked.Add(ref tail, Message64.FrameLength) - Message64.FrameLength);
            message.Number = (ulong)(from + i);
            *(Message64*)(place + 8) = message;
            Volatile.Write(ref *(ulong*)place, Header);
        }
    }
}
