using System.Runtime.CompilerServices;
using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Headers;
using MappedFileQueues.Log.Appending;
using MappedFileQueues.Log.Sequences;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues;

/// <summary>
/// What the producers with an id of both kinds of queue share. The truth is in the log: each message has the producer and its
/// sequence in its header block, under its checksum.
/// <code>
/// 1 compare the sequence with the last one: at or below it, the message is in the log
/// 2 append the message with its sequence               killed after it: the next holder of the id finds it in the log
/// 3 raise the last sequence (a field of this process)
/// 4 once in a while, and at the end: note (sequence,   power loss: the file speaks of durable messages alone, so it
///   end) in the producer's file, once it is durable     never knows more than the log
/// </code>
/// One thread at a time, in Shared mode too: two threads could publish in the other order, and a scan that finds the higher
/// sequence would take the lower one for done.
/// </summary>
internal sealed class IdempotentCore : SingleCaller
{
    /// <summary>The next holder of the id walks over so much of the log, and over what is not durable.</summary>
    private const long NoteInterval = 256 * 1024;

    private readonly StoreEngine _queue;
    private readonly ProducerCore _core;
    private readonly PlatformLock _held;
    private readonly ProducerFile _file;
    private readonly bool _isPlain;
    private readonly Lock _disposing = new();
    private ulong _last;
    private long _end;
    private ulong _notedLast;
    private long _notedEnd;
    private long _noteFrom;
    private volatile bool _isAwaited;
    private QueuePoisonedException? _failure;
    private bool _disposed;

    public IdempotentCore(StoreEngine queue, string id)
    {
        _queue = queue;
        Id = id;
        _held = queue.TakeProducerId(id);
        try
        {
            _file = queue.OpenProducerFile(id, out _last, out _end);
            _core = new ProducerCore(queue);
        }
        catch
        {
            _file?.Dispose();
            _held.Dispose();
            throw;
        }

        _isPlain = _core.IsPlain;
        (_notedLast, _notedEnd, _noteFrom) = (_last, _end, _end + NoteInterval);
    }

    public string Id { get; }

    public ulong LastSequence => Volatile.Read(ref _last);

    public long ConfirmedOffset => _core.ConfirmedOffset;

    /// <summary>Appends a message with the next sequence; returns its offset.</summary>
    public long Append(ReadOnlySpan<byte> message, in ProduceOptions options)
    {
        _core.Check(options);
        using Turn turn = Begin();
        if (_last == ulong.MaxValue)
            throw new InvalidOperationException(
                $"The producer has used its last sequence, {_last}: id=\"{Id}\". Open a producer with another id.");
        return AppendOne(message, _last + 1, options);
    }

    /// <summary>
    /// Begins a call for a message that may be new, where no flush follows and nothing is stamped. False: the other way decides.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    [SkipLocalsInit]
    public unsafe bool TryBeginAtOnce(ulong sequence)
    {
        byte here;
        // Taken here, where the stack is higher than on the other way: a thread is known below the place of its first call.
        if (!_isPlain || !(TryBegin(&here, out _) || Take(&here)))
            return false;
        if (sequence > _last && !_isAwaited && _failure is null)
            return true;
        EndCall();
        return false;
    }

    /// <summary>
    /// Appends in a call that <see cref="TryBeginAtOnce"/> has begun, and ends it unless it throws; false when there is no room.
    /// Has no handlers of its own, so that it is inlined.
    /// </summary>
    /// <param name="payload">The message.</param>
    /// <param name="length">Its length.</param>
    /// <param name="isKnown">The length is constant at the call site.</param>
    /// <param name="sequence">Its sequence.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    [SkipLocalsInit]
    public bool AppendAtOnce(ref byte payload, int length, bool isKnown, ulong sequence)
    {
        Unsafe.SkipInit(out SmallHeaderBlock block);
        int blockLength = block.SetNumber(new MessageNumber(_file.Id, sequence));
        long offset = _core.Exclusive is { } exclusive
            ? exclusive.Append(ref payload, length, isKnown, block.Bytes(blockLength))
            : _core.Shared!.Append(ref payload, length, isKnown, block.Bytes(blockLength));
        if (offset >= 0)
            Count(sequence, offset + blockLength + FrameHeader.FrameLength(length));
        EndCall();
        return offset >= 0;
    }

    /// <summary>Ends a call that has thrown.</summary>
    public void EndFailed(Exception error)
    {
        NoteFailure(error);
        EndCall();
    }

    /// <summary>Appends a message unless its sequence, or a higher one, is in the log.</summary>
    public bool TryAppend(ReadOnlySpan<byte> message, ulong sequence, in ProduceOptions options)
    {
        Check(sequence, options);
        using Turn turn = Begin();
        if (sequence > _last)
        {
            AppendOne(message, sequence, options);
            return true;
        }

        // Who is told that the message is there may rely on it as on one of its own.
        _core.Confirm(_end, 0, options.Durability, ProducerCore.DeadlineOf(options));
        return false;
    }

    /// <summary>Appends those of a batch whose sequences are above the last one, all at once; returns how many.</summary>
    public int TryAppendBatch(in MessagesToAppend batch, ulong firstSequence, in ProduceOptions options)
    {
        Check(firstSequence, options);
        ulong further = (ulong)Math.Max(batch.Count, 1) - 1;
        ArgumentOutOfRangeException.ThrowIfGreaterThan(firstSequence, ulong.MaxValue - further);
        ulong last = firstSequence + further;
        using Turn turn = Begin();
        CallDeadline deadline = ProducerCore.DeadlineOf(options);
        if (batch.Count == 0)
        {
            _core.Appender.ThrowIfDisposed();
            return 0;
        }

        if (last <= _last)
        {
            _core.Confirm(_end, 0, options.Durability, deadline);
            return 0;
        }

        int seen = firstSequence > _last ? 0 : (int)(_last - firstSequence + 1);
        MessagesToAppend numbered = _core.Number(
            seen == 0 ? batch : batch.From(seen), options.Headers, new MessageNumber(_file.Id, firstSequence + (ulong)seen));
        long offset = AppendUnconfirmed(numbered, deadline);
        long end = offset + numbered.FramesLength;
        Count(last, end);
        _core.Confirm(end, numbered.Count, options.Durability, deadline);
        return numbered.Count;
    }

    /// <summary>
    /// As <see cref="TryAppend(ReadOnlySpan{byte}, ulong, in ProduceOptions)"/>, without blocking. Until the message is appended
    /// no other call may come, because a later one would be in front of it.
    /// </summary>
    public async ValueTask<bool> TryAppendAsync(ReadOnlyMemory<byte> message, ulong sequence, ProduceOptions options)
    {
        Check(sequence, options);
        if (!_core.MayPend)
            return TryAppend(message.Span, sequence, options);
        if (TryBeginAppend(message.Span, sequence, options, out ValueTask<long> append))
        {
            try
            {
                await append.ConfigureAwait(false);
            }
            catch (Exception error)
            {
                // Not when the message is appended, and its flush has failed: by now another call may be awaited.
                if (LastSequence < sequence)
                    EndAwaited(error);
                throw;
            }

            return true;
        }

        await append.ConfigureAwait(false);
        return false;
    }

    /// <summary>Ends the producer. The queue forgets its public face.</summary>
    public void Dispose(IDisposable face)
    {
        // Ends the calls that wait.
        _core.Dispose(face);
        lock (_disposing)
        {
            if (_disposed)
                return;
            _disposed = true;
            try
            {
                NoteAtEnd();
            }
            finally
            {
                _file.Dispose();
                _held.Dispose();
            }
        }
    }

    private void Check(ulong sequence, in ProduceOptions options)
    {
        ArgumentOutOfRangeException.ThrowIfZero(sequence);
        _core.Check(options);
    }

    [SkipLocalsInit]
    private unsafe Turn Begin()
    {
        byte here;
        bool isMine = TryBegin(&here, out _) || Take(&here);
        if (isMine && !_isAwaited && _failure is null)
            return new Turn(this);
        if (isMine)
            EndCall();
        if (_failure is not null)
            throw new QueuePoisonedException(
                $"A failed flush leaves it open what this producer has appended last: id=\"{Id}\". Open it again: it finds that "
                + "in the log.",
                _failure);
        throw new InvalidOperationException("Two calls use a producer with an id at once; nothing was appended by this one: "
            + $"id=\"{Id}\". Await one call before the next, or open a producer with another id for each thread.");
    }

    [SkipLocalsInit]
    private long AppendOne(ReadOnlySpan<byte> message, ulong sequence, in ProduceOptions options)
    {
        Span<byte> scratch = stackalloc byte[HeaderBlock.LengthMax];
        ReadOnlySpan<byte> block = _core.WriteBlock(options.Headers, new MessageNumber(_file.Id, sequence), scratch);
        var numbered = new MessagesToAppend(message, block);
        CallDeadline deadline = ProducerCore.DeadlineOf(options);
        long offset = AppendUnconfirmed(numbered, deadline);
        long end = offset + numbered.FramesLength;
        // Before the flush: a message whose flush fails is in the log, and a repetition is one.
        Count(sequence, end);
        _core.Confirm(end, 1, options.Durability, deadline);
        return offset;
    }

    /// <summary>Begins an asynchronous append; false for a repetition, whose durability alone is awaited.</summary>
    private bool TryBeginAppend(ReadOnlySpan<byte> message, ulong sequence, in ProduceOptions options, out ValueTask<long> append)
    {
        using Turn turn = Begin();
        try
        {
            if (sequence <= _last)
            {
                append = _core.ConfirmAsync(_end, options);
                return false;
            }

            Span<byte> scratch = stackalloc byte[HeaderBlock.LengthMax];
            var numbered = new MessagesToAppend(
                message, _core.WriteBlock(options.Headers, new MessageNumber(_file.Id, sequence), scratch));
            long length = numbered.FramesLength;
            _isAwaited = true;
            append = _core.AppendAsync(numbered, options, offset =>
            {
                Count(sequence, offset + length);
                _isAwaited = false;
            });
            return true;
        }
        catch (Exception error)
        {
            EndAwaited(error);
            throw;
        }
    }

    /// <summary>An asynchronous call has failed before its message was counted.</summary>
    private void EndAwaited(Exception error)
    {
        NoteFailure(error);
        _isAwaited = false;
    }

    /// <summary>What a poisoned queue refused may be published: a repetition would append it twice.</summary>
    private void NoteFailure(Exception error) => _failure = error as QueuePoisonedException ?? _failure;

    private long AppendUnconfirmed(in MessagesToAppend messages, CallDeadline deadline)
    {
        try
        {
            return _core.AppendUnconfirmed(messages, deadline);
        }
        catch (QueuePoisonedException error)
        {
            NoteFailure(error);
            throw;
        }
    }

    private void Count(ulong sequence, long end)
    {
        Volatile.Write(ref _last, sequence);
        _end = end;
        if (end >= _noteFrom)
            Note();
    }

    /// <summary>Notes the last message, once the one that was noted before it is durable and in the file.</summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private void Note()
    {
        _noteFrom = _end + NoteInterval;
        // An asynchronous append may come here while the queue is disposed.
        lock (_disposing)
        {
            if (_disposed || !IsDurable(_notedEnd))
                return;
            _file.Raise(_notedLast, _notedEnd);
            (_notedLast, _notedEnd) = (_last, _end);
        }
    }

    /// <summary>
    /// A call of another thread may be between a sequence and its offset. Then nothing is noted: the log says it all.
    /// </summary>
    [SkipLocalsInit]
    private unsafe void NoteAtEnd()
    {
        byte here;
        if (!TryBegin(&here, out _) && !Take(&here))
            return;
        if (!_isAwaited)
            NoteLast();
        EndCall();
    }

    private void NoteLast()
    {
        if (IsDurable(_end))
            _file.Raise(_last, _end);
        else if (IsDurable(_notedEnd))
            _file.Raise(_notedLast, _notedEnd);
    }

    private bool IsDurable(long end) =>
        _queue.Store.ConfirmedOffset >= end || PlantedFaults.Has(PlantedFault.SequenceHintAboveDurable);

    private readonly struct Turn(IdempotentCore core) : IDisposable
    {
        public void Dispose() => core.EndCall();
    }
}
