using System.Diagnostics;
using System.Security.Cryptography;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Demo;

/// <summary>
/// The consumer process: writes the lines to the output and commits what it has written. <see cref="OutputLedger"/> explains how
/// a new one continues where the old one was killed, so that each line is in the output once.
/// </summary>
internal sealed class DemoConsumer : IDisposable
{
    private const int BatchLength = 64 * 1024;

    /// <summary>How long one wait for a message lasts before the next check for a command.</summary>
    private static readonly TimeSpan s_waitMax = TimeSpan.FromMilliseconds(5);

    /// <summary>Reports serve a bar on a screen and the parent's waits; more of them would only cost.</summary>
    private static readonly TimeSpan s_reportInterval = TimeSpan.FromMilliseconds(2);

    private readonly ParentLink _parent;
    private readonly MappedFileQueue _queue;
    private readonly MappedFileConsumer _consumer;
    private readonly OutputLedger _ledger;
    private readonly MessageTimes _times;
    private readonly SafeFileHandle _output;
    private byte[] _batch = new byte[BatchLength * 2];
    private int _batchLength;
    private DemoProgress _progress;
    private DemoProgress _reported;
    private long _reportedAt;

    private DemoConsumer(DemoFolder folder, ParentLink parent)
    {
        _parent = parent;
        _queue = DemoStore.Open(folder);
        _consumer = _queue.OpenConsumer(DemoStore.ConsumerName);
        _ledger = new OutputLedger(folder.LedgerPath);
        _times = new MessageTimes(folder.ReceivedTimesPath);
        _output = File.OpenHandle(folder.OutputPath, FileMode.OpenOrCreate, FileAccess.ReadWrite);

        LedgerEntry entry = _ledger.Find(_consumer.CommittedOffset);
        RandomAccess.SetLength(_output, entry.OutputLength);
        _progress = new DemoProgress(entry.MessageCount, entry.OutputLength);
    }

    /// <summary>Runs until the parent has told the total number of messages, and all of them are written.</summary>
    public static int Run(DemoFolder folder)
    {
        using ParentLink parent = new();
        using DemoConsumer consumer = new(folder, parent);
        parent.Answer(0, consumer._progress);
        ParentCommand until = consumer.Consume();
        parent.Answer(until.Serial, consumer._progress, consumer.OutputDigest());
        return ExitCodes.Success;
    }

    /// <summary>Closes everything.</summary>
    public void Dispose()
    {
        _consumer.Dispose();
        _queue.Dispose();
        _ledger.Dispose();
        _times.Dispose();
        _output.Dispose();
    }

    /// <summary>
    /// Reads until as many messages are written as the parent's command `until` says, and returns that command.
    /// </summary>
    private ParentCommand Consume()
    {
        ParentCommand until = new(0, "until", [long.MaxValue]);
        while (true)
        {
            if (_consumer.TryConsume(out ReadOnlySpan<byte> message))
            {
                Take(message);
                if (_batchLength >= BatchLength)
                    WriteOut();
                continue;
            }

            // There are no more messages for now, so those that came are written before the wait.
            WriteOut();
            if (_parent.TryTake(out ParentCommand command))
                until = command;
            if (_progress.Messages >= until.Values[0])
                return until;
            if (!_consumer.TryConsume(out _, s_waitMax))
                Report();
        }
    }

    private void Take(ReadOnlySpan<byte> message)
    {
        if (MessageTimes.IsSampled(_progress.Messages))
            _times.Note(_progress.Messages, Stopwatch.GetTimestamp());
        int needed = _batchLength + message.Length + 1;
        if (needed > _batch.Length)
            Array.Resize(ref _batch, Math.Max(needed, (int)Math.Min(_batch.Length * 2L, Array.MaxLength)));
        message.CopyTo(_batch.AsSpan(_batchLength));
        _batch[needed - 1] = (byte)'\n';
        _batchLength = needed;
        _progress = _progress.Add(message.Length);
        _consumer.Advance();
    }

    /// <summary>Output, ledger, commit: the order that <see cref="OutputLedger"/> relies on.</summary>
    private void WriteOut()
    {
        if (_batchLength == 0)
            return;
        long offset = _consumer.Offset;
        RandomAccess.Write(_output, _batch.AsSpan(0, _batchLength), _progress.Bytes - _batchLength);
        _ledger.Write(new LedgerEntry(offset, _progress.Bytes, _progress.Messages));
        _consumer.Commit(offset);
        _batchLength = 0;
        if (Stopwatch.GetElapsedTime(_reportedAt) >= s_reportInterval)
            Report();
    }

    private void Report()
    {
        if (_reported == _progress)
            return;
        _parent.ReportProgress(_progress);
        _reported = _progress;
        _reportedAt = Stopwatch.GetTimestamp();
    }

    /// <summary>The digest of the output, read back from its file.</summary>
    private string OutputDigest()
    {
        using IncrementalHash hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        byte[] buffer = new byte[1024 * 1024];
        long position = 0;
        int count;
        while ((count = RandomAccess.Read(_output, buffer, position)) > 0)
        {
            hash.AppendData(buffer, 0, count);
            position += count;
        }

        return Convert.ToHexStringLower(hash.GetHashAndReset());
    }
}
