using MappedFileQueues.Bench.Figures;
using MappedFileQueues.Bench.Files;
using MappedFileQueues.Bench.Processes;
using MappedFileQueues.Bench.Queues;
using static MappedFileQueues.ProducerMode;

namespace MappedFileQueues.Bench.Peers;

/// <summary>What a process of the group `peers` measures; most figures are one role of their own name.</summary>
internal static class PeerRoles
{
    public static IReadOnlyDictionary<string, Func<ChildContext, IReadOnlyList<Samples>>> All { get; } =
        new Dictionary<string, Func<ChildContext, IReadOnlyList<Samples>>>
        {
            ["append_fasterlog"] = child => Store(child, "read_fasterlog", FasterLog, Shared, child.Messages),
            ["append_sqlite"] = child => Store(child, "read_sqlite", Sqlite, Shared, CountOfSqlite(child)),
            ["append_channel"] = child => Store(child, "read_channel", Channel, Shared, child.Messages),
            ["append_exclusive_fasterlog"] = child => Store(child, null, FasterLog, Exclusive, child.Messages),
            ["append_exclusive_channel"] = child => Store(child, null, Channel, Exclusive, child.Messages),
            ["append_prepared_fasterlog"] = Prepared,
            ["pass_fasterlog"] = child => Pass(
                child, (path, count) => new FasterLogQueue(path, count, followsTail: true), child.Messages),
            ["pass_sqlite"] = child => Pass(child, Sqlite, CountOfSqlite(child)),
            ["pass_channel"] = child => Pass(child, Channel, child.Messages),
            ["pass_2proc_sqlite"] = child => new SqlitePairFigure(child).Measure(),
            ["durable_1_fasterlog"] = child => DurableFasterLog(child, callerCount: 1),
            ["durable_1_sqlite"] = child => DurableSqlite(child, callerCount: 1, queue => queue.NewCaller),
            ["durable_1_persistentchannel"] = child => DurableChannel(child, callerCount: 1),
            ["durable_64_fasterlog"] = child => DurableFasterLog(child, Callers),
            ["durable_64_sqlite"] = child => DurableSqlite(child, Callers, queue => queue.NewCaller),
            ["durable_64_sqlite_locked"] = child => DurableSqlite(child, Callers, queue => queue.NewLockedCaller),
            ["durable_64_persistentchannel"] = child => DurableChannel(child, Callers),
            ["durable_batch_sqlite"] = DurableBatches,
            ["durable_read_persistentchannel"] = child => new StorePeerFigure(
                child, appendName: null, child.Task.Role, DurableSides(child)).Measure(),
            ["durable_pass_persistentchannel"] = child => new PassFigure(child, DurableSides(child)).Measure(),
            ["log_line_serilog"] = child => LogLines(child, LogPeers.Serilog, threadCount: 1),
            ["log_line_zlogger"] = child => LogLines(child, LogPeers.ZLogger, threadCount: 1),
            ["log_line_nlog"] = child => LogLines(child, LogPeers.NLog, threadCount: 1),
            ["log_line_4_serilog"] = child => LogLines(child, LogPeers.Serilog, threadCount: 4),
            ["log_line_4_zlogger"] = child => LogLines(child, LogPeers.ZLogger, threadCount: 4),
            ["log_line_4_nlog"] = child => LogLines(child, LogPeers.NLog, threadCount: 4),
        };

    private const int Callers = 64;

    /// <summary>A row of a table takes many times as long as a message of the others.</summary>
    public static long CountOfSqlite(ChildContext child) => Math.Max(child.Messages / 4, BenchSettings.MessagesMin);

    private static BenchQueue FasterLog(string path, long count) => new FasterLogQueue(path, count);

    private static BenchQueue Sqlite(string path, long count) => new SqliteQueue(path);

    private static BenchQueue Channel(string path, long count) => new ChannelQueue();

    private static Func<string, long, BenchQueue> Ours(ProducerMode mode) => (path, _) =>
        Attached(BenchStore.InDefaultSegments(path, mode));

    /// <summary>Producer and consumer are there before the clock starts, as those of a peer are.</summary>
    private static StructQueue Attached(MappedFileQueueOptions options)
    {
        StructQueue queue = new(options);
        queue.AttachProducer();
        queue.SeekToStart();
        return queue;
    }

    private static IReadOnlyList<Samples> Store(
        ChildContext child, string? readName, Func<string, long, BenchQueue> openPeer, ProducerMode mode, long count) =>
        new StorePeerFigure(child, child.Task.Role, readName, new PeerSides(openPeer, Ours(mode), count)).Measure();

    private static IReadOnlyList<Samples> Prepared(ChildContext child)
    {
        PeerSides sides = new(
            FasterLog,
            (path, count) => Attached(BenchStore.InOneSegment(path, count, Shared)),
            child.Messages,
            IsPrepared: true);
        return new StorePeerFigure(child, child.Task.Role, readName: null, sides).Measure();
    }

    private static IReadOnlyList<Samples> Pass(ChildContext child, Func<string, long, BenchQueue> openPeer, long count) =>
        new PassFigure(child, new PeerSides(openPeer, Ours(Exclusive), count, Unit: "msg/s")).Measure();

    /// <summary>Every message is flushed by both, when it is written and when it was read.</summary>
    private static PeerSides DurableSides(ChildContext child) => new(
        (path, count) => new PersistentChannelQueue(path, count),
        (path, _) => new GroupQueue(path, commitsDurably: true),
        DurableFigure.CountFor(child.Messages),
        WarmUpCount: 1,
        Unit: "msg/s");

    private static IReadOnlyList<Samples> DurableFasterLog(ChildContext child, int callerCount)
    {
        int count = DurableFigure.CountFor(child.Messages) * (callerCount > 1 ? 16 : 1);
        return new DurablePeerFigure(child, callerCount, isAsynchronous: true, Math.Max(count / callerCount, 1)).Measure(
            path =>
            {
                FasterLogQueue queue = new(path, count * (child.Repetitions + 1L), isDurable: true);
                return callerCount == 1
                    ? new DurableSide(queue, () => queue.AppendAndCommit)
                    : new DurableSide(queue, () => queue.AppendAndWait, queue.StartCommitting);
            },
            ours => () => ours.AppendEachAsync);
    }

    private static IReadOnlyList<Samples> DurableSqlite(
        ChildContext child, int callerCount, Func<SqliteQueue, Func<Func<int, Task>>> callerOf)
    {
        int count = DurableFigure.CountFor(child.Messages);
        return new DurablePeerFigure(child, callerCount, isAsynchronous: false, Math.Max(count / callerCount, 1)).Measure(
            path =>
            {
                SqliteQueue queue = new(path, isDurable: true);
                return new DurableSide(queue, callerOf(queue));
            },
            ours => () => ours.AppendEach);
    }

    private static IReadOnlyList<Samples> DurableChannel(ChildContext child, int callerCount)
    {
        int count = DurableFigure.CountFor(child.Messages);
        return new DurablePeerFigure(child, callerCount, isAsynchronous: true, Math.Max(count / callerCount, 1)).Measure(
            path =>
            {
                // What is written while code is compiled goes into the same partition.
                long room = count * (child.Repetitions + 1L) + 10_000;
                PersistentChannelQueue queue = new(path, room, hasOneWriter: callerCount == 1);
                return new DurableSide(queue, () => queue.AppendDurably);
            },
            ours => () => ours.AppendEachAsync);
    }

    private static IReadOnlyList<Samples> DurableBatches(ChildContext child)
    {
        int batches = Math.Max(DurableFigure.CountFor(child.Messages) / 20, 2);
        return new DurablePeerFigure(child, callerCount: 1, isAsynchronous: false, batches * GroupQueue.BatchLength, 100).Measure(
            path =>
            {
                SqliteQueue queue = new(path, isDurable: true);
                return new DurableSide(queue, () => count =>
                {
                    queue.Append(count);
                    return Task.CompletedTask;
                });
            },
            ours => () => ours.AppendBatches);
    }

    private static IReadOnlyList<Samples> LogLines(
        ChildContext child, Func<string, (LineLogger Log, IDisposable Logger)> openPeer, int threadCount) =>
        new LogLineFigure(child, openPeer, child.Messages / 4, threadCount).Measure();
}
