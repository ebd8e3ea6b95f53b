namespace MappedFileQueues.Tool.Consume;

/// <summary>What `mfq consume` and `mfq tail` do with messages: write them out, and commit what is written.</summary>
internal static class MessagePrinter
{
    /// <summary>How many bytes are written between two commits, if there is that much to read.</summary>
    private const int CommitInterval = 64 * 1024;

    /// <summary>How long one wait for a message lasts before the next check for a signal and for the output's reader.</summary>
    private static readonly TimeSpan s_waitMax = TimeSpan.FromMilliseconds(100);

    /// <summary>Writes the messages of a plan; returns the exit code.</summary>
    public static int Run(ConsumePlan plan, bool isFollowing, long countMax, MessageFormat format)
    {
        // A command that waits for a lock has written nothing: until the source is open, a signal ends the process as it does any
        // other.
        using MessageSource source = plan.Open();
        using Interruption interruption = new();
        try
        {
            if (!Write(source, isFollowing, countMax, format, interruption.Token))
                return interruption.ExitCode;
        }
        catch (IOException exception) when (StandardOutput.IsBrokenPipe(exception))
        {
            // The reader of the pipe has seen enough, like `head`. What it did not take is not committed.
            return ExitCodes.Success;
        }

        return source.DamageAhead is { } damage
            ? ErrorLine.Write(
                $"The log is damaged, and nothing after the damage is certain to be a message: offset={damage.Offset}, "
                    + $"file={damage.File}. All readable messages have been written; restore the file.",
                ExitCodes.Failure)
            : ExitCodes.Success;
    }

    /// <summary>Writes messages; false if a signal came before all of them were written.</summary>
    private static bool Write(
        MessageSource source, bool isFollowing, long countMax, MessageFormat format, CancellationToken stopped)
    {
        Stream output = StandardOutput.Open();
        using MessageWriter writer = new(output, format);
        long uncommitted = 0;
        long count = 0;
        bool isAtEnd = false;
        try
        {
            for (TimeSpan wait = TimeSpan.Zero; count < countMax && !isAtEnd && !stopped.IsCancellationRequested;)
            {
                if (source.TryRead(wait, out ReadOnlySpan<byte> message))
                {
                    uncommitted += writer.Write(message, source.Headers, source.MessageOffset);
                    count++;
                    wait = TimeSpan.Zero;
                    if (uncommitted < CommitInterval)
                        continue;
                }
                else
                {
                    isAtEnd = !isFollowing || StandardOutput.HasLostItsReader();
                    wait = s_waitMax;
                }

                Finish();
            }
        }
        catch (MappedFileQueueException)
        {
            // What was read before an error, damage for example, is whole, and is not read a second time.
            Finish();
            throw;
        }

        Finish();
        return count == countMax || isAtEnd;
        // First written, then committed: if this process is killed in between, a message may come twice, but none is lost.
        void Finish()
        {
            if (uncommitted == 0)
                return;
            output.Flush();
            source.Commit();
            uncommitted = 0;
        }
    }
}
