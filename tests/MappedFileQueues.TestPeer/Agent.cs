using System.Globalization;
using System.Text;
using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Platform.Linux;
using MappedFileQueues.Platform.Portable;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.TestPeer;

/// <summary>
/// A process that does what it is told, a command a line on standard input: a word, then key=value pairs. It answers each with a
/// line `ok …` or `error TYPE MESSAGE`; what it acknowledges or receives on the way are lines of their own, written before it
/// continues, so that they are there when it is killed at the next step.
/// </summary>
internal sealed class Agent
{
    private readonly Dictionary<string, Func<AgentCommand, string>> _commands;
    private readonly OperatingSystemServices[] _services = [new LinuxServices(), new PortableServices()];
    private MappedFileQueue? _queue;
    private MappedFileProducer? _producer;
    private MappedFileConsumer? _consumer;
    private MappedFileGroupMember? _member;
    private readonly Dictionary<string, long> _inHand = new(StringComparer.Ordinal);

    public Agent() => _commands = new(StringComparer.Ordinal)
    {
        ["still"] = StartNoThreads,
        ["open"] = Open,
        ["close"] = Close,
        ["trap"] = Trap,
        ["hold-at"] = HoldAt,
        ["producer"] = OpenProducer,
        ["append"] = Append,
        ["group"] = AppendInThreads,
        ["hold"] = Hold,
        ["number"] = Number,
        ["consumer"] = OpenConsumer,
        ["consume"] = Consume,
        ["peek"] = command => Consumer.TryConsume(out ReadOnlySpan<byte> message) ? CrashMessage.Read(message) : "",
        ["read"] = Read,
        ["watch"] = Watch,
        ["flush"] = command => Queue.Flush().ToString(CultureInfo.InvariantCulture),
        ["trim"] = command => Queue.Trim(command.Number("before", int.MaxValue)).ToString(CultureInfo.InvariantCulture),
        ["retain"] = Retain,
        ["delete"] = command => Queue.DeleteConsumer(command["name"]).ToString(),
        ["reset"] = Reset,
        ["snapshot"] = command => Queue.Snapshot(command["target"]).ToString(CultureInfo.InvariantCulture),
        ["pour"] = Pour,
        ["seek"] = Seek,
        ["limit"] = LimitFiles,
        ["syncfs"] = FlushFileSystem,
        ["boot"] = command => _services[command.Number("services")].Boot.Stored.ToString(),
        ["sleepmax"] = SetSleepMax,
        ["member"] = OpenMember,
        ["take"] = Take,
        ["ack"] = Acknowledge,
        ["reject"] = Reject,
        ["leave"] = Leave,
        ["work"] = Work,
        ["save"] = Save,
        ["floor"] = command => Queue.GetInfo().Groups.Single().FloorOffset.ToString(CultureInfo.InvariantCulture),
        ["retry"] = RetryLetters,
        ["fence"] = Fence,
        ["deletegroup"] = command => Queue.DeleteGroup(command.Text("group", "workers")).ToString(),
    };

    private MappedFileQueue Queue => _queue ?? throw new InvalidOperationException("not open");

    private MappedFileProducer Producer => _producer ??= Queue.OpenProducer();

    private MappedFileConsumer Consumer => _consumer ??= Queue.OpenConsumer("");

    private MappedFileGroupMember Member => _member ?? throw new InvalidOperationException("no member");

    public int Run()
    {
        Console.WriteLine("ready");
        while (Console.ReadLine() is { } line && line != "exit")
            Console.WriteLine(Answer(line));
        _queue?.Dispose();
        return 0;
    }

    private string Answer(string line)
    {
        try
        {
            var command = new AgentCommand(line);
            return $"ok {_commands[command.Word](command)}".TrimEnd();
        }
        catch (Exception error)
        {
            return $"error {error.GetType().Name} {error.Message.ReplaceLineEndings(" ")}";
        }
    }

    private string Open(AgentCommand command)
    {
        _queue = new MappedFileQueue(new MappedFileQueueOptions
        {
            StorePath = command["path"],
            SegmentSize = command.Number("segment", 64 * 1024 * 1024),
            ProducerMode = Enum.Parse<ProducerMode>(command.Text("mode", nameof(ProducerMode.Shared))),
            MaxUnconsumedBytes = command.Number("unread", 0),
            LockTimeout = TimeSpan.FromMilliseconds(command.Number("wait", 0)),
            ConsumerRetryInterval = Timeout.InfiniteTimeSpan,
            FlushInterval = Timeout.InfiniteTimeSpan,
            Durability = Enum.Parse<DurabilityLevel>(command.Text("level", nameof(DurabilityLevel.PageCache))),
        });
        return "";
    }

    /// <summary>Nothing happens here from now on that no command asked for: neither preparer nor retention.</summary>
    private static string StartNoThreads(AgentCommand command)
    {
        ProtocolSteps.Background = static _ => { };
        return "";
    }

    private string Close(AgentCommand command)
    {
        _queue?.Dispose();
        (_queue, _producer, _consumer, _member) = (null, null, null, null);
        return "";
    }

    private string Trap(AgentCommand command)
    {
        Action action = command["do"] switch
        {
            "kill" => ProcessSignals.Kill,
            "stop" => ProcessSignals.Stop,
            "sleep" => () => Thread.Sleep(Timeout.Infinite),
            string other => throw new ArgumentException(other),
        };
        StepTrap.Arm(Enum.Parse<ProtocolStep>(command["step"]), command.Number("hit", 1), action);
        return "";
    }

    /// <summary>Each thread that comes to the step waits there for a file.</summary>
    private static string HoldAt(AgentCommand command)
    {
        ProtocolStep step = Enum.Parse<ProtocolStep>(command["step"]);
        string file = command["file"];
        ProtocolSteps.Handler = reached =>
        {
            if (reached != step)
                return;
            Console.WriteLine("waits");
            while (!File.Exists(file))
                Thread.Sleep(1);
        };
        return "";
    }

    private string OpenProducer(AgentCommand command)
    {
        _ = Producer;
        return "";
    }

    /// <summary>Appends units one after the other, each acknowledged by a line: messages, claims, or batches.</summary>
    private string Append(AgentCommand command)
    {
        string prefix = command["prefix"];
        int size = command.Number("size", 0);
        int first = command.Number("first", 0);
        for (int i = first; i < first + command.Number("count", 1); i++)
        {
            string unit = string.Create(CultureInfo.InvariantCulture, $"{prefix}-{i}");
            AppendUnit(command.Text("what", "single"), unit, size);
            Console.WriteLine($"acked {i}");
        }

        return "";
    }

    /// <summary>Many threads, each waiting for the disk with every message; some of them for a moment only.</summary>
    private string AppendInThreads(AgentCommand command)
    {
        MappedFileProducer producer = Producer;
        int impatient = command.Number("impatient", 0);
        int count = command.Number("count", 1);
        int size = command.Number("size", 64);
        Task[] callers = [.. Enumerable.Range(0, command.Number("threads", 1)).Select(number => Task.Factory.StartNew(() =>
        {
            byte[] message = CrashMessage.Make(string.Create(CultureInfo.InvariantCulture, $"caller-{number}"), size);
            var options = new ProduceOptions
            {
                Durability = DurabilityLevel.Group,
                Timeout = number < impatient ? TimeSpan.FromMicroseconds(100 * (number + 1)) : Timeout.InfiniteTimeSpan,
            };
            for (int i = 0; i < count; i++)
                AppendPatiently(producer, message, options);
        }, TaskCreationOptions.LongRunning))];
        Task.WaitAll(callers);
        return "";
    }

    private static void AppendPatiently(MappedFileProducer producer, byte[] message, ProduceOptions options)
    {
        try
        {
            producer.Produce(message, options);
        }
        catch (TimeoutException)
        {
            // It is appended all the same.
        }
    }

    private void AppendUnit(string what, string unit, int size)
    {
        if (what == "batch")
        {
            Producer.ProduceBatch(CrashUnits.MakeBatch(unit, size));
            return;
        }

        byte[] message = what == "text" ? Encoding.UTF8.GetBytes(unit) : CrashMessage.Make(unit, size);
        if (what is "single" or "text")
        {
            Producer.Produce(message);
            return;
        }

        using MessageClaim claim = Producer.DangerousClaim(message.Length + 64);
        message.CopyTo(claim.Span);
        claim.Publish(message.Length);
    }

    /// <summary>
    /// Opens a claim and fills it; the next line on standard input says whether it is published, or says to go away.
    /// </summary>
    private string Hold(AgentCommand command)
    {
        byte[] message = CrashMessage.Make(command["text"], command.Number("size", 0));
        MessageClaim claim = Producer.DangerousClaim(message.Length);
        message.CopyTo(claim.Span);
        Console.WriteLine("held");
        switch (Console.ReadLine())
        {
            case "publish":
                return claim.Publish(message.Length).ToString(CultureInfo.InvariantCulture);
            case "abandon":
                claim.Dispose();
                return "";
            default:
                // The claim stays open: what it leads to is the caller's business.
                return "left";
        }
    }

    /// <summary>Appends numbered messages, each of its own number, until it is killed.</summary>
    private string Number(AgentCommand command)
    {
        using MappedFileIdempotentProducer producer = Queue.OpenProducer(command["id"]);
        while (true)
        {
            ulong next = producer.LastSequence + 1;
            producer.TryProduce(BitConverter.GetBytes(next), next);
        }
    }

    private string RetryLetters(AgentCommand command)
    {
        string error = command["error"];
        return new DeadLetterStore(new MappedFileQueueOptions { StorePath = command["letters"] })
            .Retry(Queue, letter => letter.ErrorType == error, fromAnyStore: true).ToString(CultureInfo.InvariantCulture);
    }

    private string OpenConsumer(AgentCommand command)
    {
        _consumer = Queue.OpenConsumer(command.Text("name", ""));
        return "";
    }

    private string Consume(AgentCommand command)
    {
        int count = command.Number("count", 1);
        var texts = new List<string>();
        while (texts.Count < count
            && Consumer.TryConsume(out ReadOnlySpan<byte> message, TimeSpan.FromMilliseconds(command.Number("timeout", 0))))
        {
            texts.Add(CrashMessage.Read(message));
            if (command.Number("commit", 1) != 0)
                Consumer.Commit();
            else
                Consumer.Advance();
        }

        return string.Join(' ', texts);
    }

    private string OpenMember(AgentCommand command)
    {
        _member = Queue.OpenGroupMember(command.Text("group", "workers"), new GroupOptions
        {
            DeliveriesMax = command.Number("deliveries", 0),
            DeadLetterPath = command.Text("letters", Queue.GetInfo().StorePath + "-dead-letters"),
        });
        return _member.Slot.ToString(CultureInfo.InvariantCulture);
    }

    /// <summary>Takes messages in one batch; each is a line, so that it is known of a member that is killed.</summary>
    private string Take(AgentCommand command)
    {
        List<string> texts = [];
        using GroupBatch batch = Member.ConsumeBatch(command.Number("count", 1));
        foreach (ReadOnlySpan<byte> message in batch)
        {
            string text = CrashMessage.Read(message);
            _inHand[text] = Member.MessageOffset;
            texts.Add(string.Create(CultureInfo.InvariantCulture, $"{text}:{Member.DeliveryCount}"));
            Console.WriteLine($"got {texts[^1]}");
        }

        return string.Join(' ', texts);
    }

    /// <summary>Acknowledges messages by their texts, each in a call of its own and then a line, or all in one call.</summary>
    private string Acknowledge(AgentCommand command)
    {
        if (command.Text("texts", "") is { Length: > 0 } texts)
        {
            foreach (string text in texts.Split(','))
            {
                Member.Acknowledge(_inHand[text]);
                Console.WriteLine($"done {text}");
            }
        }
        else
        {
            Member.Acknowledge();
        }

        return "";
    }

    private string Reject(AgentCommand command)
    {
        Member.Reject(_inHand[command["text"]], TimeSpan.FromMilliseconds(command.Number("delay", 0)),
            command.Number("letter", 0) != 0);
        return "";
    }

    /// <summary>
    /// Works off the group until it is killed, by batches and single messages. What it is about to acknowledge is a line, and
    /// another one follows when that is done.
    /// </summary>
    private string Work(AgentCommand command)
    {
        var random = new Random(command.Number("seed"));
        while (true)
        {
            List<(string Text, long Offset)> messages = [];
            using (GroupBatch batch = Member.ConsumeBatch(random.Next(1, 50)))
            {
                foreach (ReadOnlySpan<byte> message in batch)
                    messages.Add((CrashMessage.Read(message), Member.MessageOffset));
            }

            if (random.Next(4) == 0)
            {
                (string _, long offset) = messages[random.Next(messages.Count)];
                messages.RemoveAll(message => message.Offset == offset);
                Member.Reject(offset, TimeSpan.FromMilliseconds(random.Next(5)));
            }

            foreach ((string Text, long Offset)[] part in messages.Chunk(random.Next(1, 20)))
            {
                string texts = string.Join(' ', part.Select(message => message.Text));
                Console.WriteLine($"ending {texts}");
                Member.Acknowledge(part.Select(message => message.Offset).ToArray());
                Console.WriteLine($"ended {texts}");
            }
        }
    }

    private string Save(AgentCommand command)
    {
        Member.Flush();
        return "";
    }

    private static string Fence(AgentCommand command)
    {
        var options = new MappedFileQueueOptions { StorePath = command.Text("path", "") };
        using var engine = new StoreEngine(options, StoreKind.Messages, 0, 0);
        return engine.FenceGroupMember("workers", command.Number("slot")).ToString(CultureInfo.InvariantCulture);
    }

    private string Leave(AgentCommand command)
    {
        _member?.Dispose();
        _member = null;
        return "";
    }

    /// <summary>What a reader that leaves no trace sees.</summary>
    private static string Read(AgentCommand command)
    {
        using MappedFileReader reader = MappedFileReader.Open(command["path"]);
        List<string> texts = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            texts.Add(CrashMessage.Read(message));
        return string.Join(' ', texts);
    }

    /// <summary>A thread that consumes for ever and writes a line for each message.</summary>
    private string Watch(AgentCommand command)
    {
        MappedFileConsumer consumer = Queue.OpenConsumer(command["name"]);
        var thread = new Thread(() =>
        {
            try
            {
                while (true)
                {
                    string text = CrashMessage.Read(consumer.Consume());
                    consumer.Commit();
                    Console.WriteLine($"got {text}");
                }
            }
            catch (ObjectDisposedException)
            {
                Console.WriteLine("watch ended");
            }
        })
        { IsBackground = true };
        thread.Start();
        return "";
    }

    private string Retain(AgentCommand command)
    {
        Queue.SetRetention(new RetentionOptions { MaxBytes = command.Number("bytes", int.MaxValue) });
        return "";
    }

    private string Reset(AgentCommand command)
    {
        Queue.ResetConsumer(command["name"], QueueStart.FromOffset(command.Number("offset")));
        return "";
    }

    /// <summary>
    /// Appends numbered messages without a word: as many as asked for, or, in bursts with a pause between them, until a file is
    /// there. After that comes one burst more. Answers with the next number.
    /// </summary>
    private string Pour(AgentCommand command)
    {
        string prefix = command["prefix"];
        string until = command.Text("until", "");
        int size = command.Number("size", 0);
        int next = command.Number("first", 0);
        MappedFileProducer producer = Producer;
        bool isLast;
        do
        {
            isLast = until.Length == 0 || File.Exists(until);
            for (int end = next + command.Number("count"); next < end; next++)
                producer.Produce(CrashMessage.Make(string.Create(CultureInfo.InvariantCulture, $"{prefix}-{next}"), size));
            if (!isLast)
                Thread.Sleep(1);
        }
        while (!isLast);

        return next.ToString(CultureInfo.InvariantCulture);
    }

    private string Seek(AgentCommand command)
    {
        Consumer.AdjustOffset(command.Number("offset"));
        return "";
    }

    /// <summary>From now on no descriptor can be opened; the runtime's own first uses of files were made before.</summary>
    private string LimitFiles(AgentCommand command)
    {
        ProcessSignals.LimitFiles((ulong)command.Number("files"));
        return "";
    }

    private static string FlushFileSystem(AgentCommand command)
    {
        using HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(command["path"], create: false, mode: null)!;
        directory.FlushFileSystem();
        return "";
    }

    private string SetSleepMax(AgentCommand command)
    {
        WakeSignal.SleepMax = TimeSpan.FromMilliseconds(command.Number("ms"));
        return "";
    }
}
