using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Crash;

namespace MappedFileQueues.Tests.Randomized;

/// <summary>
/// Takes a list of steps on a real queue and on the model. A second queue on the store sets policies and trims. Both have their
/// threads of retention beside the steps; after each step the policy is also applied here, so that what is kept is known, and
/// everything is compared.
/// </summary>
internal sealed class RetentionRun : IDisposable
{
    private readonly TempStore _store = TempStore.InMemory();
    private readonly MappedFileQueueOptions _options;
    private readonly Dictionary<string, OpenedConsumer> _open = [];
    private readonly List<MessagesSkippedEventArgs> _skipped = [];
    private MappedFileQueue _queue;
    private StoreEngine _retainer;
    private RetentionModel _model = RetentionModel.Empty;
    private int _seed;

    public RetentionRun(ProducerMode mode)
    {
        _options = new MappedFileQueueOptions
        {
            StorePath = _store.StorePath,
            SegmentSize = RetentionModel.SegmentLength,
            ProducerMode = mode,
        };
        (_queue, _retainer) = (OpenQueue(), OpenRetainer());
    }

    /// <summary>How many steps have removed something, so that a test can tell that it has shown something.</summary>
    public static int RemovalCount { get; private set; }

    public void Take(RetentionStep step)
    {
        switch (step.Operation)
        {
            case RetentionOperation.Produce or RetentionOperation.Batch or RetentionOperation.Abandon:
                Append(step.Operation, step.Number);
                break;
            case RetentionOperation.OpenConsumer:
                OpenConsumer(step.Consumer, step.Number);
                break;
            case RetentionOperation.CloseConsumer:
                CloseConsumer(step.Consumer);
                break;
            case RetentionOperation.DeleteConsumer or RetentionOperation.ResetConsumer:
                ChangeConsumer(step.Operation, step.Consumer, step.Number);
                break;
            case RetentionOperation.SetRetention:
                RetentionOptions policy = MakePolicy(step.Number);
                _retainer.SetRetention(policy);
                _model = _model with { Policy = policy };
                break;
            case RetentionOperation.Trim:
                Trim(OffsetOf(step.Number % (_model.Messages.Count + 1)));
                break;
            case RetentionOperation.Snapshot:
                Snapshot();
                break;
            case RetentionOperation.Reopen:
                Reopen(besideAnother: step.Number % 2 == 0);
                break;
            case RetentionOperation.ReadAll:
                ReadAll(_store.StorePath);
                break;
            default:
                if (_open.TryGetValue(step.Consumer, out OpenedConsumer? consumer))
                    Use(step.Operation, step.Consumer, consumer, step.Number);
                break;
        }

        Compare();
    }

    public void Dispose()
    {
        _queue.Dispose();
        _retainer.Dispose();
        _store.Dispose();
    }

    private MappedFileQueue OpenQueue()
    {
        var queue = new MappedFileQueue(_options);
        queue.MessagesSkipped += (_, skipped) => _skipped.Add(skipped);
        return queue;
    }

    private StoreEngine OpenRetainer() => new(_options, StoreKind.Messages, 0, 0);

    private void Append(RetentionOperation operation, int number)
    {
        byte[] message = Payload.Bytes(number, ++_seed);
        switch (operation)
        {
            case RetentionOperation.Produce:
                _model = _model.Add(_queue.Producer.Produce(message), message);
                break;
            case RetentionOperation.Batch:
                byte[][] messages = [.. Enumerable.Range(0, number % 12).Select(_ => Payload.Bytes(number % 300, ++_seed))];
                long offset = _queue.Producer.ProduceBatch([.. messages.Select(bytes => (ReadOnlyMemory<byte>)bytes)]);
                foreach (byte[] bytes in messages)
                {
                    _model = _model.Add(offset, bytes);
                    offset += (bytes.Length + 8 + 7) & ~7;
                }

                break;
            default:
                _queue.Producer.DangerousClaim(number).Dispose();
                break;
        }
    }

    private void OpenConsumer(string name, int number)
    {
        if (_open.ContainsKey(name))
            return;
        var options = new ConsumerOptions
        {
            Start = number % 2 == 0 ? QueueStart.Earliest : QueueStart.Latest,
            OnOutOfRange = (OutOfRangePolicy)(number % 3),
        };
        bool isNew = !_model.Consumers.TryGetValue(name, out ConsumerPlace? place);
        if (!isNew && IsDropped(name) && options.OnOutOfRange == OutOfRangePolicy.Throw)
        {
            Assert.Throws<OffsetOutOfRangeException>(() => _queue.OpenConsumer(name, options));
            return;
        }

        _open[name] = new OpenedConsumer(_queue.OpenConsumer(name, options), options.OnOutOfRange);
        if (isNew)
            place = ConsumerPlace.At(number % 2 == 0 ? _model.FirstKept : _model.Messages.Count);
        _model = _model.With(name, place!.Rewind());
    }

    private void CloseConsumer(string name)
    {
        if (!_open.Remove(name, out OpenedConsumer? consumer))
            return;
        consumer.Consumer.Dispose();
        _model = _model.With(name, _model.Consumers[name].Rewind());
    }

    private void ChangeConsumer(RetentionOperation operation, string name, int number)
    {
        bool deletes = operation == RetentionOperation.DeleteConsumer;
        int index = number % (_model.Messages.Count + 1);
        QueueStart start = QueueStart.FromOffset(OffsetOf(index));
        if (_open.ContainsKey(name))
        {
            Assert.Throws<QueueInUseException>(() => Change());
            return;
        }

        if (deletes)
        {
            Assert.Equal(_model.Consumers.ContainsKey(name), _queue.DeleteConsumer(name));
            _model = _model with { Consumers = _model.Consumers.Remove(name) };
        }
        else if (_model.IsGone(index))
        {
            Assert.Throws<OffsetOutOfRangeException>(Change);
        }
        else
        {
            Change();
            _model = _model.With(name, ConsumerPlace.At(index));
        }

        void Change()
        {
            if (deletes)
                _queue.DeleteConsumer(name);
            else
                _queue.ResetConsumer(name, start);
        }
    }

    private void Use(RetentionOperation operation, string name, OpenedConsumer opened, int number)
    {
        MappedFileConsumer consumer = opened.Consumer;
        ConsumerPlace place = _model.Consumers[name];
        switch (operation)
        {
            case RetentionOperation.Consume:
                place = Consume(opened, place);
                break;
            case RetentionOperation.Advance:
                consumer.Advance();
                place = place.Advance();
                break;
            case RetentionOperation.Commit:
                place = place.Commit();
                try
                {
                    consumer.Commit();
                }
                catch (OffsetOutOfRangeException)
                {
                    Assert.Equal(OutOfRangePolicy.Throw, opened.Policy);
                    Assert.True(consumer.CommittedOffset < _model.Oldest);
                }

                break;
            case RetentionOperation.Rewind:
                consumer.Rewind();
                place = place.Rewind();
                break;
            case RetentionOperation.SeekToStart:
                consumer.SeekToStart();
                place = ConsumerPlace.At(_model.FirstKept);
                break;
            case RetentionOperation.SeekToEnd:
                consumer.SeekToEnd();
                place = ConsumerPlace.At(_model.Messages.Count);
                break;
            case RetentionOperation.AdjustOffset:
                int index = number % (_model.Messages.Count + 1);
                if (_model.IsGone(index))
                {
                    Assert.Throws<OffsetOutOfRangeException>(() => consumer.AdjustOffset(OffsetOf(index)));
                    break;
                }

                consumer.AdjustOffset(OffsetOf(index));
                place = ConsumerPlace.At(index);
                break;
        }

        _model = _model.With(name, place);
    }

    /// <summary>
    /// A message that was removed may still be read, by a consumer that has its segment mapped; then it is as it was. Otherwise
    /// the consumer does what its policy says, and what it skipped is reported.
    /// </summary>
    private ConsumerPlace Consume(OpenedConsumer opened, ConsumerPlace place)
    {
        MappedFileConsumer consumer = opened.Consumer;
        _skipped.Clear();
        long before = consumer.Offset;
        ReadOnlySpan<byte> message;
        bool found;
        try
        {
            found = consumer.TryConsume(out message);
        }
        catch (OffsetOutOfRangeException)
        {
            Assert.Equal(OutOfRangePolicy.Throw, opened.Policy);
            Assert.True(before < _model.Oldest);
            return place;
        }

        if (_skipped.Count > 0)
        {
            MessagesSkippedEventArgs skipped = Assert.Single(_skipped);
            Assert.NotEqual(OutOfRangePolicy.Throw, opened.Policy);
            Assert.InRange(skipped.Offset, before, _model.Oldest - 1);
            Assert.True(skipped.NextOffset >= _model.Oldest);
            place = ConsumerPlace.At(
                opened.Policy == OutOfRangePolicy.Earliest ? _model.FirstKept : _model.Messages.Count);
        }

        Assert.Equal(place.Read < _model.Messages.Count, found);
        if (!found)
            return place;
        Assert.Equal(_model.Messages[place.Read].Bytes, message);
        Assert.Equal(_model.Messages[place.Read].Offset, consumer.MessageOffset);
        return place with { HasMessage = true };
    }

    private void Trim(long before)
    {
        (long last, long tail) = FindTail();
        long expected = _model.OldestAfterTrim(before, last, tail, Cursors());
        Assert.Equal(expected, _retainer.Trim(before));
        NoteOldest(expected);
    }

    private void Snapshot()
    {
        string target = Path.Combine(_store.Root, $"snapshot-{++_seed}");
        Assert.Equal(_queue.GetInfo().PublishedOffset, _queue.Snapshot(target));
        ReadAll(target);
        using (MappedFileReader reader = MappedFileReader.Open(target))
        {
            MappedFileQueueInfo info = reader.GetInfo();
            Assert.Equal(_model.Policy, info.Retention);
            Assert.Equal(_model.Consumers.Keys.Order(), info.Consumers.Select(consumer => consumer.Name).Order());
        }

        Directory.Delete(target, recursive: true);
    }

    private void Reopen(bool besideAnother)
    {
        _open.Clear();
        _queue.Dispose();
        if (!besideAnother)
        {
            _retainer.Dispose();
            _retainer = OpenRetainer();
        }

        _queue = OpenQueue();
        foreach (string name in _model.Consumers.Keys)
            _model = _model.With(name, _model.Consumers[name].Rewind());
    }

    private void ReadAll(string path)
    {
        using MappedFileReader reader = MappedFileReader.Open(path);
        for (int i = _model.FirstKept; i < _model.Messages.Count; i++)
        {
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
            Assert.Equal(_model.Messages[i].Bytes, message);
            Assert.Equal(_model.Messages[i].Offset, reader.MessageOffset);
        }

        Assert.False(reader.TryRead(out _));
    }

    private void Compare()
    {
        (long last, long tail) = FindTail();
        long expected = _model.OldestByPolicy(last, tail, Cursors());
        _retainer.ApplyRetention();
        NoteOldest(expected);

        MappedFileQueueInfo info = _queue.GetInfo();
        Assert.Equal(expected, info.LogStart);
        Assert.Equal(_model.Policy, info.Retention);
        Assert.Equal(_model.Consumers.Keys.Order(), info.Consumers.Select(consumer => consumer.Name).Order());
        foreach (MappedFileConsumerInfo consumer in info.Consumers)
            CompareOffset(_model.Consumers[consumer.Name].Committed, consumer.Offset);
        foreach ((string name, OpenedConsumer opened) in _open)
            CompareOffset(_model.Consumers[name].Read, opened.Consumer.Offset);
        Eventually.True(() => _retainer.Trim(0) == expected && !HasFileBelow(expected),
            "a preparer that was slow may make a removed segment again, and the next removal takes that along");
    }

    private bool HasFileBelow(long oldest) =>
        Directory.GetFiles(Path.Combine(_store.StorePath, StoreNames.CommitLog)).Any(
            file => StoreNames.TryParseSegment(Path.GetFileName(file), out long start) && start < oldest);

    private void NoteOldest(long oldest)
    {
        RemovalCount += oldest > _model.Oldest ? 1 : 0;
        _model = _model with { Oldest = oldest };
    }

    /// <summary>An offset may be before padding that leads up to the message it means.</summary>
    private void CompareOffset(int index, long offset)
    {
        Assert.True(index == 0 || offset > _model.Messages[index - 1].Offset,
            $"The offset lies before: index={index}, offset={offset}");
        bool isBefore = index == _model.Messages.Count || offset <= _model.Messages[index].Offset;
        Assert.True(isBefore, $"The offset lies behind: index={index}, offset={offset}");
    }

    private bool IsDropped(string name) =>
        _queue.GetInfo().Consumers.Single(consumer => consumer.Name == name).Offset < _model.Oldest;

    private long OffsetOf(int index) =>
        index < _model.Messages.Count ? _model.Messages[index].Offset : _queue.Producer.Offset;

    private IEnumerable<long> Cursors() => [.. _queue.GetInfo().Consumers.Select(consumer => consumer.Offset)];

    /// <summary>The start of the segment that always stays, and the end from which a consumer's distance counts.</summary>
    private (long Last, long Tail) FindTail()
    {
        using var words = new StoreWords(_store.StorePath);
        long tail = words.TailHint;
        long last = RetentionModel.StartOf(tail);
        if (last == tail && last > 0 && !words.HasSegment(last))
            last -= RetentionModel.SegmentLength;
        return (last, tail);
    }

    private static RetentionOptions MakePolicy(int number) => new()
    {
        MaxBytes = (number % 4) switch { 0 => null, 1 => 1, 2 => 2 * RetentionModel.SegmentLength, _ => 20_000 },
        MaxAge = (number % 7) switch { 0 => TimeSpan.FromTicks(1), 1 => TimeSpan.FromDays(1), _ => null },
        MinFreeBytes = (number % 11) switch { 0 => long.MaxValue, 1 => 1, _ => null },
        KeepUnconsumed = number % 3 != 0,
        UnconsumedBytesMax = (number % 5) switch { 0 => null, 1 => 1, _ => 10_000 },
        Recycle = number % 2 == 0,
    };

    private sealed record OpenedConsumer(MappedFileConsumer Consumer, OutOfRangePolicy Policy);
}
