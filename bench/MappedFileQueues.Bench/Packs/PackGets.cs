using System.Buffers;
using System.Buffers.Binary;
using MappedFileQueues.Bench.Measuring;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Bench.Packs;

/// <summary>Gets objects whose data begin with their number.</summary>
internal sealed class PackGets(string figure, Func<int, string> makeKey)
{
    private readonly ArrayBufferWriter<byte> _destination = new();

    /// <summary>Nanoseconds for each get, in this order; every object is looked at.</summary>
    public double Measure(PackStore pack, int[] order)
    {
        ulong sum = 0;
        long start = Clock.Now;
        foreach (int number in order)
        {
            _destination.ResetWrittenCount();
            if (!pack.TryGet(makeKey(number), _destination))
                throw new ToolException($"An object is missing: figure={figure}, number={number}.");
            sum += BinaryPrimitives.ReadUInt32LittleEndian(_destination.WrittenSpan);
        }

        double nanoseconds = Clock.NanosecondsEach(start, order.Length);
        Sums.Check(figure, sum, (ulong)order.Sum(number => (long)number));
        return nanoseconds;
    }
}
