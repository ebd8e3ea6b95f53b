using System.Runtime.CompilerServices;
using MappedFileQueues.Files.Appending;
using MappedFileQueues.Files.Names;

namespace MappedFileQueues.Files;

/// <summary>
/// A write-only stream that appends to a file, for any number of threads: each call's bytes stay together, and calls of one
/// thread keep their order. What is written goes into one of two buffers; a background thread writes them to the file in whole
/// blocks. A call waits only while both buffers are full; nothing is ever dropped. Allocates nothing per call.
/// <para>What is lost: a killed process loses what is still in the buffers, at most what came in the last
/// <see cref="AppendFileOptions.FlushInterval"/> and since the last flush; a power cut in addition what
/// <see cref="AppendFileOptions.Durability"/> says. A stream must be disposed: nothing flushes it at the end of the
/// process.</para>
/// <para>The first error (a full disk, say) is remembered: that call, or the next one where the background thread met it, and
/// every later one throws an <see cref="AppendFileException"/> that says how many bytes the file holds and how many it does
/// not.</para>
/// </summary>
public sealed class AppendFileStream : Stream
{
    private readonly AppendPipe _pipe;
    private readonly AppendCursor _cursor;
    private readonly bool _isGroup;
    private int _isDisposed;

    /// <summary>Opens or makes the file, with the default options.</summary>
    /// <inheritdoc cref="AppendFileStream(string, AppendFileOptions)"/>
    public AppendFileStream(string path)
        : this(path, new AppendFileOptions())
    {
    }

    /// <summary>
    /// Opens the file, or makes it and the directories above it. An existing file is continued at its end, which <see
    /// cref="AppendFileOptions.Content"/> says how to find. Beside it, `NAME.lock` keeps a second stream away and stays.
    /// </summary>
    /// <param name="path">The file; of a symbolic link, the file that it leads to.</param>
    /// <param name="options">How to write; copied.</param>
    /// <exception cref="ArgumentException">An option is out of its range, or two do not go together.</exception>
    /// <exception cref="QueueInUseException">Another stream, in any process, appends to this file, by this name or (Linux) by a
    /// hard link.</exception>
    /// <exception cref="QueueDiskException">The system refuses: no rights, a directory in the way, a full disk.</exception>
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
    /// The full path of the file that is being written, links followed; closed ones have other names (docs/FILES.md).
    /// </summary>
    public string Path { get; }

    /// <summary>Bytes that calls have handed over since the stream was opened, over all files. From any thread.</summary>
    public long AcceptedLength => _pipe.AcceptedLength;

    /// <summary>The first of them, without a gap, that the operating system has: a killed process does not lose these.</summary>
    public long WrittenLength => _pipe.WrittenLength;

    /// <summary>The first of them that a power cut does not take.</summary>
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
    /// Appends the bytes in one piece, also when they are longer than a buffer. From any thread. Returns once they are copied,
    /// with <see cref="AppendDurability.Group"/> once they are on disk.
    /// </summary>
    /// <exception cref="AppendFileException">This call or an earlier one could not write.</exception>
    /// <exception cref="ObjectDisposedException">The stream is disposed; none of the bytes is in the file.</exception>
    public override void Write(ReadOnlySpan<byte> buffer)
    {
        if (_isGroup || !_cursor.TryAppendAtOnce(buffer))
            WriteOrWait(buffer);
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
    /// As <see cref="Write(ReadOnlySpan{byte})"/>. Without <see cref="AppendDurability.Group"/> the copy is made at once, by the
    /// caller; with it, the wait for the disk is another thread's. Cancellation counts only before the bytes are copied.
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
    /// Hands everything written so far to the operating system: what a killed process does not lose. From any thread.
    /// </summary>
    /// <exception cref="AppendFileException">This call or an earlier one could not write.</exception>
    /// <exception cref="ObjectDisposedException">The stream is disposed.</exception>
    public override void Flush() => Flush(durable: false);

    /// <summary>
    /// The same; <paramref name="durable"/>: and waits until it survives a power cut (fdatasync, of the directory too for a new
    /// file). Concurrent calls share one flush.
    /// </summary>
    /// <param name="durable">Whether the disk is asked too.</param>
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
    /// Writes and, but with <see cref="AppendDurability.PageCache"/>, flushes what is left, cuts the file to its true length and
    /// closes it. Calls that wait for room end with <see cref="ObjectDisposedException"/>; those that wait for a flush that this
    /// includes end well. From any thread; the second call does nothing.
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

    /// <summary>Not inlined: what it needs is not to be saved by every <see cref="Write(ReadOnlySpan{byte})"/>.</summary>
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
