using System.Globalization;
using MappedFileQueues.Files;
using Microsoft.Extensions.Logging;
using NLog.Config;
using NLog.Targets;
using NLog.Targets.Wrappers;
using Serilog;
using ZLogger;

namespace MappedFileQueues.Bench.Files;

/// <summary>
/// Our log provider and the loggers that users would take instead, each called as its documentation says is fastest, with the
/// time and the level before the message. None flushes to the disk, and none may drop a line.
/// </summary>
internal static partial class LogPeers
{
    public const string Place = "the second floor";

    private const string Category = "Bench";

    /// <summary>The log provider after a generated log method.</summary>
    public static (LineLogger Log, IDisposable Logger) Ours(string path)
    {
        ILoggerFactory factory = LoggerFactory.Create(builder => builder.AddMappedFile(options =>
        {
            options.Path = path;
            options.File = new AppendFileOptions { Durability = AppendDurability.PageCache };
        }));
        Microsoft.Extensions.Logging.ILogger logger = factory.CreateLogger(Category);
        return ((name, count) =>
        {
            for (long i = 0; i < count; i++)
                Came(logger, name, Place, i);
        }, factory);
    }

    /// <summary>Serilog's file sink with `buffered: true`, called by its own interface.</summary>
    public static (LineLogger Log, IDisposable Logger) Serilog(string path)
    {
        Serilog.Core.Logger logger = new LoggerConfiguration()
            .WriteTo.File(path, buffered: true, fileSizeLimitBytes: null, formatProvider: CultureInfo.InvariantCulture)
            .CreateLogger();
        return ((name, count) =>
        {
            for (long i = 0; i < count; i++)
                logger.Information("User {Name} came to {Place} with {Count}", name, Place, i);
        }, logger);
    }

    /// <summary>ZLogger's file provider after its own generated log method; a thread of its own writes.</summary>
    public static (LineLogger Log, IDisposable Logger) ZLogger(string path)
    {
        ILoggerFactory factory = LoggerFactory.Create(builder => builder.AddZLoggerFile(path, options =>
            options.UsePlainTextFormatter(formatter => formatter.SetPrefixFormatter(
                $"{0:utc-longdate} [{1:short}] ",
                (in MessageTemplate template, in LogInfo info) => template.Format(info.Timestamp, info.LogLevel)))));
        Microsoft.Extensions.Logging.ILogger logger = factory.CreateLogger(Category);
        return ((name, count) =>
        {
            for (long i = 0; i < count; i++)
                CameByZLogger(logger, name, Place, i);
        }, factory);
    }

    /// <summary>
    /// NLog's file target, kept open and not flushed after each write, after the asynchronous wrapper, which waits when its
    /// queue of 10,000 lines is full.
    /// </summary>
    public static (LineLogger Log, IDisposable Logger) NLog(string path)
    {
        NLog.LogFactory factory = new();
        LoggingConfiguration configuration = new(factory);
        FileTarget file = new("file") { FileName = path, KeepFileOpen = true, AutoFlush = false };
        configuration.AddRuleForAllLevels(
            new AsyncTargetWrapper(file) { Name = "async", OverflowAction = AsyncTargetWrapperOverflowAction.Block });
        factory.Configuration = configuration;
        NLog.Logger logger = factory.GetLogger(Category);
        return ((name, count) =>
        {
            for (long i = 0; i < count; i++)
                logger.Info("User {Name} came to {Place} with {Count}", name, Place, i);
        }, new FlushedFactory(factory));
    }

    [LoggerMessage(1, LogLevel.Information, "User {Name} came to {Place} with {Count}")]
    private static partial void Came(Microsoft.Extensions.Logging.ILogger logger, string name, string place, long count);

    [ZLoggerMessage(1, LogLevel.Information, "User {name} came to {place} with {count}")]
    private static partial void CameByZLogger(Microsoft.Extensions.Logging.ILogger logger, string name, string place, long count);

    /// <summary>What still waits in the queue is written before the targets are closed.</summary>
    private sealed class FlushedFactory(NLog.LogFactory factory) : IDisposable
    {
        public void Dispose()
        {
            factory.Flush(TimeSpan.FromMinutes(1));
            factory.Dispose();
        }
    }
}
