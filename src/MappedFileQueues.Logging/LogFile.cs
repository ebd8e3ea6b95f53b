using System.Reflection;
using MappedFileQueues.Files;

namespace MappedFileQueues.Hosting;

/// <summary>
/// The file of the loggers. After an error it drops lines, counts them, and opens the file again after a while: a program
/// continues when its log cannot. While another process writes the file, this one writes a file beside it, and returns by itself.
/// When the settings change, it closes the file and opens it again; threads that log meanwhile wait for that.
/// </summary>
internal sealed class LogFile : IDisposable
{
    private static readonly TimeSpan s_returnIntervalMin = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan s_returnIntervalMax = TimeSpan.FromDays(1);

    /// <summary>How long the end of the process waits for the last lines: a disk that hangs must not keep it.</summary>
    private static readonly TimeSpan s_endLimit = TimeSpan.FromSeconds(2);

    // An error handler that logs must neither reopen the file nor be called again.
    [ThreadStatic]
    private static bool t_isReporting;

    private readonly Lock _gate = new();

    /// <summary>
    /// The paths that were opened, or found in use: a file is emptied before its first line, and not when it is opened again.
    /// </summary>
    private readonly HashSet<string> _begun = new(StringComparer.Ordinal);

    private volatile LogFileSettings _settings;
    private volatile AppendFileStream? _stream;
    private ITimer? _returning;
    private long _failedAt;
    private long _lostCount;
    private bool _isDisposed;
    private volatile bool _isEnding;

    public LogFile(LogFileSettings settings)
    {
        _settings = settings;
        _stream = Open(out QueueInUseException? inUse);
        AppDomain.CurrentDomain.ProcessExit += OnProcessEnds;
        AppDomain.CurrentDomain.UnhandledException += OnProcessEnds;
        if (inUse is not null)
            Report(inUse);
    }

    public long LostCount => Volatile.Read(ref _lostCount);

    /// <summary>The path of the open file; null while there is none.</summary>
    public string? CurrentPath => _stream?.Path;

    public void Write(ReadOnlySpan<byte> line)
    {
        bool wasInterrupted = false;
        bool isAccepted = false;
        for (bool isDone = false; !isDone;)
        {
            try
            {
                WriteOrLose(line, ref isAccepted);
                isDone = true;
            }
            catch (ThreadInterruptedException)
            {
                // It counts at the thread's next wait. The line has waited for room; or, at Group, it has that, and has waited
                // for the disk.
                wasInterrupted = true;
                isDone = isAccepted;
            }
        }

        if (wasInterrupted)
            Thread.CurrentThread.Interrupt();
    }

    private void WriteOrLose(ReadOnlySpan<byte> line, ref bool isAccepted)
    {
        AppendFileStream? stream = _stream ?? Reopen();
        while (stream is not null)
        {
            try
            {
                stream.Write(line, ref isAccepted);
                if (_isEnding)
                    FlushAtEnd();
                return;
            }
            catch (ObjectDisposedException) when (stream != _stream)
            {
                // Another stream has taken its place, and none of the line is in the file.
                stream = _stream ?? Reopen();
            }
            catch (Exception error) when (error is AppendFileException or ObjectDisposedException)
            {
                // It never comes into the file, and an interrupt may end the wait for the lock.
                isAccepted = false;
                GiveUp(stream, error);
                break;
            }
        }

        CountLost();
    }

    public void CountLost() => Interlocked.Increment(ref _lostCount);

    public void Flush(bool durable)
    {
        AppendFileStream? stream;
        lock (_gate)
        {
            // A thread that changes the file holds the lock until the former stream is closed and has written all its lines.
            stream = _stream;
        }

        try
        {
            stream?.Flush(durable);
        }
        catch (ObjectDisposedException) when (stream != _stream)
        {
            // The stream was closed meanwhile, which wrote everything.
        }
        catch (Exception error) when (error is AppendFileException or ObjectDisposedException)
        {
            GiveUp(stream!, error);
        }
    }

    /// <summary>
    /// Continues with other settings. If the file cannot be opened with them, continues with the former ones and returns the
    /// reason. <paramref name="report"/>: what else the error handler has to be told.
    /// </summary>
    public Exception? TryChange(LogFileSettings settings, out Exception? report)
    {
        report = null;
        lock (_gate)
        {
            LogFileSettings former = _settings;
            if (_isDisposed)
                return null;
            _settings = settings;
            if (settings.WritesAs(former))
                return null;
            AppendFileStream? before = _stream;
            _stream = null;
            if (before is not null)
                report = Close(before);
            QueueInUseException? inUse;
            try
            {
                _stream = Open(out inUse);
                report ??= inUse;
                return null;
            }
            catch (Exception error) when (error is IOException or ArgumentException)
            {
                _settings = former;
                report = OpenOrFail(out inUse) ?? report ?? inUse;
                return error;
            }
        }
    }

    public void Dispose()
    {
        Exception? failure = null;
        lock (_gate)
        {
            _isDisposed = true;
            _returning?.Dispose();
            _returning = null;
            AppendFileStream? stream = _stream;
            _stream = null;
            if (stream is not null)
                failure = Close(stream);
        }

        // Only now: an interrupt of the thread may have ended its wait.
        AppDomain.CurrentDomain.ProcessExit -= OnProcessEnds;
        AppDomain.CurrentDomain.UnhandledException -= OnProcessEnds;
        if (failure is not null)
            Report(failure);
    }

    /// <summary>
    /// The last lines tell why a process ends, and nobody may dispose the provider then. The application's own handlers may come
    /// after this one: each line that they log is passed on by itself.
    /// </summary>
    private void OnProcessEnds(object? sender, EventArgs end)
    {
        _isEnding = true;
        FlushAtEnd();
    }

    private void FlushAtEnd()
    {
        try
        {
            Thread flush = new(() => Flush(durable: false)) { IsBackground = true };
            flush.Start();
            _ = flush.Join(s_endLimit);
        }
        catch (Exception error) when (error is OutOfMemoryException or ThreadInterruptedException)
        {
            // There is no thread to be had, or no time to wait for it.
        }
    }

    /// <summary>Calls the handler outside the lock, because it may wait for threads that log.</summary>
    public void Report(Exception failure) => Report(failure, ReportToStandardError);

    private void Report(Exception failure, Action<Exception> byDefault)
    {
        if (t_isReporting)
            return;
        t_isReporting = true;
        try
        {
            (_settings.OnError ?? byDefault)(failure);
        }
        catch (Exception)
        {
            // The program continues when its log cannot, and when the handler cannot either.
        }
        finally
        {
            t_isReporting = false;
        }
    }

    private void ReportToStandardError(Exception error) => Console.Error.WriteLine(error switch
    {
        QueueInUseException when CurrentPath is { } path => $"The log goes to {path}: {error.Message}",
        TargetInvocationException => error.Message,
        ArgumentException or InvalidOperationException => $"The log's settings stay as they were: {error.Message}",
        _ => $"The log cannot be written: {error.Message}",
    });

    /// <summary>
    /// Opens the file; if another process holds it, one beside it; null if all of these are held, too. Called under the lock, or
    /// by the constructor.
    /// </summary>
    private AppendFileStream? Open(out QueueInUseException? inUse)
    {
        LogFileSettings settings = _settings;
        _returning?.Dispose();
        _returning = null;
        inUse = null;
        foreach (string path in settings.PathsBeside().Prepend(settings.Path))
        {
            try
            {
                // The timer first: a clock that throws leaves no file open.
                if (inUse is not null)
                    _returning ??= StartReturning(settings);
                return OpenStream(path, settings);
            }
            catch (QueueInUseException error)
            {
                inUse ??= error;
            }
            catch (IOException) when (path != settings.Path)
            {
                // Another user's, a directory: the next one beside is as good.
            }
        }

        _returning?.Dispose();
        _returning = null;
        _failedAt = settings.TimeProvider.GetTimestamp();
        return null;
    }

    /// <summary>
    /// Empties the file (<see cref="AppendFileOptions.Append"/> is false) only if it is the one of the settings, and neither this
    /// provider nor, as far as it has seen, a running process has written to it.
    /// </summary>
    private AppendFileStream OpenStream(string path, LogFileSettings settings)
    {
        bool mayEmpty = path == settings.Path && !_begun.Contains(path);
        try
        {
            AppendFileStream stream = new(
                path,
                settings.File with { OnRolled = OnRolled, OnError = OnError, Append = settings.File.Append || !mayEmpty });
            _ = _begun.Add(path);
            return stream;
        }
        catch (QueueInUseException)
        {
            _ = _begun.Add(path);
            throw;
        }
    }

    /// <summary>Calls the handler of the settings as they are by now.</summary>
    private void OnRolled(RolledFile file)
    {
        try
        {
            _settings.OnRolled?.Invoke(file);
        }
        catch (Exception error)
        {
            Report(new TargetInvocationException($"OnRolled has failed: path={file.Path}. {error.Message}", error));
        }
    }

    /// <summary>The file is written all the same.</summary>
    private void OnError(Exception error) =>
        Report(error, static error => Console.Error.WriteLine($"The log is written, but: {error.Message}"));

    private ITimer StartReturning(LogFileSettings settings)
    {
        TimeSpan interval = settings.RetryInterval < s_returnIntervalMin ? s_returnIntervalMin
            : settings.RetryInterval > s_returnIntervalMax ? s_returnIntervalMax
            : settings.RetryInterval;
        return settings.TimeProvider.CreateTimer(static self => ((LogFile)self!).TryReturn(), this, interval, interval);
    }

    /// <summary>Returns to the file once the process that held it has released it.</summary>
    private void TryReturn()
    {
        Exception? failure;
        lock (_gate)
        {
            LogFileSettings settings = _settings;
            if (_isDisposed || _stream is not { } beside || beside.Path == settings.Path)
                return;
            try
            {
                _stream = OpenStream(settings.Path, settings);
            }
            catch (IOException)
            {
                // It is still held, or cannot be opened for another reason: lines go where they went before.
                return;
            }

            _returning?.Dispose();
            _returning = null;
            failure = Close(beside);
        }

        if (failure is not null)
            Report(failure);
    }

    private AppendFileStream? Reopen()
    {
        Exception? failure;
        AppendFileStream? stream;
        lock (_gate)
        {
            LogFileSettings settings = _settings;
            if (_stream is not null || _isDisposed || t_isReporting
                || settings.TimeProvider.GetElapsedTime(_failedAt) < settings.RetryInterval)
                return _stream;
            failure = OpenOrFail(out QueueInUseException? inUse) ?? inUse;
            stream = _stream;
        }

        if (failure is not null)
            Report(failure);
        return stream;
    }

    /// <summary>Opens the file, or begins the wait before the next try; returns the error.</summary>
    private Exception? OpenOrFail(out QueueInUseException? inUse)
    {
        try
        {
            _stream = Open(out inUse);
            return null;
        }
        catch (IOException error)
        {
            inUse = null;
            _failedAt = _settings.TimeProvider.GetTimestamp();
            return error;
        }
    }

    /// <summary>The first thread that meets an error reports it; the others find the stream gone.</summary>
    private void GiveUp(AppendFileStream stream, Exception error)
    {
        lock (_gate)
        {
            if (_stream != stream || _isDisposed)
                return;
            _stream = null;
            _returning?.Dispose();
            _returning = null;
            _failedAt = _settings.TimeProvider.GetTimestamp();

            // Close it before another thread opens the file again, which would find it in use.
            _ = Close(stream);
        }

        Report(error);
    }

    private static AppendFileException? Close(AppendFileStream stream)
    {
        try
        {
            stream.Dispose();
            return null;
        }
        catch (AppendFileException error)
        {
            return error;
        }
    }
}
