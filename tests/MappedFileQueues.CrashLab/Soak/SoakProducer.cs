using System.Diagnostics;
using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Soak;

/// <summary>
/// A process that appends at a given speed, and opens its queue anew now and then. At the end it says how many it has appended.
/// </summary>
internal static class SoakProducer
{
    private const int BatchCount = 16;

    public static int Run(string[] arguments)
    {
        string folder = arguments[0];
        int producer = int.Parse(arguments[1]);
        // Not in step with the others.
        var reopenAfter = TimeSpan.FromSeconds(7 + (4 * producer));
        long number = 0;
        double bytes = 0;
        long began = Stopwatch.GetTimestamp();
        while (!File.Exists(SoakPlan.StopFile(folder)))
        {
            using var queue = new MappedFileQueue(SoakPlan.OptionsOf(folder));
            long opened = Stopwatch.GetTimestamp();
            long last = -1;
            while (Stopwatch.GetElapsedTime(opened) < reopenAfter && !File.Exists(SoakPlan.StopFile(folder)))
            {
                double due = Stopwatch.GetElapsedTime(began).TotalSeconds * SoakPlan.BytesPerSecond;
                // Whoever stood still for seconds does not append all that was due meanwhile: that is no speed of its own.
                bytes = Math.Max(bytes, due - (SoakPlan.BytesPerSecond / 2));
                while (bytes < due)
                    bytes += Append(queue.Producer, producer, ref number, ref last);
                // The speed of this producer, not a way to wait for another one.
                Thread.Sleep(5);
            }
        }

        Console.WriteLine($"appended={number}");
        return 0;
    }

    /// <summary>One message, or now and then a batch; returns the bytes.</summary>
    private static long Append(MappedFileProducer queue, int producer, ref long number, ref long last)
    {
        byte[] buffer = new byte[SoakMessage.LengthMax];
        long bytes = 0;
        long offset;
        if (number % 100 == 0)
        {
            var batch = new ReadOnlyMemory<byte>[BatchCount];
            for (int i = 0; i < batch.Length; i++)
            {
                buffer = new byte[SoakMessage.LengthMax];
                batch[i] = buffer.AsMemory(0, SoakMessage.Write(buffer, producer, ++number));
                bytes += batch[i].Length;
            }

            offset = queue.ProduceBatch(batch);
        }
        else
        {
            bytes = SoakMessage.Write(buffer, producer, ++number);
            offset = queue.Produce(buffer.AsSpan(0, (int)bytes));
        }

        if (offset <= last)
            throw new LabViolation($"an offset that is not above the one before: {offset}, before {last}");
        last = offset;
        return bytes;
    }
}
