namespace MappedFileQueues.Bench.Peers;

/// <summary>The figures of the group `peers`, in the order of measuring. docs/BENCHMARKS.md says what each name means.</summary>
internal static class PeerFigures
{
    private const string StoreNote =
        "new files, nothing prepared, no flush in the time, read from memory; ours writes and verifies checksums and commits "
        + "each message, SQLite stores its position every 1,000 rows, the others do none of it.";

    private const string PassNote = "two threads of one process at once, for pass_2proc two processes; no flush in the time.";

    private const string DurableNote = "each message, or batch of 1,000, is on the disk before the call returns.";

    private const string ChannelNote =
        "PersistentChannel writes each message and each position through to the disk and has no other mode: it has no figures "
        + "without a flush.";

    private const string LogNote = "lines with time, level, two texts and a number into a new file, with the closing.";

    public static BenchSuite Suite { get; } = new(
        "peers",
        "Measures the queue and the log provider beside the libraries that a user would take instead.",
        [
            Group(Peer.FasterLog, StoreNote, "append_fasterlog", "read_fasterlog"),
            Group(Peer.Sqlite, StoreNote, "append_sqlite", "read_sqlite"),
            Group(Peer.Channel, StoreNote, "append_channel", "read_channel"),
            Group(Peer.FasterLog, StoreNote, "append_exclusive_fasterlog"),
            Group(Peer.Channel, StoreNote, "append_exclusive_channel"),
            Group(Peer.FasterLog, "as append_fasterlog with all memory and room made before.", "append_prepared_fasterlog"),
            Group(Peer.FasterLog, PassNote, "pass_fasterlog"),
            Group(Peer.Sqlite, PassNote, "pass_sqlite"),
            Group(Peer.Channel, PassNote, "pass_channel"),
            Group(Peer.Sqlite, PassNote, processCount: 2, "pass_2proc_sqlite"),
            Durable(Peer.FasterLog, "durable_1_fasterlog"),
            Durable(Peer.Sqlite, "durable_1_sqlite"),
            Durable(Peer.PersistentChannel, "durable_1_persistentchannel"),
            Durable(Peer.FasterLog, "durable_64_fasterlog"),
            Durable(Peer.Sqlite, "durable_64_sqlite"),
            Durable(Peer.Sqlite, "durable_64_sqlite_locked"),
            Durable(Peer.PersistentChannel, "durable_64_persistentchannel"),
            Durable(Peer.Sqlite, "durable_batch_sqlite"),
            Durable(Peer.PersistentChannel, "durable_read_persistentchannel"),
            Durable(Peer.PersistentChannel, "durable_pass_persistentchannel"),
            Group(Peer.Serilog, LogNote, "log_line_serilog"),
            Group(Peer.ZLogger, LogNote, "log_line_zlogger"),
            Group(Peer.NLog, LogNote, "log_line_nlog"),
            Group(Peer.Serilog, LogNote, "log_line_4_serilog"),
            Group(Peer.ZLogger, LogNote, "log_line_4_zlogger"),
            Group(Peer.NLog, LogNote, "log_line_4_nlog"),
        ],
        Messages: (2_000_000, 200_000));

    private static BenchFigureGroup Durable(Peer peer, string name) =>
        Group(peer, peer == Peer.PersistentChannel ? ChannelNote : DurableNote, name) with { IsFlushed = true };

    private static BenchFigureGroup Group(Peer peer, string note, params string[] names) =>
        Group(peer, note, processCount: 1, names);

    private static BenchFigureGroup Group(Peer peer, string note, int processCount, params string[] names) => new(
        names,
        run =>
        {
            if (PeerObstacles.Of(peer, run.Directory) is not { } obstacle)
                return run.Measure(names[0], processCount);
            Console.Error.WriteLine($"{string.Join(", ", names)}: left out, {peer} does not start here: {obstacle}");
            return [];
        },
        Note: note);
}
