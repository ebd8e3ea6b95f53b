using System.Runtime.InteropServices;

namespace MappedFileQueues.Tool;

/// <summary>
/// Ctrl-C (SIGINT) and SIGTERM ask a command to end in an orderly way. Another one, later, ends the process at once: at the
/// first, the command may be waiting for a pipe that nothing reads.
/// </summary>
internal sealed class Interruption : IDisposable
{
    /// <summary>`timeout` signals its child, and then the group in which it is: that is one wish.</summary>
    private const int OneWishMilliseconds = 1000;

    private readonly CancellationTokenSource _source = new();
    private readonly PosixSignalRegistration[] _registrations;
    private volatile int _exitCode;
    private long _firstTicks;

    public Interruption() =>
        _registrations =
        [
            PosixSignalRegistration.Create(PosixSignal.SIGINT, context => Note(context, ExitCodes.Interrupted)),
            PosixSignalRegistration.Create(PosixSignal.SIGTERM, context => Note(context, ExitCodes.Terminated)),
        ];

    /// <summary>Cancelled by the first signal.</summary>
    public CancellationToken Token => _source.Token;

    /// <summary>The exit code of a command that a signal cut short; 0 if there was none.</summary>
    public int ExitCode => _exitCode;

    /// <summary>Runs what throws at a signal; then the exit code is the signal's.</summary>
    public static int Run(Func<CancellationToken, int> action)
    {
        using Interruption interruption = new();
        try
        {
            return action(interruption.Token);
        }
        catch (OperationCanceledException) when (interruption.ExitCode != 0)
        {
            return interruption.ExitCode;
        }
    }

    /// <summary>Restores the default effect of the signals.</summary>
    public void Dispose()
    {
        foreach (PosixSignalRegistration registration in _registrations)
            registration.Dispose();
        _source.Dispose();
    }

    private void Note(PosixSignalContext context, int exitCode)
    {
        long now = Environment.TickCount64;
        long first = Interlocked.CompareExchange(ref _firstTicks, now, 0);
        context.Cancel = first == 0 || now - first < OneWishMilliseconds;
        if (first != 0)
            return;
        _exitCode = exitCode;
        _source.Cancel();
    }
}
