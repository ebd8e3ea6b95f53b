using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.CrashLab.Soak;

/// <summary>
/// A process that reads at its own speed, opens its queue anew now and then, and continues by one policy after the other where it
/// was dropped. When the log has ended it reads up to the end, and says what it has read and skipped.
/// </summary>
internal sealed class SoakConsumer
{
    private const int CommitEvery = 32;

    private static readonly TimeSpan s_reopenAfter = TimeSpan.FromSeconds(9);

    private readonly SoakLedger _ledger = new();
    private readonly string _folder;
    private readonly string _name;
    private readonly long _began = Stopwatch.GetTimestamp();
    private long _bytes;
    private long _paused = Stopwatch.GetTimestamp();
    private long? _end;

    private SoakConsumer(string folder, string name) => (_folder, _name) = (folder, name);

    public static int Run(string[] arguments) => new SoakConsumer(arguments[0], arguments[1]).Run();

    private int Run()
    {
        for (int round = 0; _end is not { } end || _ledger.Next < end; round++)
            ReadOn(_name == "slow" ? (OutOfRangePolicy)(round % 3) : OutOfRangePolicy.Earliest);
        _ledger.ThrowIfNotAt(_end.Value);
        string last = string.Join(',', Enumerable.Range(0, SoakPlan.ProducerCount).Select(_ledger.LastOf));
        Console.WriteLine(string.Create(CultureInfo.InvariantCulture,
            $"read={_ledger.ReadCount} gaps={_ledger.GapCount} skipped={_ledger.SkippedBytes} last={last}"));
        return 0;
    }

    /// <summary>Until it is time to open the queue anew, or until the end.</summary>
    private void ReadOn(OutOfRangePolicy policy)
    {
        using var queue = new MappedFileQueue(SoakPlan.OptionsOf(_folder));
        queue.MessagesSkipped += (_, gap) => _ledger.NoteGap(gap.Offset, gap.NextOffset);
        using MappedFileConsumer consumer = Open(queue, policy);
        long opened = Stopwatch.GetTimestamp();
        while (Stopwatch.GetElapsedTime(opened) < s_reopenAfter)
        {
            try
            {
                if (ReadSome(consumer))
                    return;
            }
            catch (OffsetOutOfRangeException) when (policy == OutOfRangePolicy.Throw)
            {
                consumer.SeekToStart();
                _ledger.NoteGap(_ledger.Next, consumer.Offset);
            }
        }
    }

    private MappedFileConsumer Open(MappedFileQueue queue, OutOfRangePolicy policy)
    {
        var options = new ConsumerOptions { OnOutOfRange = policy };
        while (true)
        {
            try
            {
                return queue.OpenConsumer(_name, options);
            }
            catch (OffsetOutOfRangeException) when (policy == OutOfRangePolicy.Throw)
            {
                queue.ResetConsumer(_name, QueueStart.Earliest);
                long first = queue.GetInfo().Consumers.Single(consumer => consumer.Name == _name).Offset;
                _ledger.NoteGap(_ledger.Next, first);
            }
        }
    }

    /// <summary>Reads and commits a few messages; true at the end.</summary>
    private bool ReadSome(MappedFileConsumer consumer)
    {
        _end ??= SoakPlan.ReadEnd(_folder);
        if (_end is null)
            KeepSpeed();
        for (int i = 0; i < CommitEvery; i++)
        {
            if (!consumer.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.FromMilliseconds(20)))
                break;
            _ledger.NoteMessage(message, consumer.MessageOffset);
            _bytes += message.Length;
            consumer.Advance();
        }

        consumer.Commit();
        return _end is { } end && _ledger.Next >= end;
    }

    /// <summary>How fast this consumer is, not a way to wait for another process.</summary>
    private void KeepSpeed()
    {
        switch (_name)
        {
            case "pausing" when Stopwatch.GetElapsedTime(_paused) > TimeSpan.FromSeconds(1):
                Thread.Sleep(400);
                _paused = Stopwatch.GetTimestamp();
                break;
            case "slow":
                while (_bytes > Stopwatch.GetElapsedTime(_began).TotalSeconds * SoakPlan.SlowBytesPerSecond)
                    Thread.Sleep(5);
                break;
        }
    }
}
