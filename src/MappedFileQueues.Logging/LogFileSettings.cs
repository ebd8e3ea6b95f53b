using MappedFileQueues.Files;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Hosting;

/// <summary>A copy of the options that concern the file of the loggers.</summary>
internal sealed record LogFileSettings(
    string Path, AppendFileOptions File, TimeProvider TimeProvider, TimeSpan RetryInterval, Action<Exception>? OnError,
    Action<RolledFile>? OnRolled)
{
    private const int NumberFirst = 2;
    private const int NumberLast = 99;

    public static LogFileSettings Of(MappedFileLoggerOptions options) => new(
        SystemPath.Full(options.Path),
        // A line that a crash or a full disk cut short must not swallow the next one. The handlers are no reason to open the
        // file anew: a lambda that captures something is another object each time that the options are made.
        options.File with { Content = FileContent.Lines, OnRolled = null, OnError = null },
        GuardedClock.Of(options.TimeProvider),
        options.RetryInterval,
        options.OnError + options.File.OnError,
        options.OnRolled + options.File.OnRolled);

    /// <summary>The files to use instead, in their order, while another process writes this one: `app.2.log`, ….</summary>
    public IEnumerable<string> PathsBeside()
    {
        string extension = System.IO.Path.GetExtension(Path);
        string stem = Path[..^extension.Length];
        for (int number = NumberFirst; number <= NumberLast; number++)
            yield return FormattableString.Invariant($"{stem}.{number}{extension}");
    }

    /// <summary>True if a file written with these settings need not be reopened for the others.</summary>
    public bool WritesAs(LogFileSettings other) => Path == other.Path && File == other.File;
}
