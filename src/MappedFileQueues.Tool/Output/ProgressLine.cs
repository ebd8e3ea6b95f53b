using System.Diagnostics;

namespace MappedFileQueues.Tool.Output;

/// <summary>
/// A bar on standard error for work that takes longer than a second. Nothing is written when standard error is redirected, so a
/// log never holds half a bar.
/// </summary>
internal sealed class ProgressLine(string what) : IDisposable
{
    private const int Cells = 30;
    private static readonly TimeSpan s_quietTime = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_pause = TimeSpan.FromMilliseconds(100);

    private readonly bool _isShown = !ToolConsole.IsErrorRedirected;
    private readonly long _begun = Stopwatch.GetTimestamp();
    private TimeSpan _next = s_quietTime;
    private int _width;

    /// <summary>Shows how much is done, if it is time to show anything.</summary>
    public void Report(long done, long total)
    {
        if (!_isShown)
            return;
        TimeSpan elapsed = Stopwatch.GetElapsedTime(_begun);
        if (elapsed < _next)
            return;
        _next = elapsed + s_pause;
        double part = total <= 0 ? 1 : Math.Clamp((double)done / total, 0, 1);
        int full = (int)(part * Cells);
        string text =
            $"{what} [{new string('#', full)}{new string('.', Cells - full)}] {part:P0}  {done / 1e6:N0} of {total / 1e6:N0} MB";
        ToolConsole.Error.Write($"\r{text.PadRight(_width)}");
        _width = text.Length;
    }

    /// <summary>Wipes the bar out.</summary>
    public void Dispose()
    {
        if (_width > 0)
            ToolConsole.Error.Write($"\r{new string(' ', _width)}\r");
        _width = 0;
    }
}
