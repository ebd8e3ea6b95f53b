using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Again;

/// <summary>Makes a group, and ends some of its messages.</summary>
internal sealed class OpenMemberAgain : RepeatScenario
{
    private const string Group = "g";
    private const int EndedCount = 3;

    public override void SetUp(MappedFileQueue queue) => AppendAndFlush(queue, 8);

    protected override void Begin(MappedFileQueue queue)
    {
        using MappedFileGroupMember member = queue.OpenGroupMember(Group);
    }

    public override void Again(MappedFileQueue queue)
    {
        using MappedFileGroupMember member = queue.OpenGroupMember(Group);
        for (int i = 0; i < EndedCount; i++)
        {
            if (!member.TryConsume(out _))
                throw new LabViolation($"The group has {i} messages");
            member.Acknowledge();
        }

        member.Flush();
    }

    public override void Check(MappedFileQueue queue)
    {
        base.Check(queue);
        using MappedFileGroupMember member = queue.OpenGroupMember(Group);
        if (!member.TryConsume(out ReadOnlySpan<byte> message) || NumberOf(message) != EndedCount)
            throw new LabViolation($"{EndedCount} messages have ended, and the next one is at {member.MessageOffset}");
    }
}

/// <summary>Removes the messages that a group has ended, and whose ends another process has saved, or was about to.</summary>
internal sealed class TrimSavedAgain : RepeatScenario
{
    private const string Group = "g";
    private const int AppendedCount = 7;

    public override bool MayBeByThird => false;

    public override void SetUp(MappedFileQueue queue)
    {
        queue.SetRetention(new RetentionOptions { KeepUnconsumed = true });
        AppendAndFlush(queue, AppendedCount);
        queue.OpenGroupMember(Group).Dispose();
    }

    protected override void Begin(MappedFileQueue queue)
    {
        using MappedFileGroupMember member = queue.OpenGroupMember(Group);
        while (member.TryConsume(out _))
            member.Acknowledge();
        member.Flush();
    }

    public override void Again(MappedFileQueue queue) => queue.Trim(long.MaxValue);

    public override void Check(MappedFileQueue queue)
    {
        CheckMessages(Acknowledged, firstMax: AppendedCount);
        using MappedFileGroupMember member = queue.OpenGroupMember(Group);
        // Throws when the group needs what is removed.
        member.TryConsume(out _);
    }
}

/// <summary>Deletes a group.</summary>
internal sealed class DeleteGroupAgain : RepeatScenario
{
    private const string Group = "g";

    public override void SetUp(MappedFileQueue queue) => queue.OpenGroupMember(Group).Dispose();

    protected override void Begin(MappedFileQueue queue) => Again(queue);

    public override void Again(MappedFileQueue queue) => queue.DeleteGroup(Group);

    public override void Check(MappedFileQueue queue)
    {
        if (queue.GetInfo().Groups.Count > 0)
            throw new LabViolation("A group that was deleted is there");
    }
}

/// <summary>Makes a producer with an id, and appends by it.</summary>
internal sealed class OpenNumberedAgain : RepeatScenario
{
    private const string Id = "p";
    private ulong _last;

    public override void SetUp(MappedFileQueue queue) => AppendAndFlush(queue, 4);

    protected override void Begin(MappedFileQueue queue)
    {
        using MappedFileIdempotentProducer producer = queue.OpenProducer(Id);
    }

    public override void Again(MappedFileQueue queue)
    {
        using MappedFileIdempotentProducer producer = queue.OpenProducer(Id);
        for (int i = 0; i < 3; i++)
            producer.Produce([1, 2, 3, 4], new ProduceOptions { Durability = DurabilityLevel.Group });
        _last = producer.LastSequence;
    }

    public override void CheckMessages(int acknowledged, int firstMax)
    {
    }

    public override void Check(MappedFileQueue queue)
    {
        using MappedFileIdempotentProducer producer = queue.OpenProducer(Id);
        if (producer.LastSequence != _last)
            throw new LabViolation($"The producer has appended {_last} durable messages, and knows of {producer.LastSequence}");
    }
}

/// <summary>Forgets a producer.</summary>
internal sealed class DeleteProducerAgain : RepeatScenario
{
    private const string Id = "p";

    public override void SetUp(MappedFileQueue queue)
    {
        using MappedFileIdempotentProducer producer = queue.OpenProducer(Id);
        producer.Produce([1, 2, 3, 4], new ProduceOptions { Durability = DurabilityLevel.Group });
    }

    protected override void Begin(MappedFileQueue queue) => Again(queue);

    public override void Again(MappedFileQueue queue) => queue.DeleteProducer(Id);

    public override void CheckMessages(int acknowledged, int firstMax)
    {
    }

    public override void Check(MappedFileQueue queue)
    {
        using MappedFileIdempotentProducer producer = queue.OpenProducer(Id);
        if (producer.LastSequence != 0)
            throw new LabViolation($"A producer that was deleted knows of {producer.LastSequence} messages");
    }
}
