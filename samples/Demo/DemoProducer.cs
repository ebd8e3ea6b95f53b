using System.Diagnostics;

namespace MappedFileQueues.Demo;

/// <summary>
/// The producer process. It stores nothing itself: the log holds what it sent. So a new producer reads the log beside the input,
/// checks each message against its line, and continues with the first line that is missing. If its predecessor was killed while
/// appending a line, that line is either published and found, or missing and sent now.
/// </summary>
internal sealed class DemoProducer : IDisposable
{
    private const int ReportInterval = 64 * 1024;

    private readonly ParentLink _parent;
    private readonly MappedFileQueue _queue;
    private readonly MappedFileProducer _producer;
    private readonly InputLines _lines;
    private readonly LineDigest _digest = new();
    private readonly MessageTimes _times;
    private DemoProgress _progress;

    private DemoProducer(DemoFolder folder, ParentLink parent)
    {
        _parent = parent;
        _lines = new InputLines(InputPlan.Load(folder.PlanPath), DemoStore.LineLengthMax);
        _times = new MessageTimes(folder.SentTimesPath);
        _queue = DemoStore.Open(folder);
        _producer = _queue.OpenProducer();
    }

    /// <summary>Runs until the parent ends it.</summary>
    public static int Run(DemoFolder folder)
    {
        using ParentLink parent = new();
        using DemoProducer producer = new(folder, parent);
        producer.CatchUp();
        parent.Answer(0, producer._progress);
        while (producer.Obey(parent.Take()))
        {
        }

        return ExitCodes.Success;
    }

    /// <summary>Closes everything.</summary>
    public void Dispose()
    {
        _producer.Dispose();
        _queue.Dispose();
        _times.Dispose();
        _digest.Dispose();
        _lines.Dispose();
    }

    private void CatchUp()
    {
        using MappedFileReader published = _queue.OpenReader();
        while (published.TryRead(out ReadOnlySpan<byte> message))
        {
            if (!_lines.TryRead(out ReadOnlySpan<byte> line) || !line.SequenceEqual(message))
            {
                throw new ToolException(
                    $"The log does not hold the input's lines, or the input has changed: message={_progress.Messages}.");
            }

            Count(line);
        }
    }

    private bool Obey(ParentCommand command)
    {
        switch (command.Verb)
        {
            case "burst":
                SendUntil(command.Values[0], pauseTicks: 0);
                break;
            case "pace":
                SendUntil(command.Values[0], Stopwatch.Frequency / command.Values[1]);
                break;
            case "finish":
                _parent.Answer(command.Serial, _progress, _digest.Finish());
                return false;
        }

        _parent.Answer(command.Serial, _progress);
        return true;
    }

    /// <summary>Sends lines until this many bytes are sent in all, or the parent sends another command.</summary>
    private void SendUntil(long bytes, long pauseTicks)
    {
        long reported = _progress.Bytes;
        long due = Stopwatch.GetTimestamp();
        while (_progress.Bytes < bytes && _lines.TryRead(out ReadOnlySpan<byte> line))
        {
            if (pauseTicks > 0)
                WaitUntil(due += pauseTicks);
            if (MessageTimes.IsSampled(_progress.Messages))
                _times.Note(_progress.Messages, Stopwatch.GetTimestamp());
            _producer.Produce(line);
            Count(line);
            if (_progress.Bytes - reported >= ReportInterval)
            {
                _parent.ReportProgress(_progress);
                reported = _progress.Bytes;
            }
            else if (pauseTicks == 0)
            {
                continue;
            }

            if (_parent.HasCommand)
                return;
        }
    }

    private void Count(ReadOnlySpan<byte> line)
    {
        _digest.Add(line);
        _progress = _progress.Add(line.Length);
    }

    /// <summary>
    /// Spins, because no timer is as fine as the pace; the spinner yields on a machine with a single processor.
    /// </summary>
    private static void WaitUntil(long due)
    {
        SpinWait spinner = default;
        while (Stopwatch.GetTimestamp() < due)
            spinner.SpinOnce(sleep1Threshold: -1);
    }
}
