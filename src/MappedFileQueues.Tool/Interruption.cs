using System.Runtime.InteropServices;

namespace MappedFileQueues.Tool;

/// <summary>
/// Ctrl-C (SIGINT) and SIGTERM ask a command to come to an end that it can answer for. A second signal ends the process at once:
/// the first may find it waiting for a pipe that nobody reads.
/// </summary>
internal sealed class Interruption : IDisposable
{
    private readonly CancellationTokenSource _source = new();
    private readonly PosixSignalRegistration[] _registrations;
    private volatile int _exitCode;

    public Interruption() =>
        _registrations =
        [
            PosixSignalRegistration.Create(PosixSignal.SIGINT, context => Note(context, ExitCodes.Interrupted)),
            PosixSignalRegistration.Create(PosixSignal.SIGTERM, context => Note(context, ExitCodes.Terminated)),
        ];

    /// <summary>Cancelled by the first signal.</summary>
    public CancellationToken Token => _source.Token;

    /// <summary>The exit code of a command that the signal has cut short; 0 when there was none.</summary>
    public int ExitCode => _exitCode;

    /// <summary>Signals do again what they do by default.</summary>
    public void Dispose()
    {
        foreach (PosixSignalRegistration registration in _registrations)
            registration.Dispose();
        _source.Dispose();
    }

    private void Note(PosixSignalContext context, int exitCode)
    {
        if (Interlocked.CompareExchange(ref _exitCode, exitCode, 0) != 0)
            return;
        context.Cancel = true;
        _source.Cancel();
    }
}
