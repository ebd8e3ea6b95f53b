using MappedFileQueues.CrashLab.Work;

namespace MappedFileQueues.CrashLab.Again;

/// <summary>Opens a consumer at the end of the log.</summary>
internal sealed class OpenConsumerAgain : RepeatScenario
{
    private long _offset;

    public override void SetUp(MappedFileQueue queue) => AppendAndFlush(queue, 8);

    protected override void Begin(MappedFileQueue queue)
    {
        using MappedFileConsumer consumer = queue.OpenConsumer(Consumer, QueueStart.Latest);
        consumer.SeekToStart();
        consumer.Consume();
        consumer.Commit();
    }

    public override void Again(MappedFileQueue queue)
    {
        using MappedFileConsumer consumer = queue.OpenConsumer(Consumer, QueueStart.Latest);
        _offset = consumer.Offset;
    }

    public override void Check(MappedFileQueue queue) => CheckConsumer(queue, Consumer, _offset);
}

/// <summary>Commits durably.</summary>
internal sealed class CommitAgain : RepeatScenario
{
    private long _offset;

    public override void SetUp(MappedFileQueue queue)
    {
        AppendAndFlush(queue, 8);
        queue.OpenConsumer("").Dispose();
    }

    protected override void Begin(MappedFileQueue queue) => Consume(queue, 4);

    public override void Again(MappedFileQueue queue) => _offset = Consume(queue, 1);

    public override void Check(MappedFileQueue queue) => CheckConsumer(queue, "", _offset);

    private static long Consume(MappedFileQueue queue, int count)
    {
        using MappedFileConsumer consumer = queue.OpenConsumer("");
        for (int i = 0; i < count; i++)
        {
            consumer.Consume();
            consumer.Commit(durable: true);
        }

        return consumer.Offset;
    }
}

/// <summary>Deletes a consumer.</summary>
internal sealed class DeleteConsumerAgain : RepeatScenario
{
    public override void SetUp(MappedFileQueue queue) => queue.OpenConsumer(Consumer).Dispose();

    protected override void Begin(MappedFileQueue queue) => Again(queue);

    public override void Again(MappedFileQueue queue) => queue.DeleteConsumer(Consumer);

    public override void Check(MappedFileQueue queue)
    {
        if (queue.GetInfo().Consumers.Count > 0)
            throw new LabViolation("A consumer that was deleted is there");
    }
}

/// <summary>Moves a consumer from the end to the beginning.</summary>
internal sealed class ResetConsumerAgain : RepeatScenario
{
    public override void SetUp(MappedFileQueue queue)
    {
        AppendAndFlush(queue, 8);
        queue.OpenConsumer(Consumer, QueueStart.Latest).Dispose();
    }

    protected override void Begin(MappedFileQueue queue) => Again(queue);

    public override void Again(MappedFileQueue queue) => queue.ResetConsumer(Consumer, QueueStart.Earliest);

    public override void Check(MappedFileQueue queue) => CheckConsumer(queue, Consumer, 0);
}
