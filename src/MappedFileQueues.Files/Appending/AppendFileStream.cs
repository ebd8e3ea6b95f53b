using System.Runtime.CompilerServices;
using MappedFileQueues.Files.Appending;
using MappedFileQueues.Files.Names;

namespace MappedFileQueues.Files;

/// <summary>
/// A write-only stream that appends to a file, for any number of threads. Each call's bytes stay together, and calls of one
/// thread keep their order. A call copies into one of two buffers; a background thread writes them to the file in whole blocks.
/// A call waits only while both buffers are full; nothing is ever dropped. Allocates nothing per call.
/// <para>What can be lost: a killed process loses what is still in the buffers, at most what came in the last
/// <see cref="AppendFileOptions.FlushInterval"/> and since the last flush. A power loss also takes what
/// <see cref="AppendFileOptions.Durability"/> says. Dispose the stream: nothing flushes it when the process ends.</para>
/// <para>The stream remembers its first error (a full disk, say). That call, or the next one when the background thread met the
/// error, and every later call throws an <see cref="AppendFileException"/>, which says how many bytes the file holds and how
/// many it does not.</para>
/// </summary>
public sealed class AppendFileStream : Stream
{
    private readonly AppendPipe _pipe;
    private readonly AppendCursor _cursor;
    private readonly bool _isGroup;
    private int _isDisposed;

    /// <summary>Opens or creates the file, with the default options.</summary>
    /// <inheritdoc cref="AppendFileStream(string, AppendFileOptions)"/>
    public AppendFileStream(string path)
        : this(path, new AppendFileOptions())
    {
    }

    /// <summary>
    /// Opens the file, or creates it and the directories above it. Continues an existing file at its end; <see
    /// cref="AppendFileOptions.Content"/> says how to find that. `NAME.lock` beside the file keeps a second stream away; it
    /// stays.
    /// </summary>
    /// <param name="path">The file, or a symbolic link to it.</param>
    /// <param name="options">How to write; copied.</param>
    /// <exception cref="ArgumentException">An option is out of range, or two options exclude each other.</exception>
    /// <exception cref="QueueInUseException">Another stream, in any process, appends to this file, under this name or (Linux)
    /// through a hard link.</exception>
    /// <exception cref="QueueDiskException">The system refused: no rights, a directory of that name, a full disk.</exception>
    /// <exception cref="MappedFileQueueException">The system gives no thread.</exception>
    public AppendFileStream(string path, AppendFileOptions options)
    {
        ArgumentException.ThrowIfNullOrWhiteSpace(path);
        ArgumentNullException.ThrowIfNull(options);
        AppendFileOptions settings = options.Checked();
        Path = FileLinks.Follow(path);
        ArgumentException.ThrowIfNullOrEmpty(System.IO.Path.GetFileName(Path), nameof(path));
        _isGroup = settings.Durability == AppendDurability.Group;
        _pipe = new AppendPipe(Path, settings);
        _cursor = _pipe.Cursor;
    }

    /// <summary>
    /// The full path of the file that is being written, links followed. Closed files have other names (docs/FILES.md).
    /// </summary>
    public string Path { get; }

    /// <summary>Bytes that calls have written since the stream was opened, over all files. From any thread.</summary>
    public long AcceptedLength => _pipe.AcceptedLength;

    /// <summary>How many of them, from the first on, the operating system has: a killed process does not lose these.</summary>
    public long WrittenLength => _pipe.WrittenLength;

    /// <summary>How many of them, from the first on, survive a power loss.</summary>
    public long FlushedLength => _pipe.FlushedLength;

    /// <inheritdoc/>
    public override bool CanRead => false;

    /// <inheritdoc/>
    public override bool CanSeek => false;

    /// <summary>True until the stream is disposed.</summary>
    public override bool CanWrite => Volatile.Read(ref _isDisposed) == 0;

    /// <summary>Not supported: see <see cref="AcceptedLength"/>.</summary>
    public override long Length => throw new NotSupportedException();

    /// <summary>Not supported: see <see cref="AcceptedLength"/>.</summary>
    public override long Position
    {
        get => throw new NotSupportedException();
        set => throw new NotSupportedException();
    }

    /// <summary>
    /// Appends the bytes in one piece, even when they are longer than a buffer. From any thread. Returns once they are copied, or
    /// with <see cref="AppendDurability.Group"/> once they are on disk.
    /// </summary>
    /// <exception cref="AppendFileException">This call or an earlier one could not write.</exception>
    /// <exception cref="ObjectDisposedException">The stream is disposed; none of the bytes is in the file.</exception>
    public override void Write(ReadOnlySpan<byte> buffer)
    {
        if (_isGroup || !_cursor.TryAppendAtOnce(buffer))
            WriteOrWait(buffer);
    }

    /// <summary>
    /// As <see cref="Write(ReadOnlySpan{byte})"/>. Also when it throws, <paramref name="isAccepted"/> tells whether the bytes are
    /// copied, and so are written later: a thread may be interrupted before that, and while it waits for the disk.
    /// </summary>
    internal void Write(ReadOnlySpan<byte> buffer, ref bool isAccepted)
    {
        if (!_isGroup)
        {
            Write(buffer);
            isAccepted = true;
            return;
        }

        long end = _pipe.Write(buffer);
        isAccepted = true;
        _pipe.FlushUpTo(end, isDurable: true);
    }

    /// <inheritdoc cref="Write(ReadOnlySpan{byte})"/>
    public override void Write(byte[] buffer, int offset, int count)
    {
        ValidateBufferArguments(buffer, offset, count);
        Write(buffer.AsSpan(offset, count));
    }

    /// <inheritdoc cref="Write(ReadOnlySpan{byte})"/>
    public override void WriteByte(byte value) => Write([value]);

    /// <summary>
    /// As <see cref="Write(ReadOnlySpan{byte})"/>. The caller's thread copies the bytes; with <see
    /// cref="AppendDurability.Group"/> another thread waits for the disk. Cancellation counts only before the bytes are copied.
    /// </summary>
    public override ValueTask WriteAsync(ReadOnlyMemory<byte> buffer, CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled(cancellationToken);
        try
        {
            if (buffer.IsEmpty || !_isGroup)
            {
                Write(buffer.Span);
                return ValueTask.CompletedTask;
            }

            long end = _pipe.Write(buffer.Span);
            return new ValueTask(Task.Run(() => _pipe.FlushUpTo(end, isDurable: true), CancellationToken.None));
        }
        catch (Exception error)
        {
            return ValueTask.FromException(error);
        }
    }

    /// <inheritdoc cref="WriteAsync(ReadOnlyMemory{byte}, CancellationToken)"/>
    public override Task WriteAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValidateBufferArguments(buffer, offset, count);
        return WriteAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
    }

    /// <summary>
    /// Hands everything written so far to the operating system, so that a killed process does not lose it. From any thread.
    /// </summary>
    /// <exception cref="AppendFileException">This call or an earlier one could not write.</exception>
    /// <exception cref="ObjectDisposedException">The stream is disposed.</exception>
    public override void Flush() => Flush(durable: false);

    /// <summary>
    /// As <see cref="Flush()"/>; with <paramref name="durable"/> also waits until everything survives a power loss (fdatasync;
    /// for a new file also of the directory). Concurrent calls share one flush.
    /// </summary>
    /// <param name="durable">Whether to flush to the disk too.</param>
    /// <inheritdoc cref="Flush()"/>
    public void Flush(bool durable)
    {
        _pipe.ThrowIfUnusable();
        _pipe.FlushUpTo(_pipe.AcceptedLength, durable);
    }

    /// <summary>As <see cref="Flush()"/>, on another thread. Cancellation counts only before it begins.</summary>
    /// <inheritdoc cref="Flush()"/>
    public override Task FlushAsync(CancellationToken cancellationToken) => FlushAsync(durable: false, cancellationToken);

    /// <summary>As <see cref="Flush(bool)"/>, on another thread. Cancellation counts only before it begins.</summary>
    /// <inheritdoc cref="Flush(bool)"/>
    public Task FlushAsync(bool durable, CancellationToken cancellationToken = default) =>
        Task.Run(() => Flush(durable), cancellationToken);

    /// <summary>
    /// Writes what is left, flushes it except with <see cref="AppendDurability.PageCache"/>, cuts the file to its true length and
    /// closes it. Calls that wait for room throw <see cref="ObjectDisposedException"/>; calls that wait for a flush succeed,
    /// since this includes it. From any thread; a second call does nothing.
    /// </summary>
    /// <exception cref="AppendFileException">Something that was written is not in the file.</exception>
    public override ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        return new ValueTask(Task.Run(() => Dispose(disposing: true)));
    }

    /// <summary>Not supported.</summary>
    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    /// <summary>Not supported.</summary>
    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    /// <summary>Not supported.</summary>
    public override void SetLength(long value) => throw new NotSupportedException();

    /// <summary>See <see cref="DisposeAsync"/>.</summary>
    protected override void Dispose(bool disposing)
    {
        if (disposing && Interlocked.Exchange(ref _isDisposed, 1) == 0)
            _pipe.Close();
        base.Dispose(disposing);
    }

    /// <summary>
    /// Not inlined, so that <see cref="Write(ReadOnlySpan{byte})"/> need not save the registers that this uses.
    /// </summary>
    [MethodImpl(MethodImplOptions.NoInlining)]
    private void WriteOrWait(ReadOnlySpan<byte> buffer)
    {
        if (buffer.IsEmpty)
        {
            _pipe.ThrowIfUnusable();
            return;
        }

        long end = _pipe.Write(buffer);
        if (_isGroup)
            _pipe.FlushUpTo(end, isDurable: true);
    }
}
