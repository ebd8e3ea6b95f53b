using MappedFileQueues.Format;
using MappedFileQueues.Log;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Tests.Format;

/// <summary>
/// A small store in which nothing is left to chance: fixed identity, time and boot. It holds a frame of each state: a message,
/// an empty one, an abandoned claim, a batch, a message and a batch without checksum, the padding at a segment's end, and, while
/// <see cref="Open"/>'s appender lives, an open claim.
/// </summary>
internal sealed class GoldenStore : IDisposable
{
    public const int SegmentLength = 4096;
    public static readonly Guid StoreId = new("00112233-4455-6677-8899-aabbccddeeff");
    public static readonly Guid BootId = new("b007b007-b007-4007-8007-b007b007b007");
    public static readonly DateTimeOffset Created = new(2026, 1, 2, 3, 4, 5, 678, TimeSpan.Zero);

    private readonly LogStore _store;
    private readonly SharedAppender _appender;

    /// <summary>Makes the store, all but the claim, which stays open until the end.</summary>
    public GoldenStore(string path)
    {
        using (LogStore first = Open(path, ChecksumMode.WriteAndVerify))
        {
            var appender = (SharedAppender)first.OpenAppender();
            Append(appender, "Hello, MFQ!"u8);
            Append(appender, []);
            appender.AbandonClaim(appender.Claim(20));
            appender.AppendBatch([new byte[] { 1 }, new byte[] { 2, 2 }, new byte[] { 3, 3, 3 }]);
            first.Flusher.Flush();
            first.CloseAppender(appender);
        }

        using (LogStore second = Open(path, ChecksumMode.None))
        {
            var appender = (SharedAppender)second.OpenAppender();
            Append(appender, "unchecked"u8);
            appender.AppendBatch([new byte[] { 4, 4, 4, 4 }, new byte[] { 5 }]);
            second.CloseAppender(appender);
        }

        _store = Open(path, ChecksumMode.WriteAndVerify);
        _appender = (SharedAppender)_store.OpenAppender();
        byte[] almostFull = new byte[3600];
        Array.Fill(almostFull, (byte)0xC3);
        Append(_appender, almostFull);
        Append(_appender, almostFull);
        // The roll has told the background thread to write a checkpoint; this either finds it done or does it.
        _store.Flusher.FlushCompletedSegments();
        Consume("", 2);
        Consume("Second.Reader", 4);
        // The fields of an open claim: its payload is not there yet.
        _appender.Claim(24);
    }

    public void Dispose()
    {
        _store.CloseAppender(_appender);
        _store.Dispose();
    }

    private static LogStore Open(string path, ChecksumMode checksum)
    {
        var options = new MappedFileQueueOptions
        {
            StorePath = path,
            SegmentSize = SegmentLength,
            Checksum = checksum,
            TimeProvider = new FixedTime(),
        };
        LogSettings settings = options.ToSettings() with { StoreId = StoreId };
        var os = new FixedBoot(OperatingSystemServices.Current);
        return new LogStore(StoreOpening.Open(options.ToRequest(StoreKind.Messages, 0, 0), settings, os), settings);
    }

    private static void Append(SharedAppender appender, ReadOnlySpan<byte> message) =>
        appender.Append(ref System.Runtime.InteropServices.MemoryMarshal.GetReference(message), message.Length);

    private void Consume(string name, int count)
    {
        using var consumer = new LogConsumer(_store, name, CursorFile.TryOpen(_store.Directory, name)!, 0);
        for (int i = 0; i < count; i++)
        {
            Assert.True(consumer.TryWait(TimeSpan.Zero, CancellationToken.None, out int _));
            consumer.Commit();
        }
    }

    private sealed class FixedTime : TimeProvider
    {
        public override DateTimeOffset GetUtcNow() => Created;
    }

    /// <summary>The real system in a boot of our choice.</summary>
    private sealed unsafe class FixedBoot(OperatingSystemServices real) : OperatingSystemServices
    {
        public override bool IsPortable => real.IsPortable;

        public override string? BootId => GoldenStore.BootId.ToString();

        public override StoreDirectory? OpenDirectory(string path, bool create, UnixFileMode? mode) =>
            real.OpenDirectory(path, create, mode);

        public override bool RegisterForFence() => real.RegisterForFence();

        public override bool FenceOtherProcesses() => real.FenceOtherProcesses();

        public override void WaitOnWord(uint* word, uint expected, TimeSpan timeout) => real.WaitOnWord(word, expected, timeout);

        public override void WakeWord(uint* word) => real.WakeWord(word);

        public override long ProcessStartTime(int processId) => real.ProcessStartTime(processId);
    }
}
