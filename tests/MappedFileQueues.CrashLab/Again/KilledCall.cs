using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.CrashLab.Again;

/// <summary>
/// A call that SIGKILL ends in its middle. Its thread stops for good at one of its steps, or of its calls of the platform, and
/// the kernel lets go of its process's locks. What it would have put in order on its way out stays as it is.
/// </summary>
internal sealed class KilledCall
{
    /// <summary>These threads stay until the program ends: a stack that is taken down touches what others use by now.</summary>
    private const int StackLength = 256 * 1024;

    private readonly SimServices _os;
    private readonly int _killAt;
    private readonly ManualResetEventSlim _isOver = new(false);
    private int _points;
    private string? _diedAt;
    private Exception? _failure;

    private KilledCall(SimServices os, int killAt) => (_os, _killAt) = (os, killAt);

    /// <summary>Plays the call up to a point, and kills its process there.</summary>
    /// <param name="os">The process.</param>
    /// <param name="killAt">The number of the point.</param>
    /// <param name="call">Opens its queue itself, and does not continue in other threads.</param>
    /// <returns>Where it died; null: it came to its end before.</returns>
    public static string? Make(SimServices os, int killAt, Action<SimServices> call)
    {
        var killed = new KilledCall(os, killAt);
        new Thread(() => killed.Play(call), StackLength) { IsBackground = true }.Start();
        killed._isOver.Wait();
        os.Disk.Point = null;
        os.Kill();
        return killed._failure is { } failure
            ? throw new LabViolation($"The first call fails: {failure}", failure)
            : killed._diedAt;
    }

    private void Play(Action<SimServices> call)
    {
        int thread = Environment.CurrentManagedThreadId;
        PlantedFaults.FirstBlocks = SimFile.Page;
        LabThread.Point = Reach;
        _os.Disk.Point = where =>
        {
            if (Environment.CurrentManagedThreadId == thread)
                Reach(where);
        };
        try
        {
            CurrentPlatform.Services = _os;
            call(_os);
        }
        catch (Exception error)
        {
            _failure = error;
        }

        _isOver.Set();
    }

    private void Reach(string where)
    {
        if (_points++ != _killAt)
            return;
        _diedAt = where;
        _isOver.Set();
        Thread.Sleep(Timeout.Infinite);
    }
}
