using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Memory;
using MappedFileQueues.Tests.Crash;
using MappedFileQueues.Tests.Crash.Storm;

namespace MappedFileQueues.TestPeer;

/// <summary>
/// One victim of a kill storm. Its arguments: store, board, its line there, the seed, `producer` or `consumer`, the step at
/// which it kills itself ("-": somebody else does), how often it comes there before. It starts on a line on standard input.
/// </summary>
internal sealed class StormVictim(StormBoard board, int line, int seed)
{
    private const int MessageSizeMax = 400;
    private const int BatchMax = 5;
    private const int UnitsPerPause = 4;

    private readonly Random _random = new(seed);
    private long _next;

    public static int Run(string[] arguments)
    {
        (string path, string boardPath) = (arguments[0], arguments[1]);
        (string lineText, string seedText) = (arguments[2], arguments[3]);
        (string role, string step, string hit) = (arguments[4], arguments[5], arguments[6]);
        int line = int.Parse(lineText, CultureInfo.InvariantCulture);
        using var board = new StormBoard(boardPath, 0);
        var victim = new StormVictim(board, line, int.Parse(seedText, CultureInfo.InvariantCulture));
        if (step != "-")
            StepTrap.Arm(Enum.Parse<ProtocolStep>(step), int.Parse(hit, CultureInfo.InvariantCulture), victim.Die);
        Console.WriteLine("ready");
        if (Console.ReadLine() is null)
            return 0;
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = path, CreateIfMissing = false });
        if (role == "producer")
            victim.Produce(queue.Producer);
        else
            Consume(queue, string.Create(CultureInfo.InvariantCulture, $"victim-{line}"));
        return 0;
    }

    private void Die()
    {
        Volatile.Write(ref board.Died(line), Stopwatch.GetTimestamp());
        ProcessSignals.Kill();
    }

    private void Produce(MappedFileProducer producer)
    {
        for (int unit = 0; ; unit++)
        {
            // Not faster than the survivors read, or their messages would wait behind a backlog and not for the dead.
            if (unit % UnitsPerPause == 0)
                Thread.Sleep(1);
            int kind = _random.Next(10);
            if (kind < 7)
                AppendUnit(1, messages => producer.Produce(messages[0].Span));
            else if (kind < 9)
                AppendUnit(_random.Next(2, BatchMax + 1), messages => producer.ProduceBatch(messages));
            else
                AppendUnit(1, messages => Claim(producer, messages[0].Span));
        }
    }

    private void AppendUnit(int count, Action<ReadOnlyMemory<byte>[]> append)
    {
        var messages = new ReadOnlyMemory<byte>[count];
        for (int i = 0; i < count; i++)
        {
            string text = string.Create(CultureInfo.InvariantCulture, $"{line}:{_next + i}");
            messages[i] = CrashMessage.Make(text, _random.Next(MessageSizeMax));
        }

        _next += count;
        Volatile.Write(ref board.Begun(line), _next);
        append(messages);
        Volatile.Write(ref board.Acked(line), _next);
    }

    private static void Claim(MappedFileProducer producer, ReadOnlySpan<byte> message)
    {
        using MessageClaim claim = producer.DangerousClaim(MessageSizeMax * 2);
        message.CopyTo(claim.Span);
        claim.Publish(message.Length);
    }

    private static void Consume(MappedFileQueue queue, string name)
    {
        using MappedFileConsumer consumer = queue.OpenConsumer(name, QueueStart.Latest);
        while (true)
        {
            _ = CrashMessage.Read(consumer.Consume());
            consumer.Commit();
        }
    }
}
