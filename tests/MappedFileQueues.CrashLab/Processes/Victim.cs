using System.Globalization;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Memory;
using MappedFileQueues.TestPeer;

namespace MappedFileQueues.CrashLab.Processes;

/// <summary>
/// A child of the kill part: `victim ROLE STORE BOARD LINE SEED STEP HIT ACTION FAULT`. It appends, reads, trims, or only opens,
/// until it kills or stops itself at a step of the protocol, or somebody else does. Any exception is a violation.
/// </summary>
internal sealed class Victim(string storePath, KillBoard board, OffsetLedger ledger, int line, int seed)
{
    public const string Verb = "victim";

    private const int LengthMax = 400;
    private const int BatchMax = 6;
    private const int UnitsPerPause = 8;

    private readonly Random _random = new(unchecked((seed * 31) + line));
    private readonly StormPlan _plan = new(seed);
    private int _left;

    public static int Run(string[] arguments)
    {
        (string role, string storePath, string boardPath) = (arguments[0], arguments[1], arguments[2]);
        int line = int.Parse(arguments[3], CultureInfo.InvariantCulture);
        int seed = int.Parse(arguments[4], CultureInfo.InvariantCulture);
        PlantedFaults.Active = Enum.Parse<PlantedFault>(arguments[8]);
        using var board = new KillBoard(boardPath);
        using var ledger = new OffsetLedger(LedgerPath(boardPath));
        var victim = new Victim(storePath, board, ledger, line, seed);
        victim.Arm(arguments[5], int.Parse(arguments[6], CultureInfo.InvariantCulture), arguments[7]);
        try
        {
            victim.Work(role);
            return 0;
        }
        catch (Exception error)
        {
            Console.WriteLine($"{role} {line}: {error}");
            return LabChild.ExitViolation;
        }
    }

    public static string LedgerPath(string boardPath) => boardPath + "-ledger";

    /// <summary>The length of a message follows from who wrote it, so that a reader knows every byte of it.</summary>
    public static byte[] Message(int seed, int producer, long number) =>
        LabMessage.Make(seed, producer, number, LabMessage.HeadLength + (int)((((number * 7919) + producer) * 31) % LengthMax));

    private void Arm(string step, int hit, string action)
    {
        if (step == "-")
            return;
        ProtocolStep trapped = Enum.Parse<ProtocolStep>(step);
        _left = hit;
        ProtocolSteps.Handler = reached =>
        {
            if (reached != trapped || Interlocked.Decrement(ref _left) != 0)
                return;
            if (action == "stop")
                ProcessSignals.Stop();
            else
                ProcessSignals.Kill();
        };
    }

    private void Work(string role)
    {
        using var queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = storePath,
            CreateIfMissing = false,
            // Every level, with flushes often enough for some to be under way at a kill.
            Durability = (DurabilityLevel)(line % 3),
            FlushInterval = TimeSpan.FromMilliseconds(20),
        });
        if (role == "producer")
            Produce(queue.Producer);
        else if (role == "reader")
            Consume(queue);
        else if (role == "trimmer")
            Trim(queue);
    }

    private void Trim(MappedFileQueue queue)
    {
        while (true)
        {
            MappedFileQueueInfo info = queue.GetInfo();
            long before = _random.NextInt64(info.LogStart, info.TailOffset + 1);
            long kept = queue.Trim(_random.Next(2) == 0 ? long.MaxValue : before);
            if (kept < info.LogStart)
                throw new LabViolation($"Trim returns {kept}, and all before {info.LogStart} was removed already");
            if (_random.Next(8) == 0)
                queue.SetRetention(_plan.Retention!);
            Thread.Sleep(_random.Next(3));
        }
    }

    private void Produce(MappedFileProducer producer)
    {
        for (int unit = 1; ; unit++)
        {
            // Not faster than others read, or what they wait for would be a backlog and not the dead.
            if (unit % UnitsPerPause == 0)
                Thread.Sleep(1);
            switch (_random.Next(10))
            {
                case < 6:
                    Append(1, messages => producer.Produce(messages[0].Span));
                    break;
                case < 9:
                    Append(_random.Next(2, BatchMax + 1), messages => producer.ProduceBatch(messages));
                    break;
                default:
                    Append(1, messages => Claim(producer, messages[0].Span));
                    break;
            }
        }
    }

    private void Append(int count, Func<ReadOnlyMemory<byte>[], long> append)
    {
        long first = board.Acked(line) + 1;
        // On a machine with a heavy load somebody may live very long.
        if (first + count > OffsetLedger.CountMax)
            Thread.Sleep(Timeout.Infinite);
        ReadOnlyMemory<byte>[] messages = [.. Enumerable.Range(0, count).Select(i =>
            (ReadOnlyMemory<byte>)Message(seed, line, first + i))];
        Volatile.Write(ref board.Begun(line), first + count - 1);
        long offset = append(messages);
        for (int i = 0; i < count; i++)
        {
            ledger.Note(line, first + i, offset);
            offset += (messages[i].Length + 15) & ~7;
        }

        Volatile.Write(ref board.Acked(line), first + count - 1);
    }

    private static long Claim(MappedFileProducer producer, ReadOnlySpan<byte> message)
    {
        using MessageClaim claim = producer.DangerousClaim(message.Length + 40);
        message.CopyTo(claim.Span);
        return claim.Publish(message.Length);
    }

    private void Consume(MappedFileQueue queue)
    {
        queue.MessagesSkipped += OnSkipped;
        using MappedFileConsumer consumer = queue.OpenConsumer(
            $"r{line}", new ConsumerOptions { OnOutOfRange = OutOfRangePolicy.Earliest });
        CheckCursor(consumer.Offset, board, line, _plan);
        // A new one has stored where it begins.
        Volatile.Write(ref board.Committing(line), consumer.Offset);
        Volatile.Write(ref board.Committed(line), consumer.Offset);
        while (true)
        {
            ReadOnlySpan<byte> message = consumer.Consume();
            CheckMessage(message, seed, consumer.MessageOffset);
            long next = consumer.MessageOffset + ((message.Length + 15) & ~7);
            Volatile.Write(ref board.Committing(line), next);
            consumer.Commit();
            Volatile.Write(ref board.Committed(line), next);
        }
    }

    private void OnSkipped(object? sender, MessagesSkippedEventArgs skipped)
    {
        if (!_plan.Drops)
            throw new LabViolation($"r{line} skips {skipped.Offset} to {skipped.NextOffset}, and nobody may be dropped");
        Volatile.Write(ref board.Committing(line), skipped.NextOffset);
        Volatile.Write(ref board.Committed(line), skipped.NextOffset);
    }

    /// <summary>
    /// A killed consumer's successor continues where it had committed, or where it continued when it was dropped: at the start of
    /// a segment, of which it may not have told.
    /// </summary>
    public static void CheckCursor(long offset, KillBoard board, int line, StormPlan plan)
    {
        (long committed, long committing) = (board.Committed(line), board.Committing(line));
        bool wasDropped = plan.Drops && offset > committed && offset % plan.SegmentLength == 0;
        // A new one begins with the oldest message.
        bool isNew = plan.Retention is not null && committed == 0 && committing == 0;
        if (offset != committed && offset != committing && !wasDropped && !isNew)
            throw new LabViolation($"The consumer r{line} goes on at {offset}; committed: {committed}, under way: {committing}");
    }

    public static void CheckMessage(ReadOnlySpan<byte> message, int seed, long offset)
    {
        if (message.Length < LabMessage.HeadLength)
            throw new LabViolation($"A message that nobody wrote is read at {offset}: {message.Length} bytes");
        (int producer, long number) = LabMessage.Head(message);
        if (producer is < 0 or >= KillBoard.LineCount || number < 1 || !message.SequenceEqual(Message(seed, producer, number)))
            throw new LabViolation($"A message that nobody wrote is read at {offset}: {LabMessage.Describe(message)}");
    }
}
