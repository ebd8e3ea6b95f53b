using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Groups;

/// <summary>Either kind of queue with groups, seen by the tests: a message is a number.</summary>
internal abstract class GroupQueue : IDisposable
{
    public static GroupQueue Open(QueueKind kind, MappedFileQueueOptions options) => kind == QueueKind.Struct
        ? new StructGroupQueue(new MappedFileQueue<Tick>(options))
        : new MessageGroupQueue(new MappedFileQueue(options));

    public abstract long Produce(long number);

    public abstract Member OpenMember(string group = "workers", GroupOptions? options = null);

    public abstract bool DeleteGroup(string group);

    public abstract void ResetGroup(string group, QueueStart start);

    public abstract long Trim(long before);

    public abstract void SetRetention(RetentionOptions policy);

    public abstract long Flush();

    public abstract long Snapshot(string target);

    public abstract MappedFileQueueInfo GetInfo();

    public abstract void Dispose();

    public List<long> ProduceMany(int count, long from = 0) =>
        [.. Enumerable.Range(0, count).Select(i => Produce(from + i))];
}

/// <summary>A member of a group.</summary>
internal abstract class Member : IDisposable
{
    public abstract int Slot { get; }

    public abstract long MessageOffset { get; }

    public abstract int DeliveryCount { get; }

    public abstract int UnacknowledgedCount { get; }

    public abstract long Consume(CancellationToken cancellationToken = default);

    public abstract bool TryConsume(out long number, TimeSpan timeout = default);

    /// <summary>The messages and their offsets.</summary>
    public abstract List<(long Number, long Offset)> ConsumeBatch(int countMax);

    public abstract ValueTask<long> ConsumeAsync(CancellationToken cancellationToken = default);

    public abstract ValueTask<bool> WaitToConsumeAsync(CancellationToken cancellationToken = default);

    public abstract void Acknowledge();

    public abstract void Acknowledge(params ReadOnlySpan<long> offsets);

    public abstract void Reject(long offset, TimeSpan delay = default, bool deadLetter = false, string? reason = null);

    public abstract void Flush();

    public abstract void Dispose();

    /// <summary>Takes and acknowledges all that is there.</summary>
    public List<long> Drain()
    {
        List<long> numbers = [];
        while (TryConsume(out long number))
        {
            numbers.Add(number);
            Acknowledge();
        }

        return numbers;
    }

    /// <summary>Waits for a message that comes back, or is appended.</summary>
    public long Await()
    {
        Assert.True(TryConsume(out long number, Eventually.DefaultDeadline), "a message comes");
        return number;
    }
}

internal sealed class StructGroupQueue(MappedFileQueue<Tick> queue) : GroupQueue
{
    public override long Produce(long number) => queue.Producer.Produce(Tick.Make(0, number));

    public override Member OpenMember(string group = "workers", GroupOptions? options = null) =>
        new StructMember(queue.OpenGroupMember(group, options));

    public override bool DeleteGroup(string group) => queue.DeleteGroup(group);

    public override void ResetGroup(string group, QueueStart start) => queue.ResetGroup(group, start);

    public override long Trim(long before) => queue.Trim(before);

    public override void SetRetention(RetentionOptions policy) => queue.SetRetention(policy);

    public override long Flush() => queue.Flush();

    public override long Snapshot(string target) => queue.Snapshot(target);

    public override MappedFileQueueInfo GetInfo() => queue.GetInfo();

    public override void Dispose() => queue.Dispose();
}

internal sealed class MessageGroupQueue(MappedFileQueue queue) : GroupQueue
{
    public override long Produce(long number) => queue.Producer.Produce(Payload.Make(0, number));

    public override Member OpenMember(string group = "workers", GroupOptions? options = null) =>
        new MessageMember(queue.OpenGroupMember(group, options));

    public override bool DeleteGroup(string group) => queue.DeleteGroup(group);

    public override void ResetGroup(string group, QueueStart start) => queue.ResetGroup(group, start);

    public override long Trim(long before) => queue.Trim(before);

    public override void SetRetention(RetentionOptions policy) => queue.SetRetention(policy);

    public override long Flush() => queue.Flush();

    public override long Snapshot(string target) => queue.Snapshot(target);

    public override MappedFileQueueInfo GetInfo() => queue.GetInfo();

    public override void Dispose() => queue.Dispose();
}

internal sealed class StructMember(MappedFileGroupMember<Tick> member) : Member
{
    public override int Slot => member.Slot;

    public override long MessageOffset => member.MessageOffset;

    public override int DeliveryCount => member.DeliveryCount;

    public override int UnacknowledgedCount => member.UnacknowledgedCount;

    public override long Consume(CancellationToken cancellationToken = default)
    {
        member.Consume(out Tick tick, cancellationToken);
        return tick.Verify();
    }

    public override bool TryConsume(out long number, TimeSpan timeout = default)
    {
        bool found = timeout == default ? member.TryConsume(out Tick tick) : member.TryConsume(out tick, timeout);
        number = found ? tick.Verify() : -1;
        return found;
    }

    public override List<(long Number, long Offset)> ConsumeBatch(int countMax)
    {
        var ticks = new Tick[countMax];
        long[] offsets = new long[countMax];
        int count = member.ConsumeBatch(ticks, offsets);
        return [.. Enumerable.Range(0, count).Select(i => (ticks[i].Verify(), offsets[i]))];
    }

    public override async ValueTask<long> ConsumeAsync(CancellationToken cancellationToken = default) =>
        (await member.ConsumeAsync(cancellationToken)).Verify();

    public override ValueTask<bool> WaitToConsumeAsync(CancellationToken cancellationToken = default) =>
        member.WaitToConsumeAsync(cancellationToken);

    public override void Acknowledge() => member.Acknowledge();

    public override void Acknowledge(params ReadOnlySpan<long> offsets) => member.Acknowledge(offsets);

    public override void Reject(long offset, TimeSpan delay = default, bool deadLetter = false, string? reason = null) =>
        member.Reject(offset, delay, deadLetter, reason);

    public override void Flush() => member.Flush();

    public override void Dispose() => member.Dispose();
}

internal sealed class MessageMember(MappedFileGroupMember member) : Member
{
    public override int Slot => member.Slot;

    public override long MessageOffset => member.MessageOffset;

    public override int DeliveryCount => member.DeliveryCount;

    public override int UnacknowledgedCount => member.UnacknowledgedCount;

    public override long Consume(CancellationToken cancellationToken = default) =>
        Payload.Verify(member.Consume(cancellationToken)).Number;

    public override bool TryConsume(out long number, TimeSpan timeout = default)
    {
        bool found = timeout == default
            ? member.TryConsume(out ReadOnlySpan<byte> message)
            : member.TryConsume(out message, timeout);
        number = found ? Payload.Verify(message).Number : -1;
        return found;
    }

    public override List<(long Number, long Offset)> ConsumeBatch(int countMax)
    {
        List<(long, long)> messages = [];
        GroupBatch batch = member.ConsumeBatch(countMax);
        while (batch.MoveNext())
            messages.Add((Payload.Verify(batch.Current).Number, batch.Offset));
        batch.Dispose();
        return messages;
    }

    public override async ValueTask<long> ConsumeAsync(CancellationToken cancellationToken = default) =>
        Payload.Verify((await member.ConsumeAsync(cancellationToken)).Span).Number;

    public override ValueTask<bool> WaitToConsumeAsync(CancellationToken cancellationToken = default) =>
        member.WaitToConsumeAsync(cancellationToken);

    public override void Acknowledge() => member.Acknowledge();

    public override void Acknowledge(params ReadOnlySpan<long> offsets) => member.Acknowledge(offsets);

    public override void Reject(long offset, TimeSpan delay = default, bool deadLetter = false, string? reason = null) =>
        member.Reject(offset, delay, deadLetter, reason);

    public override void Flush() => member.Flush();

    public override void Dispose() => member.Dispose();
}
