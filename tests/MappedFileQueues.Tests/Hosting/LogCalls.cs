using Microsoft.Extensions.Logging;

namespace MappedFileQueues.Tests.Hosting;

/// <summary>Log calls as an application has them: the compiler writes their bodies.</summary>
internal static partial class LogCalls
{
    [LoggerMessage(1, LogLevel.Information, "Started")]
    public static partial void Started(this ILogger logger);

    [LoggerMessage(2, LogLevel.Warning, "User {Name} came from {Place}")]
    public static partial void Came(this ILogger logger, string name, string? place);

    [LoggerMessage(3, LogLevel.Error, "{Count,6:N0} items of {Kind,-8}| took {Time}")]
    public static partial void Took(this ILogger logger, Exception? error, int count, string kind, TimeSpan time);

    /// <summary>More than six values: the generator writes a struct of its own for these.</summary>
    [LoggerMessage(4, LogLevel.Debug, "{A} {B} {C} {D} {E} {F} {G:F2}")]
    public static partial void Many(this ILogger logger, string a, string b, string c, string d, string e, int f, double g);
}
