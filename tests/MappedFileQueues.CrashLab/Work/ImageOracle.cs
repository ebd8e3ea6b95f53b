using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>
/// Opens a store that a crash has left and judges it: what must be there is there, nothing else is, cursors are where they
/// may, appending and reading continue, a flush ends, and nothing is left behind.
/// </summary>
/// <param name="plan">Of the store.</param>
/// <param name="model">What was known at the moment of the crash.</param>
/// <param name="isCut">A power loss; otherwise all processes were killed.</param>
/// <param name="random">For what is done to the store afterwards.</param>
internal sealed class ImageOracle(LabPlan plan, ModelPicture model, bool isCut, Random random)
{
    private const int NewProducer = 1000;

    private readonly int _newSeed = random.Next();
    private readonly Queue<MessagesSkippedEventArgs> _skipped = [];
    private int _newCount;

    /// <summary>What the store held after recovery.</summary>
    public IReadOnlyList<ReadMessage> Messages { get; private set; } = [];

    /// <summary>All before it was removed.</summary>
    public long Oldest { get; private set; }

    /// <summary>The same as entries of the model.</summary>
    public IReadOnlyList<LogEntry> Survivors { get; private set; } = [];

    /// <summary>What an earlier recovery of the same disk, which was interrupted, had found; null when there was none.</summary>
    public IReadOnlyList<ReadMessage>? MustEqual { get; init; }

    /// <summary>
    /// The cut left no new boot: the file system alone was lost, and mounted again. What is lost then need not be an end of the
    /// log, because a dead owner's claim in the place of a message that was published later looks like any other.
    /// </summary>
    public bool IsSameBoot { get; init; }

    /// <summary>False: nothing is appended after the recovery.</summary>
    public bool GoesOn { get; init; } = true;

    /// <summary>Throws <see cref="LabViolation"/>; any other exception is one as well.</summary>
    /// <param name="path">The store.</param>
    /// <param name="os">The process that opens it.</param>
    public void Check(string path, OperatingSystemServices os)
    {
        CurrentPlatform.Services = os;
        LabThread.Background.Clear();
        plan.Apply();
        bool isExclusive = random.Next(3) == 0;
        if (os is SimServices sim && random.Next(8) == 0)
            sim.Disk.Locks.LeaveToTheDying(StoreNames.AttachedLock);
        using (var queue = new MappedFileQueue(plan.Options(path, Guid.Empty, isExclusive)))
        {
            queue.MessagesSkipped += (_, skipped) => _skipped.Enqueue(skipped);
            Oldest = CheckOldest(queue);
            CheckEpoch(queue, os);
            CheckFiles(os, path);
            Messages = ReadAll(path);
            Survivors = new ReadBack(model, isCut, plan.IsExclusive, IsSameBoot, Oldest).Match(Messages);
            if (MustEqual is not null && !Messages.Select(m => m.Offset).SequenceEqual(MustEqual.Select(m => m.Offset)))
                throw new LabViolation($"A recovery that was interrupted found {MustEqual.Count} messages, the next one "
                    + $"{Messages.Count}");
            if (random.Next(2) == 0)
                LabIndex.Forge(os, path, Messages, random);
            LabIndex.Check(queue, Messages, random);
            CheckCursors(queue);
            if (GoesOn && random.Next(8) != 0)
                GoOn(queue, path, os);
            LabThread.Background.Clear();
        }

        if (random.Next(4) == 0)
            Reopen(path);
        CheckNothingLeft(path, os);
    }

    private static List<ReadMessage> ReadAll(string path)
    {
        using MappedFileReader reader = MappedFileReader.Open(path);
        List<ReadMessage> messages = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            messages.Add(new ReadMessage(reader.MessageOffset, message.ToArray()));
        return messages;
    }

    private void CheckCursors(MappedFileQueue queue)
    {
        HashSet<string> there = [.. queue.GetInfo().Consumers.Select(consumer => consumer.Name)];
        foreach ((string name, long[] history) in model.Cursors)
        {
            // Retention would not wait for it any more.
            if (model.DurableCursors.ContainsKey(name) && !there.Contains(name))
                throw new LabViolation($"The consumer {name}, which was opened, is not there any more");
            using MappedFileConsumer consumer = queue.OpenConsumer(
                name, new ConsumerOptions { OnOutOfRange = OutOfRangePolicy.Earliest });
            long offset = consumer.Offset;
            int durable = model.DurableCursors.GetValueOrDefault(name, -1);
            ReadOnlySpan<long> since = history.AsSpan(Math.Max(0, durable));
            long tail = TailOf(queue);
            // The one that is above the tail is clamped to it.
            bool isAllowed = isCut
                ? (offset == 0 && durable < 0) || since.Contains(offset)
                    || (offset == tail && since.ContainsAnyInRange(tail, long.MaxValue))
                : offset == history[^1] || (model.IsCommitUnderWay && offset == (history.Length > 1 ? history[^2] : 0));
            // A new consumer begins with the oldest message; one that was dropped continued there, and nobody has heard of it
            // yet.
            isAllowed |= isCut && offset == Oldest && durable < 0;
            isAllowed |= MayBeDropped(name) && model.Removal.LogStarts.Contains(offset);
            if (!isAllowed)
                throw new LabViolation($"The cursor of {name} is {offset}, which it never committed; committed last: "
                    + string.Join(", ", history.TakeLast(3)));
            foreach (ReadMessage expected in Messages.Where(message => message.Offset >= offset))
            {
                if (!consumer.TryConsume(out ReadOnlySpan<byte> message) || !message.SequenceEqual(expected.Bytes))
                    throw new LabViolation($"{name} does not read the message at {expected.Offset}, "
                        + $"it stands at {consumer.Offset}");
                consumer.Advance();
            }

            if (consumer.TryConsume(out ReadOnlySpan<byte> more))
                throw new LabViolation($"{name} reads {LabMessage.Describe(more)} behind the end");
            CheckSkipped(name, offset);
        }
    }

    private bool MayBeDropped(string name) => plan.Drops || model.Removal.MayBeDropped.Contains(name);

    private void CheckSkipped(string name, long offset)
    {
        bool wasTold = _skipped.TryDequeue(out MessagesSkippedEventArgs? skipped);
        if (wasTold && (skipped!.Offset != offset || skipped.NextOffset != Oldest || !MayBeDropped(name)))
            throw new LabViolation($"{name} stands at {offset}, the log begins at {Oldest}, and it skips {skipped.Offset} to "
                + $"{skipped.NextOffset}");
        if (!wasTold && offset < Oldest)
            throw new LabViolation($"{name} stands at {offset}, the log begins at {Oldest}, and it was not told");
    }

    /// <summary>What was removed for good does not come back, and nothing else goes.</summary>
    private long CheckOldest(MappedFileQueue queue)
    {
        long oldest = queue.GetInfo().LogStart;
        if (oldest < model.Removal.Done || oldest > model.Removal.UnderWay)
            throw new LabViolation($"The log begins at {oldest}; removed was all before {model.Removal.Done}, or before "
                + $"{model.Removal.UnderWay}");
        return oldest;
    }

    /// <summary>
    /// A kill loses no memory, and no recovery may take it for a loss: that raises the epoch, and ends the log at the first
    /// claim of a dead process.
    /// </summary>
    private void CheckEpoch(MappedFileQueue queue, OperatingSystemServices os)
    {
        long epoch = queue.GetInfo().Epoch;
        bool isSameBoot = Guid.TryParse(os.BootId, out Guid boot) && boot == model.RecoveredIn;
        if (!isCut && isSameBoot && epoch != model.Epoch)
            throw new LabViolation($"A kill is taken for lost memory: the epoch was {model.Epoch}, and is {epoch}");
    }

    /// <summary>Nothing is left over of what was removed.</summary>
    private void CheckFiles(OperatingSystemServices os, string path)
    {
        using HeldDirectory directory = os.OpenDirectory(path, create: false, mode: null)!;
        foreach (string name in directory.List(StoreNames.CommitLog))
        {
            if (StoreNames.IsSpare(name) || (StoreNames.TryParseSegment(name, out long start) && start < Oldest))
                throw new LabViolation($"A file is left over: {name}; the log begins at {Oldest}");
        }
    }

    private static long TailOf(MappedFileQueue queue) => queue.GetInfo().TailOffset;

    /// <summary>Appends enough, now and then, to come into the next segments, where old frames must not be.</summary>
    private void GoOn(MappedFileQueue queue, string path, OperatingSystemServices os)
    {
        using MappedFileConsumer consumer = queue.OpenConsumer("lab", QueueStart.FromOffset(EndOf(queue)));
        using MappedFileProducer producer = queue.OpenProducer();
        long room = random.Next(3) == 0 ? plan.SegmentLength * random.Next(1, 4) : random.Next(600);
        List<byte[]> appended = [];
        do
        {
            int length = random.Next(4) == 0 ? random.Next(Math.Min(plan.LengthMax, 2000)) : plan.NextLength(random);
            if (random.Next(5) == 0)
            {
                byte[][] batch = [NewMessage(length / 4), NewMessage(length / 3), NewMessage(length / 5)];
                producer.ProduceBatch([.. batch.Select(bytes => (ReadOnlyMemory<byte>)bytes)]);
                appended.AddRange(batch);
            }
            else
            {
                appended.Add(NewMessage(length));
                producer.Produce(appended[^1]);
            }

            room -= length + 16;
        }
        while (room > 0);

        foreach (byte[] expected in appended)
        {
            if (!consumer.TryConsume(out ReadOnlySpan<byte> message))
                throw new LabViolation($"A message that was appended after the recovery is not found at {consumer.Offset}");
            if (!message.SequenceEqual(expected))
                throw new LabViolation($"{LabMessage.Describe(message)} is read at {consumer.MessageOffset} instead of what was "
                    + "appended after the recovery");
            consumer.Commit();
        }

        if (consumer.TryConsume(out ReadOnlySpan<byte> ghost))
            throw new LabViolation($"{LabMessage.Describe(ghost)} is read behind the end, at {consumer.MessageOffset}");
        long confirmed = queue.Flush();
        if (confirmed < consumer.Offset)
            throw new LabViolation($"After the recovery Flush confirms {confirmed}, and messages reach up to {consumer.Offset}");
        List<ReadMessage> all = ReadAll(path);
        if (all.Count != Messages.Count + appended.Count)
            throw new LabViolation($"After the recovery {Messages.Count} and {appended.Count} messages are {all.Count}");
        if (plan.Retention is null || random.Next(3) != 0)
            return;
        for (int i = random.Next(1, 4); i > 0; i--)
            all = TrimAndFill(queue, producer, consumer, path, all);
        if (os is SimServices sim)
            Workload.CheckShared(sim.Disk);
    }

    /// <summary>Removes what may go, and appends into the files that it has left.</summary>
    private List<ReadMessage> TrimAndFill(
        MappedFileQueue queue, MappedFileProducer producer, MappedFileConsumer consumer, string path, List<ReadMessage> all)
    {
        long kept = queue.Trim(random.Next(2) == 0 ? long.MaxValue : all[random.Next(all.Count)].Offset);
        List<byte[]> expected = [.. all.Where(message => message.Offset >= kept).Select(message => message.Bytes)];
        for (long room = plan.SegmentLength * random.Next(1, 4); room > 0; room -= expected[^1].Length + 16)
        {
            expected.Add(NewMessage(plan.NextLength(random)));
            producer.Produce(expected[^1]);
            if (!consumer.TryConsume(out ReadOnlySpan<byte> message) || !message.SequenceEqual(expected[^1]))
                throw new LabViolation($"A message that was appended after Trim is not read at {consumer.Offset}");
            consumer.Commit();
        }

        List<ReadMessage> found = ReadAll(path);
        if (!found.Select(message => message.Bytes).SequenceEqual(expected, EqualBytes.Instance))
            throw new LabViolation($"After Trim, which kept all from {kept} on, {found.Count} messages are read instead of "
                + $"{expected.Count}");
        return found;
    }

    private static long EndOf(MappedFileQueue queue)
    {
        using MappedFileReader reader = queue.OpenReader(QueueStart.Latest);
        return reader.Offset;
    }

    private byte[] NewMessage(int length) => LabMessage.Make(_newSeed, NewProducer, _newCount++, length);

    private void Reopen(string path)
    {
        int before = ReadAll(path).Count;
        using (new MappedFileQueue(plan.Options(path, Guid.Empty, isExclusive: false)))
        {
            if (ReadAll(path).Count != before)
                throw new LabViolation($"{before} messages, and {ReadAll(path).Count} when the store is opened again");
        }
    }

    private static void CheckNothingLeft(string path, OperatingSystemServices os)
    {
        using (HeldDirectory directory = os.OpenDirectory(path, create: false, mode: null)!)
        {
            foreach (string folder in new[] { "", "commitlog", "offset", "offset/consumers" })
            {
                if (directory.List(folder).FirstOrDefault(name => name.EndsWith(".tmp", StringComparison.Ordinal)) is { } left)
                    throw new LabViolation($"A temporary file stays: {folder}/{left}");
            }
        }

        if (os is not SimServices sim)
            return;
        if (sim.OpenCount != 0)
            throw new LabViolation($"{sim.OpenCount} files, folders or mappings stay open after Dispose");
        if (sim.Disk.Locks.HeldBy(sim).ToList() is { Count: > 0 } held)
            throw new LabViolation($"Locks stay held after Dispose: {string.Join(", ", held)}");
    }

    private sealed class EqualBytes : IEqualityComparer<byte[]>
    {
        public static readonly EqualBytes Instance = new();

        public bool Equals(byte[]? x, byte[]? y) => x.AsSpan().SequenceEqual(y);

        public int GetHashCode(byte[] obj) => obj.Length;
    }
}
