using System.Diagnostics;
using System.Text;
using MappedFileQueues.Files;
using MappedFileQueues.Packs;

namespace MappedFileQueues.TestPeer.Verbs;

/// <summary>
/// `no-threads FOLDER`: uses queues while the system gives this process no thread, and afterwards. Prints `NAME ok` for each part
/// that does what it should, else what it did instead. Not as root, which has no limit.
/// </summary>
internal static class NoThreadsVerb
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(2);

    public static int Run(string[] arguments)
    {
        (string Name, Action<string> Part)[] parts =
        [
            ("notices", Notices),
            ("warm", WarmUp),
            ("limit", static _ => Without(() => Throws<OutOfMemoryException>(() => new Thread(() => { }).Start()))),
            ("open", Open),
            ("interval", Interval),
            ("produce", Produce),
            ("consume", Consume),
            ("consume-async", ConsumeAsync),
            ("durable-async", DurableAsync),
            ("append", Append),
            ("compact", Compact),
            ("checkpoint", Checkpoint),
            ("files", Files),
            ("buffer", Buffer),
            ("read-ahead", ReadAhead),
        ];
        foreach ((string name, Action<string> part) in parts)
        {
            try
            {
                part(Path.Combine(arguments[0], name));
                Console.WriteLine($"{name} ok");
            }
            catch (Exception error)
            {
                Console.WriteLine($"{name} {error.ToString().ReplaceLineEndings(" ")}");
            }
        }

        return 0;
    }

    /// <summary>
    /// The first roll of a process comes when no descriptor is left, and somebody is to be told. The runtime had no assembly for
    /// the way to its pool by then: that ended the stream, and nobody was told of anything any more.
    /// </summary>
    private static void Notices(string path)
    {
        const int Count = 200;
        byte[] line = new byte[1000];
        int told = 0;
        Directory.CreateDirectory(path);
        AppendFileOptions options = new()
        {
            RollLength = 50_000,
            BufferLength = 8192,
            OnRolled = _ => Interlocked.Increment(ref told),
        };
        using (AppendFileStream stream = new(Path.Combine(path, "app.log"), options))
        {
            stream.Write(line);
            ProcessSignals.LimitFiles(0);
            try
            {
                for (int i = 1; i < Count; i++)
                    stream.Write(line);
            }
            finally
            {
                ProcessSignals.LimitFiles(ulong.MaxValue);
            }
        }

        Equal((long)Count * line.Length, Directory.GetFiles(path).Sum(file => new FileInfo(file).Length));
        int rolled = Directory.GetFiles(path, "*.roll-*").Length;
        True(rolled > 0);
        True(SpinWait.SpinUntil(() => Volatile.Read(ref told) == rolled, s_deadline));
    }

    /// <summary>A queue that needs its thread to keep its promise is not opened, and keeps nothing.</summary>
    private static void Open(string path)
    {
        using (Queue(path, DurabilityLevel.PageCache))
        {
        }

        int files = OpenFiles();
        for (int i = 0; i < 3; i++)
            Without(() => Throws<MappedFileQueueException>(() => Queue(path, DurabilityLevel.Interval)));
        Equal(files, OpenFiles());
        // Refused while anyone is attached.
        MappedFileQueue.Delete(path);
    }

    /// <summary>The first message at Interval needs the thread: it is refused, and the next one is not.</summary>
    private static void Interval(string path)
    {
        using MappedFileQueue queue = Queue(path, DurabilityLevel.PageCache);
        var options = new ProduceOptions { Durability = DurabilityLevel.Interval };
        queue.Producer.Produce("first"u8);
        Without(() => Throws<MappedFileQueueException>(() => queue.Producer.Produce("refused"u8, options)));
        long offset = queue.Producer.Produce("second"u8, options);
        Equal(16L, offset);
        True(SpinWait.SpinUntil(() => queue.ConfirmedOffset > offset, s_deadline));
    }

    /// <summary>Appends need no thread: rolls and the room ahead are done without one.</summary>
    private static void Produce(string path)
    {
        Without(() =>
        {
            using MappedFileQueue queue = Queue(path, DurabilityLevel.PageCache);
            for (int i = 0; i < 100; i++)
                queue.Producer.Produce(new byte[10_000]);
            queue.Flush();
            Equal(queue.Producer.Offset, queue.ConfirmedOffset);
        });
        using MappedFileQueue again = Queue(path, DurabilityLevel.PageCache);
        again.Producer.Produce("last"u8);
    }

    /// <summary>A sleeping consumer is looked after by a thread where there is one; without it looks itself.</summary>
    private static void Consume(string path)
    {
        using MappedFileQueue queue = Queue(path, DurabilityLevel.PageCache);
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        Without(() => Equal(false, consumer.TryConsume(out _, TimeSpan.FromMilliseconds(250))));
        queue.Producer.Produce("message"u8);
        Equal("message", Encoding.UTF8.GetString(consumer.Consume()));
    }

    private static void ConsumeAsync(string path)
    {
        using MappedFileQueue queue = Queue(path, DurabilityLevel.PageCache);
        using MappedFileConsumer consumer = queue.OpenConsumer("c");
        Without(() => Throws<MappedFileQueueException>(() => consumer.ConsumeAsync().AsTask().GetAwaiter().GetResult()));
        queue.Producer.Produce("one"u8);
        Equal("one", Encoding.UTF8.GetString(consumer.Consume()));
        consumer.Commit();
        Task<ReadOnlyMemory<byte>> waiting = consumer.ConsumeAsync().AsTask();
        queue.Producer.Produce("two"u8);
        True(waiting.Wait(s_deadline));
        Equal("two", Encoding.UTF8.GetString(waiting.Result.Span));
    }

    private static void DurableAsync(string path)
    {
        using MappedFileQueue queue = Queue(path, DurabilityLevel.PageCache);
        queue.Producer.Produce("one"u8);
        Without(() => Throws<MappedFileQueueException>(
            () => queue.Producer.FlushAsync(queue.Producer.Offset).AsTask().GetAwaiter().GetResult()));
        Task<long> flush = queue.Producer.FlushAsync(queue.Producer.Offset).AsTask();
        True(flush.Wait(s_deadline));
        Equal(queue.Producer.Offset, flush.Result);
    }

    /// <summary>
    /// A file that is appended to needs its thread. Its error was a bare OutOfMemoryException: the log provider, which returns to
    /// a file from a timer, did not take that for an error of the file, and the application ended.
    /// </summary>
    private static void Append(string path)
    {
        Directory.CreateDirectory(path);
        string file = Path.Combine(path, "app.log");
        Without(() => Throws<MappedFileQueueException>(() => new AppendFileStream(file)));
        using (AppendFileStream stream = new(file))
            stream.Write("line\n"u8);
        Equal("line\n", File.ReadAllText(file));
    }

    /// <summary>
    /// A compaction that could not be started ended the put that asked for it, although the object was there, and no later one
    /// was ever started.
    /// </summary>
    private static void Compact(string path)
    {
        using PackStore pack = PackStore.Open(path, new PackOptions { VolumeSize = 1 << 20, CompactAtGarbage = 0.3 });
        byte[] data = new byte[100_000];
        Without(() =>
        {
            for (int i = 0; i < 40; i++)
                pack.Put("key", data);
            True(pack.CompactionFailure is not null);
        });
        True(SpinWait.SpinUntil(
            () =>
            {
                pack.Put("key", data);
                return pack.CompactionFailure is null && pack.GetInfo().Length < 3 << 20;
            },
            s_deadline));
    }

    /// <summary>
    /// The same of a checkpoint, where all threads of the pool were busy: the put threw, and no checkpoint was written any more.
    /// </summary>
    private static void Checkpoint(string path)
    {
        const int Busy = 8;
        ThreadPool.SetMinThreads(2 * Busy, 2 * Busy);
        using Barrier together = new(Busy + 1);
        Task busy = Task.WhenAll(Enumerable.Range(0, Busy).Select(_ => Task.Run(() =>
        {
            together.SignalAndWait(s_deadline);
            together.SignalAndWait(s_deadline);
        })));
        together.SignalAndWait(s_deadline);
        using PackStore pack = PackStore.Open(path, new PackOptions { VolumeSize = 1 << 20, CheckpointInterval = 1 << 20 });
        Without(() =>
        {
            for (int i = 0; i < 40; i++)
                pack.Put("key", new byte[100_000]);
        });
        Equal(false, File.Exists(Path.Combine(path, "index.checkpoint")));
        pack.Put("key", new byte[100_000]);
        True(SpinWait.SpinUntil(() => File.Exists(Path.Combine(path, "index.checkpoint")), s_deadline));
        together.SignalAndWait(s_deadline);
        busy.Wait(s_deadline);
    }

    /// <summary>
    /// A file that is appended to, when no descriptor is left. Flushes and rolls opened the folder, and that ended the stream.
    /// </summary>
    private static void Files(string path)
    {
        const int Count = 200;
        byte[] line = new byte[1000];
        Directory.CreateDirectory(path);
        foreach (ulong limit in new[] { ulong.MaxValue, 0UL })
        {
            AppendFileOptions options = new() { RollLength = 50_000, BufferLength = 8192, Durability = AppendDurability.Group };
            using (AppendFileStream stream = new(Path.Combine(path, $"{limit}.log"), options))
            {
                stream.Write(line);
                ProcessSignals.LimitFiles(limit);
                try
                {
                    for (int i = 1; i < Count; i++)
                        stream.Write(line);
                }
                finally
                {
                    ProcessSignals.LimitFiles(ulong.MaxValue);
                }
            }

            Equal((long)Count * line.Length, Directory.GetFiles(path, $"{limit}.*").Sum(file => new FileInfo(file).Length));
        }
    }

    /// <summary>
    /// The buffers of a file that is appended to. Without memory for them the application ended where the log provider returns to
    /// its file, and a change of the settings kept the log without a file for good.
    /// </summary>
    private static void Buffer(string path)
    {
        Directory.CreateDirectory(path);
        string file = Path.Combine(path, "app.log");
        ProcessSignals.LimitMemory((ulong)Process.GetCurrentProcess().VirtualMemorySize64 + (64 << 20));
        try
        {
            Throws<MappedFileQueueException>(() => new AppendFileStream(file, new AppendFileOptions { BufferLength = 1 << 28 }));
        }
        finally
        {
            ProcessSignals.LimitMemory(ulong.MaxValue);
        }

        using (AppendFileStream stream = new(file))
            stream.Write("line\n"u8);
        Equal("line\n", File.ReadAllText(file));
    }

    /// <summary>
    /// A file that is read ahead. A block was given back, then the thread could not be started: the call threw, what it had read
    /// was skipped by the next one, and a block that was given back twice was read into while its caller looked at it.
    /// </summary>
    private static void ReadAhead(string path)
    {
        const int Count = 20_000;
        File.WriteAllLines(path, Enumerable.Range(0, Count).Select(i => $"line {i} {new string('x', i % 100)}"));
        List<string> expected = [.. File.ReadLines(path)];
        List<string> read = [];
        Without(() =>
        {
            using MappedFileLines lines = MappedFileLines.Open(path, new MappedFileLinesOptions { BlockSize = 64 * 1024 });
            while (lines.TryRead(out ReadOnlySpan<byte> line))
                read.Add(Encoding.UTF8.GetString(line));
        });
        True(expected.SequenceEqual(read));
        using MemoryStream copy = new();
        Without(() =>
        {
            using ReadAheadStream stream = new(path, new ReadAheadOptions { BlockSize = 64 * 1024, MapBlocks = true });
            while (stream.TryReadBlock(out ReadOnlySpan<byte> block))
                copy.Write(block);
        });
        True(File.ReadAllBytes(path).AsSpan().SequenceEqual(copy.ToArray()));
    }

    /// <summary>The runtime's own threads and code that are needed later are there before the limit is.</summary>
    private static void WarmUp(string path)
    {
        ThreadPool.SetMinThreads(4, 4);
        using Barrier together = new(4);
        Task.WaitAll(Enumerable.Range(0, 4).Select(_ => Task.Run(() => together.SignalAndWait(s_deadline))));
        using MappedFileQueue queue = Queue(path, DurabilityLevel.Interval);
        queue.Producer.Produce("warm"u8);
        queue.Producer.FlushAsync(queue.Producer.Offset).AsTask().Wait(s_deadline);
    }

    private static MappedFileQueue Queue(string path, DurabilityLevel level) => new(new MappedFileQueueOptions
    {
        StorePath = path,
        SegmentSize = 256 * 1024,
        Durability = level,
        FlushInterval = TimeSpan.FromMilliseconds(20),
        ConsumerSpinWaitDuration = TimeSpan.Zero,
    });

    private static void Without(Action call)
    {
        ProcessSignals.LimitThreads(1);
        try
        {
            call();
        }
        finally
        {
            ProcessSignals.LimitThreads(ulong.MaxValue);
        }
    }

    private static int OpenFiles() => Directory.GetFileSystemEntries("/proc/self/fd").Length;

    private static void Throws<T>(Action call)
        where T : Exception
    {
        try
        {
            call();
        }
        catch (T)
        {
            return;
        }

        throw new InvalidOperationException($"No {typeof(T).Name} was thrown.");
    }

    private static void Equal<T>(T expected, T actual)
    {
        if (!EqualityComparer<T>.Default.Equals(expected, actual))
            throw new InvalidOperationException($"{actual} instead of {expected}.");
    }

    private static void True(bool condition) => Equal(true, condition);
}
