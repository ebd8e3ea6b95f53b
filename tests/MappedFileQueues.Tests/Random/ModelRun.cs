using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Randomized;

/// <summary>Takes a list of steps on a real queue and on the model, and compares both after each.</summary>
internal sealed class ModelRun : IDisposable
{
    private readonly TempStore _store = TempStore.InMemory();
    private readonly MappedFileQueueOptions _options;
    private readonly List<long> _offsets = [];
    private MappedFileQueue _queue;
    private QueueModel _model = QueueModel.Empty;
    private int _seed;

    public ModelRun(ProducerMode mode)
    {
        _options = new MappedFileQueueOptions { StorePath = _store.StorePath, SegmentSize = 4096, ProducerMode = mode };
        _queue = new MappedFileQueue(_options);
    }

    public void Take(Step step)
    {
        int number = step.Number;
        switch (step.Operation)
        {
            case Operation.Produce or Operation.Batch or Operation.ClaimAndPublish or Operation.ClaimAndAbandon:
                Append(step.Operation, number);
                break;
            case Operation.Consume:
                Consume();
                break;
            case Operation.ConsumeBatch:
                ConsumeBatch(1 + (number % 20));
                break;
            case Operation.Flush:
                Assert.Equal(_queue.Producer.Offset, _queue.Flush());
                break;
            case Operation.ReadAll:
                ReadAll();
                break;
            case Operation.Reopen:
                _queue.Dispose();
                _queue = new MappedFileQueue(_options);
                _model = _model.Rewind();
                break;
            default:
                Move(step.Operation, number);
                break;
        }

        Compare();
    }

    public void Dispose()
    {
        _queue.Dispose();
        _store.Dispose();
    }

    private void Append(Operation operation, int number)
    {
        byte[] message = Payload.Bytes(number, ++_seed);
        switch (operation)
        {
            case Operation.Produce:
                _offsets.Add(_queue.Producer.Produce(message));
                _model = _model.Add(message);
                break;
            case Operation.Batch:
                byte[][] messages = [.. Enumerable.Range(0, number % 12).Select(i => Payload.Bytes(number % 200, ++_seed))];
                long offset = _queue.Producer.ProduceBatch([.. messages.Select(bytes => (ReadOnlyMemory<byte>)bytes)]);
                foreach (byte[] bytes in messages)
                {
                    _offsets.Add(offset);
                    offset += (bytes.Length + 8 + 7) & ~7;
                }

                _model = _model.Add(messages);
                break;
            default:
                using (MessageClaim claim = _queue.Producer.DangerousClaim(number + (_seed % 60)))
                {
                    message.CopyTo(claim.Span);
                    if (operation == Operation.ClaimAndAbandon)
                        break;
                    _offsets.Add(claim.Publish(number));
                }

                _model = _model.Add(message);
                break;
        }
    }

    private void Consume()
    {
        bool found = _queue.Consumer.TryConsume(out ReadOnlySpan<byte> message);
        _model = _model.Consume();
        Assert.Equal(_model.HasMessage, found);
        if (!found)
            return;
        Assert.Equal(_model.Messages[_model.Read], message);
        Assert.Equal(_offsets[_model.Read], _queue.Consumer.MessageOffset);
    }

    private void ConsumeBatch(int countMax)
    {
        _model = _model.Advance();
        if (_model.Read == _model.Messages.Count)
        {
            _queue.Consumer.Advance();
            return;
        }

        foreach (ReadOnlySpan<byte> message in _queue.Consumer.ConsumeBatch(countMax))
        {
            Assert.Equal(_model.Messages[_model.Read], message);
            _model = _model.Consume().Advance();
            countMax--;
        }

        Assert.True(countMax == 0 || _model.Read == _model.Messages.Count);
    }

    private void Move(Operation operation, int number)
    {
        MappedFileConsumer consumer = _queue.Consumer;
        int index = number % (_offsets.Count + 1);
        long offset = index < _offsets.Count ? _offsets[index] : _queue.Producer.Offset;
        switch (operation)
        {
            case Operation.Advance:
                consumer.Advance();
                _model = _model.Advance();
                break;
            case Operation.Commit:
                consumer.Commit();
                _model = _model.Commit();
                break;
            case Operation.CommitAt when index > (_model.HasMessage ? _model.Read + 1 : _model.Read):
                if (index < _offsets.Count)
                    Assert.Throws<OffsetOutOfRangeException>(() => consumer.Commit(offset));
                break;
            case Operation.CommitAt when index < _offsets.Count:
                // Padding may lie between what was read and the next message, so that one's offset can be too far.
                if (index > _model.Read || (index == _model.Read && offset > consumer.Offset))
                    break;
                consumer.Commit(offset);
                _model = _model with { Committed = index };
                break;
            case Operation.Rewind:
                consumer.Rewind();
                _model = _model.Rewind();
                break;
            case Operation.SeekToStart:
                consumer.SeekToStart();
                _model = _model.MoveTo(0);
                break;
            case Operation.SeekToEnd:
                consumer.SeekToEnd();
                _model = _model.MoveTo(_model.Messages.Count);
                break;
            case Operation.AdjustOffset:
                consumer.AdjustOffset(offset);
                _model = _model.MoveTo(index);
                Assert.Throws<OffsetOutOfRangeException>(() => consumer.AdjustOffset(offset + 4));
                break;
        }
    }

    private void ReadAll()
    {
        using MappedFileReader reader = _queue.OpenReader();
        foreach (byte[] expected in _model.Messages)
        {
            Assert.True(reader.TryRead(out ReadOnlySpan<byte> message));
            Assert.Equal(expected, message);
        }

        Assert.False(reader.TryRead(out _));
    }

    /// <summary>An offset may be before padding that leads up to the message it means.</summary>
    private void Compare()
    {
        CompareOffset(_model.Read, _queue.Consumer.Offset);
        CompareOffset(_model.Committed, _queue.Consumer.CommittedOffset);
    }

    private void CompareOffset(int index, long offset)
    {
        Assert.True(index == 0 || offset > _offsets[index - 1], $"The offset lies before: index={index}, offset={offset}");
        bool isBefore = index == _offsets.Count || offset <= _offsets[index];
        Assert.True(isBefore, $"The offset lies behind: index={index}, offset={offset}");
    }
}
