using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Bench.Raw;

/// <summary>
/// A bare log over four files of segment length that are used again and again. A thread beside the writer zeroes them in windows
/// ahead of it, as a queue does that recycles its segments. Everything is touched before the first message.
/// </summary>
internal sealed unsafe class RawRecycledLog : IDisposable
{
    private const int FileCount = 4;
    private const long WindowLength = 1 << 20;
    private const long Ahead = 8L << 20;
    private const long StepLength = 256 << 10;

    private static readonly long s_framesPerFile = RawRollingLog.SegmentLength / Message64.FrameLength;

    private readonly RawFile[] _files;
    private readonly Thread _helper;
    private long _ready;
    private long _written;
    private bool _ends;

    public RawRecycledLog(string directory)
    {
        _files = [.. Enumerable.Range(0, FileCount).Select(i =>
            RawFile.Create(Path.Combine(directory, $"raw-{i}"), RawRollingLog.SegmentLength, allocates: true).TouchForWriting())];
        _helper = new Thread(Zero) { IsBackground = true, Name = "raw zeroing" };
        _helper.Start();
    }

    /// <summary>Writes the messages; call it once.</summary>
    public void Append(ref Message64 message, long count)
    {
        long step = StepLength / Message64.FrameLength;
        for (long number = 0; number < count;)
        {
            long place = number % s_framesPerFile;
            int length = (int)Math.Min(Math.Min(step, count - number), s_framesPerFile - place);
            Enter(number, length);
            RawLoops.Copy(AddressOf(number), ref message, number, length);
            Volatile.Write(ref _written, PositionOf(number) + (length * Message64.FrameLength));
            number += length;
        }
    }

    /// <summary>The same, and tells the ticks that each message took, with the waits for the helper. In order.</summary>
    public void Append(ref Message64 message, long[] took)
    {
        for (long number = 0; number < took.Length; number++)
        {
            long start = Clock.Now;
            Enter(number, 1);
            RawLoops.Copy(AddressOf(number), ref message, number, 1);
            Volatile.Write(ref _written, PositionOf(number) + Message64.FrameLength);
            took[number] = Clock.Now - start;
        }
    }

    /// <summary>Checks what is still there after the last message.</summary>
    public void Check(long count)
    {
        // The helper may have zeroed some of the oldest file, which is the next one.
        long first = Math.Max(0, ((count - 1) / s_framesPerFile) - FileCount + 2) * s_framesPerFile;
        ulong sum = 0;
        for (long number = first; number < count; number += s_framesPerFile)
            sum += RawLoops.Read(AddressOf(number), Math.Min(s_framesPerFile, count - number));
        Sums.Check("raw recycled log", sum, Message64.ExpectedSum(count) - Message64.ExpectedSum(first));
    }

    public void Dispose()
    {
        Volatile.Write(ref _ends, true);
        _helper.Join();
        foreach (RawFile file in _files)
            file.Dispose();
    }

    private static long PositionOf(long number) =>
        (number / s_framesPerFile * RawRollingLog.SegmentLength) + (number % s_framesPerFile * Message64.FrameLength);

    private byte* AddressOf(long number) =>
        _files[number / s_framesPerFile % FileCount].Start + (number % s_framesPerFile * Message64.FrameLength);

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private void Enter(long number, int count)
    {
        long end = PositionOf(number) + (count * Message64.FrameLength);
        while (Volatile.Read(ref _ready) < end)
            RawLoops.Relax();
    }

    private void Zero()
    {
        for (long position = 0; ; position += WindowLength)
        {
            while (position + WindowLength - Volatile.Read(ref _written) > Ahead)
            {
                if (Volatile.Read(ref _ends))
                    return;
                Thread.Sleep(0);
            }

            byte* file = _files[position / RawRollingLog.SegmentLength % FileCount].Start;
            NativeMemory.Clear(file + (position % RawRollingLog.SegmentLength), (nuint)WindowLength);
            Volatile.Write(ref _ready, position + WindowLength);
        }
    }
}
