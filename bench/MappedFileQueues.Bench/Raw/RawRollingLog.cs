using MappedFileQueues.Bench.Measuring;

namespace MappedFileQueues.Bench.Raw;

/// <summary>
/// A bare log over a row of files of segment length. A thread beside the writer makes the files, allocates their blocks and
/// touches their pages a few mebibytes ahead, as a queue's preparer does, so that both disturb their writer alike.
/// `_prepared` is written by the preparer (release) and read by the writer (acquire); `_written` the other way round.
/// </summary>
internal sealed class RawRollingLog : IDisposable
{
    public const long SegmentLength = 64L << 20;

    private const long StepLength = 1 << 20;
    private const long Ahead = 8L << 20;

    private readonly RawFile?[] _files;
    private readonly string _directory;
    private readonly Thread _preparer;
    private long _prepared;
    private long _written;
    private Exception? _failure;
    private bool _ends;

    public RawRollingLog(string directory, long count)
    {
        _directory = directory;
        _files = new RawFile?[count / FramesPerSegment + 1];
        _preparer = new Thread(Prepare) { IsBackground = true, Name = "raw preparer" };
        _preparer.Start();
    }

    private static long FramesPerSegment => SegmentLength / Message64.FrameLength;

    /// <summary>
    /// Writes the messages from a number on and tells the ticks that each took, with the waits for the preparer.
    /// </summary>
    public unsafe void Append(ref Message64 message, long[] took, long from = 0)
    {
        long number = from;
        long end = from + took.Length;
        for (int index = (int)(from / FramesPerSegment); number < end; index++)
        {
            long first = index * FramesPerSegment;
            long last = Math.Min(end, first + FramesPerSegment);
            byte* place = null;
            for (long position = (number - first) * Message64.FrameLength; number < last;
                number++, position += Message64.FrameLength)
            {
                long start = Clock.Now;
                WaitFor(index * SegmentLength + position + Message64.FrameLength);
                if (place == null)
                    place = _files[index]!.Start;
                RawLoops.Copy(place + position, ref message, number, 1);
                Volatile.Write(ref _written, index * SegmentLength + position);
                took[number - from] = Clock.Now - start;
            }
        }
    }

    /// <summary>Writes the messages without telling times; call it once.</summary>
    public unsafe void Append(ref Message64 message, long count)
    {
        long step = StepLength / 4 / Message64.FrameLength;
        for (long number = 0; number < count;)
        {
            long index = number / FramesPerSegment;
            long place = number % FramesPerSegment;
            long length = Math.Min(Math.Min(step, count - number), FramesPerSegment - place);
            long end = index * SegmentLength + (place + length) * Message64.FrameLength;
            WaitFor(end);
            RawLoops.Copy(_files[index]!.Start + place * Message64.FrameLength, ref message, number, length);
            Volatile.Write(ref _written, end);
            number += length;
        }
    }

    /// <summary>Reads back what <see cref="Append(ref Message64, long)"/> wrote.</summary>
    public unsafe void Check(long count)
    {
        ulong sum = 0;
        for (long number = 0; number < count; number += FramesPerSegment)
            sum += RawLoops.Read(_files[number / FramesPerSegment]!.Start, Math.Min(FramesPerSegment, count - number));
        Sums.Check("raw log", sum, Message64.ExpectedSum(count));
    }

    public void Dispose()
    {
        Volatile.Write(ref _ends, true);
        _preparer.Join();
        foreach (RawFile? file in _files)
            file?.Dispose();
    }

    private void WaitFor(long position)
    {
        while (Volatile.Read(ref _prepared) < position)
        {
            if (Volatile.Read(ref _failure) is { } failure)
                throw new ToolException($"The raw log's files cannot be made: {failure.Message}");
            RawLoops.Relax();
        }
    }

    private void Prepare()
    {
        try
        {
            for (int index = 0; index < _files.Length; index++)
            {
                RawFile file = RawFile.Create(Path.Combine(_directory, $"raw-{index}"), SegmentLength, allocates: true);
                _files[index] = file;
                for (long position = 0; position < SegmentLength; position += StepLength)
                {
                    while (_prepared - Volatile.Read(ref _written) > Ahead)
                    {
                        if (Volatile.Read(ref _ends))
                            return;
                        Thread.Sleep(0);
                    }

                    file.TouchForWriting(position, StepLength);
                    Volatile.Write(ref _prepared, index * SegmentLength + position + StepLength);
                }
            }
        }
        catch (IOException exception)
        {
            Volatile.Write(ref _failure, exception);
        }
    }
}
