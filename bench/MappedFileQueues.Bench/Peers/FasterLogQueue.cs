using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using FASTER.core;
using MappedFileQueues.Bench.Queues;

namespace MappedFileQueues.Bench.Peers;

/// <summary>
/// FasterLog on its own device for local files, which writes through to the disk. Its memory holds all messages of a repetition
/// twice and half of it may stay unwritten, so that no append waits for the disk. Entries are copied in by Enqueue and consumed
/// in place.
/// </summary>
internal sealed class FasterLogQueue : BenchQueue
{
    /// <summary>An entry with its header, and with a checksum where there is one.</summary>
    private const int EntryLengthMax = 80;

    /// <summary>Pages that are not committed are written only when they fill more than this.</summary>
    private const double UnwrittenShare = 0.5;

    private const int PageLength = 1 << 22;
    private const int PagesMin = 4;

    private readonly FasterLogSettings _settings;
    private readonly FasterLog _log;
    private readonly StrongBox<ulong> _sum = new();
    private readonly bool _followsTail;
    private FasterLogScanIterator _scan;
    private long _start;
    private Message64 _message = Message64.Create();

    /// <param name="path">The folder.</param>
    /// <param name="count">How many messages its memory has to hold.</param>
    /// <param name="followsTail">A reader gets what is not committed yet; each append then moves the safe tail on.</param>
    /// <param name="isDurable">Commits are made to be frequent.</param>
    public FasterLogQueue(string path, long count, bool followsTail = false, bool isDurable = false)
    {
        _followsTail = followsTail;
        long memory = Math.Max((long)(count * EntryLengthMax / UnwrittenShare) + PageLength, PagesMin * PageLength);
        _settings = new FasterLogSettings(path)
        {
            PageSize = PageLength,
            MemorySize = (long)BitOperations.RoundUpToPowerOf2((ulong)memory),
            MutableFraction = UnwrittenShare,
            TryRecoverLatest = false,
            AutoRefreshSafeTailAddress = followsTail,
        };
        if (isDurable)
        {
            // A commit is a record of the log itself, which needs checksums: a caller waits for one write to the disk, not two.
            _settings.FastCommitMode = true;
            _settings.LogChecksum = LogChecksumType.PerEntry;
        }

        _log = new FasterLog(_settings);
        _start = _log.BeginAddress;
        _scan = Scan();
    }

    /// <summary>
    /// Goes once around the memory and commits: the pages are there when the next appends come, as in a prepared segment.
    /// </summary>
    public override void Prepare(long bytes)
    {
        while (_log.TailAddress - _log.BeginAddress < _settings.MemorySize)
            AppendChunk(0, 1000);
        _log.Commit(spinWait: true);
        _start = _log.TailAddress;
    }

    /// <summary>Commits first: without that, only a reader that follows the tail gets anything.</summary>
    public override void SeekToStart()
    {
        _log.Commit(spinWait: true);
        _scan.Dispose();
        _scan = Scan();
    }

    public override void Dispose()
    {
        _scan.Dispose();
        _log.Dispose();
        _settings.Dispose();
    }

    /// <summary>Appends messages and commits each before the next: for a caller that has no company.</summary>
    public Task AppendAndCommit(int count) => AppendDurably(count, async (log, bytes) =>
    {
        await log.EnqueueAsync(bytes).ConfigureAwait(false);
        await log.CommitAsync().ConfigureAwait(false);
    });

    /// <summary>Appends messages, each on the disk before the next, while <see cref="StartCommitting"/> commits.</summary>
    public Task AppendAndWait(int count) =>
        AppendDurably(count, async (log, bytes) => await log.EnqueueAndWaitForCommitAsync(bytes).ConfigureAwait(false));

    /// <summary>Commits in a task, one commit after the other, until the answer is disposed.</summary>
    public IDisposable StartCommitting() => new Committer(_log);

    protected override void AppendChunk(long from, int count) => Append(_log, ref _message, from, count);

    protected override ulong ReadChunk(int count)
    {
        _sum.Value = 0;
        Adder adder = new(_sum);
        for (int i = 0; i < count; i++)
        {
            while (!_scan.TryConsumeNext(adder))
            {
                if (!_scan.WaitAsync().AsTask().GetAwaiter().GetResult())
                    throw new ToolException($"The log of a peer ended early: peer=FasterLog, missing={count - i}.");
            }
        }

        return _sum.Value;
    }

    private async Task AppendDurably(int count, Func<FasterLog, byte[], Task> append)
    {
        byte[] bytes = new byte[Message64.Length];
        Message64 message = Message64.Create();
        for (int i = 0; i < count; i++)
        {
            message.Number = (ulong)i;
            MemoryMarshal.Write(bytes, in message);
            await append(_log, bytes).ConfigureAwait(false);
        }
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private static void Append(FasterLog log, ref Message64 message, long from, int count)
    {
        for (int i = 0; i < count; i++)
        {
            message.Number = (ulong)(from + i);
            log.Enqueue(MemoryMarshal.AsBytes(new ReadOnlySpan<Message64>(in message)));
        }
    }

    private FasterLogScanIterator Scan() => _log.Scan(_start, long.MaxValue, scanUncommitted: _followsTail);

    private readonly struct Adder(StrongBox<ulong> sum) : ILogEntryConsumer
    {
        public void Consume(ReadOnlySpan<byte> entry, long currentAddress, long nextAddress) =>
            sum.Value += MemoryMarshal.AsRef<Message64>(entry).Sum();
    }

    private sealed class Committer : IDisposable
    {
        private readonly Task _task;
        private volatile bool _ends;

        public Committer(FasterLog log) => _task = Task.Run(async () =>
        {
            while (!_ends)
            {
                await log.CommitAsync().ConfigureAwait(false);

                // With nothing to commit the call returns at once.
                await Task.Yield();
            }
        });

        public void Dispose()
        {
            _ends = true;
            _task.GetAwaiter().GetResult();
        }
    }
}
