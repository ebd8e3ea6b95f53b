using System.Globalization;
using MappedFileQueues.Tests.Crash.Groups;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `group-work STORE RECORD MESSAGES WORKERS WORKER`: works as a member of a group until it is killed, in batches of any size;
/// some messages it rejects, and it acknowledges the others in two parts. Prints `open` when it begins.
/// </summary>
internal static class GroupWorkVerb
{
    public static int Run(string[] arguments)
    {
        int[] numbers = [.. arguments[2..].Select(text => int.Parse(text, CultureInfo.InvariantCulture))];
        int worker = numbers[2];
        using var record = new WorkRecord(arguments[1], numbers[0], numbers[1]);
        using var queue = new MappedFileQueue<long>(new MappedFileQueueOptions { StorePath = arguments[0] });
        using MappedFileGroupMember<long> member = queue.OpenGroupMember("workers", new GroupOptions { DeliveriesMax = 0 });
        var random = new Random(worker);
        long[] messages = new long[WorkRecord.BatchMax];
        long[] offsets = new long[WorkRecord.BatchMax];
        Console.WriteLine("open");
        while (true)
        {
            int count = member.ConsumeBatch(messages.AsSpan(0, random.Next(1, WorkRecord.BatchMax + 1)), offsets);
            record.Hold(worker, messages.AsSpan(0, count));
            foreach (long message in messages.AsSpan(0, count))
                Interlocked.Increment(ref record.Handed(message));
            if (random.Next(8) == 0)
                Thread.Sleep(1);
            if (random.Next(20) == 0)
            {
                Interlocked.Increment(ref record.Rejected(messages[count - 1]));
                member.Reject(offsets[count - 1], TimeSpan.FromMilliseconds(random.Next(5)));
                count--;
            }

            int half = random.Next(count + 1);
            Acknowledge(messages.AsSpan(half, count - half), offsets.AsSpan(half, count - half));
            Acknowledge(messages.AsSpan(0, half), offsets.AsSpan(0, half));
            record.Hold(worker, []);
        }

        void Acknowledge(ReadOnlySpan<long> ended, ReadOnlySpan<long> places)
        {
            foreach (long message in ended)
                Interlocked.Increment(ref record.Ending(message));
            member.Acknowledge(places);
            foreach (long message in ended)
                Interlocked.Increment(ref record.Ended(message));
        }
    }
}
