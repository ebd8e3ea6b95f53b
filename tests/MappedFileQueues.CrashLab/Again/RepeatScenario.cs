using System.Buffers.Binary;
using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.CrashLab.Again;

/// <summary>
/// A call that one process begins and another one makes again. What the second one was told when its call returned holds after a
/// power loss.
/// </summary>
internal abstract class RepeatScenario
{
    protected const int SegmentLength = SimFile.Page;
    protected const string Consumer = "c";

    private const int MessageLength = 700;
    private const int NoNumber = -1;

    /// <summary>How many numbered messages were appended.</summary>
    public int Count { get; protected set; }

    /// <summary>All messages below this number were acknowledged.</summary>
    public int Acknowledged { get; private set; }

    /// <summary>False: the call makes the store.</summary>
    public virtual bool NeedsStore => true;

    /// <summary>A third process may have the store open all the while.</summary>
    public virtual bool MayBeBeside => true;

    /// <summary>That third process may make the call again.</summary>
    public virtual bool MayBeByThird => MayBeBeside;

    /// <summary>The machine starts anew before the first call.</summary>
    public virtual bool IsCutBefore => false;

    /// <summary>Fills the store, in a process of its own.</summary>
    public virtual void SetUp(MappedFileQueue queue)
    {
    }

    /// <summary>Changes the disk when that process has ended.</summary>
    public virtual void SetUp(SimDisk disk)
    {
    }

    /// <summary>The whole life of the process that is killed.</summary>
    public void Begin(SimServices os)
    {
        using MappedFileQueue queue = Open(os);
        Begin(queue);
    }

    /// <summary>Opens the store as the two processes of the call do.</summary>
    public virtual MappedFileQueue Open(SimServices os) => OpenPlain(os);

    /// <summary>Opens it as all others do.</summary>
    public MappedFileQueue OpenPlain(SimServices os) => new(Options(os));

    protected abstract void Begin(MappedFileQueue queue);

    /// <summary>The same call, to its end.</summary>
    public abstract void Again(MappedFileQueue queue);

    /// <summary>What must be so after the cut.</summary>
    public virtual void Check(MappedFileQueue queue) => CheckMessages(Acknowledged, 0);

    /// <summary>
    /// What is there is a piece of the log without a gap, and holds what was acknowledged from a number on.
    /// </summary>
    public virtual void CheckMessages(int acknowledged, int firstMax)
    {
        using MappedFileReader reader = MappedFileReader.Open(SimDisk.Root);
        int first = NoNumber;
        int next = NoNumber;
        while (reader.TryRead(out ReadOnlySpan<byte> message))
        {
            int number = BinaryPrimitives.ReadInt32LittleEndian(message);
            if (message.Length != MessageLength || message[sizeof(int)..].ContainsAnyExcept((byte)number)
                || (number != NoNumber && next != NoNumber && number != next))
                throw new LabViolation($"Message {number} stands at {reader.MessageOffset}, where {next} is expected");
            if (number == NoNumber)
                continue;
            first = first == NoNumber ? number : first;
            next = number + 1;
        }

        if (acknowledged > 0 && (next < acknowledged || first > firstMax))
            throw new LabViolation($"{acknowledged} messages were acknowledged, and {first} to {next - 1} are there");
    }

    protected static MappedFileQueueOptions Options(SimServices os)
    {
        CurrentPlatform.Services = os;
        return new MappedFileQueueOptions
        {
            StorePath = SimDisk.Root,
            SegmentSize = SegmentLength,
            ConsumerSpinWaitDuration = TimeSpan.Zero,
            FlushInterval = TimeSpan.FromHours(1),
        };
    }

    protected void Append(MappedFileQueue queue, int count, DurabilityLevel level = DurabilityLevel.PageCache)
    {
        using MappedFileProducer producer = queue.OpenProducer();
        for (int i = 0; i < count; i++)
        {
            producer.Produce(Message(Count), new ProduceOptions { Durability = level });
            Count++;
            if (level == DurabilityLevel.Group)
                Acknowledged = Count;
        }
    }

    protected void AppendAndFlush(MappedFileQueue queue, int count)
    {
        Append(queue, count);
        queue.Flush();
        Acknowledged = Count;
    }

    /// <summary>Of the process that dies: as many of them as it came to.</summary>
    protected static void AppendUnnumbered(MappedFileQueue queue, int count, DurabilityLevel level = DurabilityLevel.PageCache)
    {
        using MappedFileProducer producer = queue.OpenProducer();
        for (int i = 0; i < count; i++)
            producer.Produce(Message(NoNumber), new ProduceOptions { Durability = level });
    }

    /// <summary>The number that a message begins with.</summary>
    protected static int NumberOf(ReadOnlySpan<byte> message) => BinaryPrimitives.ReadInt32LittleEndian(message);

    protected static void CheckConsumer(MappedFileQueue queue, string name, long offset)
    {
        MappedFileConsumerInfo? found = queue.GetInfo().Consumers.FirstOrDefault(consumer => consumer.Name == name);
        if (found?.Offset != offset)
            throw new LabViolation($"The consumer \"{name}\" stood at {offset}, and "
                + (found is null ? "is not there any more" : $"stands at {found.Offset}"));
    }

    private static byte[] Message(int number)
    {
        byte[] message = new byte[MessageLength];
        message.AsSpan().Fill((byte)number);
        BinaryPrimitives.WriteInt32LittleEndian(message, number);
        return message;
    }
}
