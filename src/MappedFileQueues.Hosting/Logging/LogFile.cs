using MappedFileQueues.Files;

namespace MappedFileQueues.Hosting;

/// <summary>
/// The file behind the loggers. After an error it drops lines, counts them, and opens the file anew after a while: a program goes
/// on when its log cannot.
/// </summary>
internal sealed class LogFile : IDisposable
{
    // A handler of errors that logs must neither open the file again nor be called again.
    [ThreadStatic]
    private static bool t_isReporting;

    private readonly Lock _gate = new();
    private readonly string _path;
    private readonly AppendFileOptions _options;
    private readonly TimeProvider _time;
    private readonly TimeSpan _retryInterval;
    private readonly Action<Exception> _onError;
    private volatile AppendFileStream? _stream;
    private long _failedAt;
    private long _lostCount;
    private bool _isDisposed;

    public LogFile(MappedFileLoggerOptions options)
    {
        (_path, _time) = (options.Path, options.TimeProvider);

        // A line that a crash or a full disk tore apart must not swallow the next one.
        _options = options.File with { Content = FileContent.Lines };
        _retryInterval = options.RetryInterval;
        _onError = options.OnError ?? (static error => Console.Error.WriteLine($"The log cannot be written: {error.Message}"));
        _stream = new AppendFileStream(_path, _options);
    }

    public long LostCount => Volatile.Read(ref _lostCount);

    public void Write(ReadOnlySpan<byte> line)
    {
        AppendFileStream? stream = _stream ?? Reopen();
        if (stream is null)
        {
            Interlocked.Increment(ref _lostCount);
            return;
        }

        try
        {
            stream.Write(line);
        }
        catch (Exception error) when (error is AppendFileException or ObjectDisposedException)
        {
            Interlocked.Increment(ref _lostCount);
            GiveUp(stream, error);
        }
    }

    public void Flush(bool durable)
    {
        if (_stream is not { } stream)
            return;
        try
        {
            stream.Flush(durable);
        }
        catch (Exception error) when (error is AppendFileException or ObjectDisposedException)
        {
            GiveUp(stream, error);
        }
    }

    public void Dispose()
    {
        AppendFileStream? stream;
        lock (_gate)
        {
            _isDisposed = true;
            (stream, _stream) = (_stream, null);
        }

        if (stream is not null)
            Close(stream, reports: true);
    }

    private AppendFileStream? Reopen()
    {
        IOException failure;
        lock (_gate)
        {
            if (_stream is not null || _isDisposed || t_isReporting || _time.GetElapsedTime(_failedAt) < _retryInterval)
                return _stream;
            try
            {
                return _stream = new AppendFileStream(_path, _options);
            }
            catch (IOException error)
            {
                _failedAt = _time.GetTimestamp();
                failure = error;
            }
        }

        Report(failure);
        return null;
    }

    /// <summary>The first that meets an error reports it; the others find the stream gone.</summary>
    private void GiveUp(AppendFileStream stream, Exception error)
    {
        lock (_gate)
        {
            if (_stream != stream || _isDisposed)
                return;
            _stream = null;
            _failedAt = _time.GetTimestamp();
        }

        Close(stream, reports: false);
        Report(error);
    }

    private void Close(AppendFileStream stream, bool reports)
    {
        try
        {
            stream.Dispose();
        }
        catch (AppendFileException error)
        {
            if (reports)
                Report(error);
        }
    }

    /// <summary>Calls the handler, outside of the lock: it may wait for threads that log.</summary>
    private void Report(Exception failure)
    {
        if (t_isReporting)
            return;
        t_isReporting = true;
        try
        {
            _onError(failure);
        }
        catch (Exception)
        {
            // The program that logs goes on when its log cannot, and when the handler cannot either.
        }
        finally
        {
            t_isReporting = false;
        }
    }
}
