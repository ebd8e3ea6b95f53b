namespace MappedFileQueues.Tool;

/// <summary>The exit codes of `mfq`.</summary>
internal static class ExitCodes
{
    public const int Success = 0;
    public const int Failure = 1;
    public const int Usage = 2;

    /// <summary>The work is done, and what it found is damage.</summary>
    public const int Damaged = 3;

    // Ended by Ctrl-C (SIGINT), or by SIGTERM, before the work was done; the codes that shells report for it.
    public const int Interrupted = 130;
    public const int Terminated = 143;

    public const string Help =
        "Exit codes: 0 done; 1 failed (a line on standard error says why); 2 wrong usage; "
        + "3 damage was found; 130 ended by Ctrl-C, 143 by SIGTERM. `mfq check` has its own.";
}
