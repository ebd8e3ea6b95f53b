using System.Runtime.CompilerServices;
using MappedFileQueues.Files.Reading;
using MappedFileQueues.Files.Reading.Blocks;

namespace MappedFileQueues.Files;

/// <summary>
/// Reads a file from front to back while its next blocks are already being read in the background, and follows a file that grows
/// (<see cref="ReadAheadOptions.Follow"/>). Reading a block at a time without a copy: <see cref="TryReadBlock(out
/// ReadOnlySpan{byte}, CancellationToken)"/>.
/// <para>While the system has the file in memory there is nothing to wait for: the caller's thread copies from there, reads of
/// 64 KiB and more straight into the caller's buffer. The first read that would have to wait starts reading ahead.</para>
/// <para>For one caller at a time. <see cref="StopFollowing"/> and Dispose may be called from any thread, and end a read that
/// waits. Steady reading allocates nothing. Nothing is written, so a crash loses nothing.</para>
/// <para>Blocks hold what the file held when they were read, up to (BlocksAhead + 1) x BlockSize before the caller gets there. A
/// reader may or may not see what another process overwrites in place meanwhile. A file that was truncated below the length that
/// it was seen to have is a <see cref="FileTruncatedException"/>, after everything that had been read before. A file that was
/// truncated and has grown beyond the reader's position before the reader looks cannot be told from one that only grew.</para>
/// <para>With <see cref="ReadAheadOptions.FollowRolls"/> the file that got the name follows the one that was renamed. <see
/// cref="Position"/>, <see cref="Length"/> and <see cref="Seek"/> are about the file that the last read was in.</para>
/// </summary>
public sealed class ReadAheadStream : Stream
{
    private readonly ReadPump _pump;
    private ReadBlock? _block;
    private int _offset;

    /// <summary>Where the next byte is while there is no block.</summary>
    private long _position;

    /// <summary>Opens a file; others may write, rename and delete it meanwhile.</summary>
    /// <param name="path">A regular file.</param>
    /// <param name="options">How to read; copied. Null means the defaults.</param>
    /// <exception cref="ArgumentException">The path is empty.</exception>
    /// <exception cref="QueueNotFoundException">There is no such file.</exception>
    /// <exception cref="QueueDiskException">The system refused; or it is a folder, a pipe or a device.</exception>
    public ReadAheadStream(string path, ReadAheadOptions? options = null)
        : this(FileSource.Open(path, options ??= new ReadAheadOptions()), options)
    {
    }

    internal ReadAheadStream(ReadableFile file, ReadAheadOptions options)
        : this(new FileSource(file, null), options)
    {
    }

    private ReadAheadStream(FileSource source, ReadAheadOptions options)
    {
        _pump = new ReadPump(source, options, headroom: 0, usesCache: true, isText: false, typeof(ReadAheadStream));
        if (options.ResumeAt is not { Offset: > 0 } place)
            return;
        _position = place.Offset;
        _pump.Resume(place);
    }

    /// <summary>True until Dispose.</summary>
    public override bool CanRead => !_pump.IsDisposed;

    /// <summary>True until Dispose.</summary>
    public override bool CanSeek => !_pump.IsDisposed;

    /// <summary>False.</summary>
    public override bool CanWrite => false;

    /// <summary>The length of the file in bytes now; it changes when another program changes the file.</summary>
    /// <exception cref="ObjectDisposedException">The stream is closed.</exception>
    /// <exception cref="QueueDiskException">The system refused.</exception>
    public override long Length => _pump.Length;

    /// <summary>
    /// The place in bytes of the next byte that a read gives, whatever was read ahead. Setting it is <see cref="Seek"/>.
    /// </summary>
    /// <exception cref="ObjectDisposedException">The stream is closed.</exception>
    /// <exception cref="ArgumentOutOfRangeException">Set to less than 0.</exception>
    /// <exception cref="InvalidOperationException">Set while a read is pending.</exception>
    public override long Position
    {
        get
        {
            _pump.ThrowIfDisposed();
            return _block is null ? _position : _block.Position + _offset;
        }

        set
        {
            ArgumentOutOfRangeException.ThrowIfNegative(value);
            GoTo(value);
        }
    }

    /// <summary>
    /// The same, with the file that it is in: to be stored, and given to <see cref="ReadAheadOptions.ResumeAt"/> later. Linux.
    /// </summary>
    /// <exception cref="ObjectDisposedException">The stream is closed.</exception>
    /// <exception cref="PlatformNotSupportedException">The portable platform cannot tell files apart.</exception>
    public FilePosition FilePosition => new(
        _pump.Mark, Position, _block is null ? null : FilePosition.CheckOf(_block.Span[.._offset], Position));

    /// <summary>
    /// Reads at least one byte, waiting for it, or gives 0 at the end of the file. While following it gives 0 only after <see
    /// cref="StopFollowing"/>.
    /// </summary>
    /// <param name="buffer">Where the bytes go.</param>
    /// <returns>How many bytes; fewer than fit where a block ends.</returns>
    /// <exception cref="FileTruncatedException">The file has become shorter; see the class. It stays until a seek.</exception>
    /// <exception cref="QueueDiskException">A read failed, this or one ahead of it, once the caller is there. It stays until a
    /// seek.</exception>
    /// <exception cref="InvalidOperationException">Another read is pending.</exception>
    /// <exception cref="ObjectDisposedException">The stream is closed, or was closed while this waited.</exception>
    public override int Read(Span<byte> buffer) => Read(buffer, CancellationToken.None);

    /// <summary>The same, ended by a token.</summary>
    /// <param name="buffer">Where the bytes go.</param>
    /// <param name="cancellationToken">Ends the wait; the place stays.</param>
    /// <returns>How many bytes; 0 at the end.</returns>
    /// <exception cref="OperationCanceledException">The token was cancelled before there was a byte.</exception>
    /// <inheritdoc cref="Read(Span{byte})" path="/exception"/>
    public int Read(Span<byte> buffer, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        if (!buffer.IsEmpty && RestCount() == 0)
        {
            int count = ReadDirectly(buffer, mayWait: !cancellationToken.CanBeCanceled);
            if (count > 0 || !Advance(cancellationToken))
                return count;
        }

        return buffer.IsEmpty ? Nothing() : CopyTo(buffer);
    }

    /// <inheritdoc cref="Read(Span{byte})"/>
    public override int Read(byte[] buffer, int offset, int count)
    {
        ValidateBufferArguments(buffer, offset, count);
        return Read(buffer.AsSpan(offset, count), CancellationToken.None);
    }

    /// <inheritdoc cref="Read(Span{byte})" path="/exception"/>
    /// <summary>Reads one byte.</summary>
    /// <returns>The byte, or -1 at the end.</returns>
    public override int ReadByte()
    {
        if (RestCount() == 0 && !Advance(CancellationToken.None))
            return -1;
        return _block!.Span[_offset++];
    }

    /// <summary>
    /// Reads without blocking a thread: bytes that were read ahead are there at once, others come from the background reads.
    /// Cancelling ends the wait at once; a background read under way continues into its own memory, never into the caller's.
    /// </summary>
    /// <param name="buffer">Where the bytes go.</param>
    /// <param name="cancellationToken">Ends the wait; the place stays.</param>
    /// <returns>How many bytes; 0 at the end.</returns>
    /// <exception cref="OperationCanceledException">The token was cancelled before there was a byte.</exception>
    /// <inheritdoc cref="Read(Span{byte})" path="/exception"/>
    public override ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
    {
        if (cancellationToken.IsCancellationRequested)
            return ValueTask.FromCanceled<int>(cancellationToken);
        if (!buffer.IsEmpty && RestCount() == 0)
        {
            int count = ReadDirectly(buffer.Span, mayWait: false);
            return count > 0 ? new ValueTask<int>(count) : ReadNextAsync(buffer, cancellationToken);
        }

        return new ValueTask<int>(buffer.IsEmpty ? Nothing() : CopyTo(buffer.Span));
    }

    /// <inheritdoc cref="ReadAsync(Memory{byte}, CancellationToken)"/>
    public override Task<int> ReadAsync(byte[] buffer, int offset, int count, CancellationToken cancellationToken)
    {
        ValidateBufferArguments(buffer, offset, count);
        return ReadAsync(buffer.AsMemory(offset, count), cancellationToken).AsTask();
    }

    /// <summary>
    /// Gives what is left of the block at the present place, or the next block, without copying it, and moves after it.
    /// </summary>
    /// <param name="block">At least one byte; valid until the next call of this stream.</param>
    /// <param name="cancellationToken">Ends the wait; the place stays.</param>
    /// <returns>False at the end.</returns>
    /// <exception cref="OperationCanceledException">The token was cancelled before there was a byte.</exception>
    /// <inheritdoc cref="Read(Span{byte})" path="/exception"/>
    public bool TryReadBlock(out ReadOnlySpan<byte> block, CancellationToken cancellationToken = default)
    {
        bool isThere = RestCount() > 0 || Advance(cancellationToken);
        block = isThere ? TakeRest().Span : default;
        return isThere;
    }

    /// <summary>The same without blocking a thread.</summary>
    /// <param name="cancellationToken">Ends the wait; the place stays.</param>
    /// <returns>At least one byte, valid until the next call of this stream; empty at the end.</returns>
    /// <exception cref="OperationCanceledException">The token was cancelled before there was a byte.</exception>
    /// <inheritdoc cref="Read(Span{byte})" path="/exception"/>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<ReadOnlyMemory<byte>> ReadBlockAsync(CancellationToken cancellationToken = default) =>
        RestCount() > 0 || await AdvanceAsync(cancellationToken).ConfigureAwait(false) ? TakeRest() : default;

    /// <inheritdoc/>
    public override void CopyTo(Stream destination, int bufferSize)
    {
        ValidateCopyToArguments(destination, bufferSize);
        while (TryReadBlock(out ReadOnlySpan<byte> block))
            destination.Write(block);
    }

    /// <inheritdoc/>
    public override async Task CopyToAsync(Stream destination, int bufferSize, CancellationToken cancellationToken)
    {
        ValidateCopyToArguments(destination, bufferSize);
        while (true)
        {
            ReadOnlyMemory<byte> block = await ReadBlockAsync(cancellationToken).ConfigureAwait(false);
            if (block.IsEmpty)
                return;
            await destination.WriteAsync(block, cancellationToken).ConfigureAwait(false);
        }
    }

    /// <summary>
    /// Goes to another place; inside what was read ahead it costs nothing. A place after the end is allowed, and reads give 0
    /// there. Forgets an error that a read had met.
    /// </summary>
    /// <param name="offset">Bytes from the origin.</param>
    /// <param name="origin">Where to count from; the end is the file's end now.</param>
    /// <returns>The new place.</returns>
    /// <exception cref="IOException">The place would be before the beginning.</exception>
    /// <exception cref="ArgumentException">No such origin.</exception>
    /// <exception cref="InvalidOperationException">A read is pending.</exception>
    /// <exception cref="ObjectDisposedException">The stream is closed.</exception>
    public override long Seek(long offset, SeekOrigin origin)
    {
        long start = origin switch
        {
            SeekOrigin.Begin => 0,
            SeekOrigin.Current => Position,
            SeekOrigin.End => Length,
            _ => throw new ArgumentException($"No such origin: origin={origin}.", nameof(origin)),
        };
        long target = start + offset;
        if (target < 0)
            throw new IOException($"Cannot seek to before the beginning: offset={offset}, origin={origin}, path={_pump.Path}.");
        GoTo(target);
        return target;
    }

    /// <summary>
    /// From now on the end of the file is the end: a following read that waits gets what was appended before this call, and then
    /// 0. From any thread; does nothing when the stream does not follow.
    /// </summary>
    public void StopFollowing() => _pump.StopFollowing();

    /// <summary>Does nothing: there is nothing to write.</summary>
    public override void Flush()
    {
    }

    /// <summary>Not supported.</summary>
    /// <param name="value">Unused.</param>
    /// <exception cref="NotSupportedException">Always.</exception>
    public override void SetLength(long value) => throw new NotSupportedException("A ReadAheadStream only reads.");

    /// <summary>Not supported.</summary>
    /// <param name="buffer">Unused.</param>
    /// <param name="offset">Unused.</param>
    /// <param name="count">Unused.</param>
    /// <exception cref="NotSupportedException">Always.</exception>
    public override void Write(byte[] buffer, int offset, int count) =>
        throw new NotSupportedException("A ReadAheadStream only reads.");

    /// <summary>Ends waiting reads and waits for the background read under way; a second call does nothing.</summary>
    protected override void Dispose(bool disposing)
    {
        if (disposing)
            _pump.Dispose();
        base.Dispose(disposing);
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private async ValueTask<int> ReadNextAsync(Memory<byte> buffer, CancellationToken cancellationToken) =>
        await AdvanceAsync(cancellationToken).ConfigureAwait(false) ? CopyTo(buffer.Span) : 0;

    private int ReadDirectly(Span<byte> buffer, bool mayWait)
    {
        LetGo();
        int count = _pump.ReadDirectly(buffer, mayWait);
        _position += count;
        return count;
    }

    private int RestCount()
    {
        _pump.ThrowIfDisposed();
        return _block is null ? 0 : _block.Count - _offset;
    }

    private int Nothing()
    {
        _pump.ThrowIfDisposed();
        return 0;
    }

    private int CopyTo(Span<byte> destination)
    {
        int count = Math.Min(RestCount(), destination.Length);
        _block!.Span.Slice(_offset, count).CopyTo(destination);
        _offset += count;

        // Given back here and not with the next call, so that it is read into while the caller works on its copy.
        if (_offset == _block.Count)
            LetGo();
        return count;
    }

    private ReadOnlyMemory<byte> TakeRest()
    {
        ReadOnlyMemory<byte> rest = _block!.Memory[_offset..];
        _offset = _block.Count;
        return rest;
    }

    private bool Advance(CancellationToken cancellationToken)
    {
        LetGo();
        ReadBlock? block;
        while ((block = _pump.Take(cancellationToken)) is { BeginsFile: true })
            _position = 0;
        return Begin(block);
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    private async ValueTask<bool> AdvanceAsync(CancellationToken cancellationToken)
    {
        LetGo();
        ReadBlock? block;
        while ((block = await _pump.TakeAsync(cancellationToken).ConfigureAwait(false)) is { BeginsFile: true })
            _position = 0;
        return Begin(block);
    }

    private bool Begin(ReadBlock? block)
    {
        _block = block;
        _offset = 0;
        return block is not null;
    }

    private void LetGo()
    {
        if (_block is null)
            return;
        _position = _block.Position + _offset;
        _pump.Release(_block);
        _block = null;
    }

    private void GoTo(long target)
    {
        _pump.ThrowIfDisposed();
        if (_block is not null && target >= _block.Position && target <= _block.End)
        {
            _offset = (int)(target - _block.Position);
            return;
        }

        // Refused while a read is pending: the place changes only after it.
        LetGo();
        _block = _pump.MoveTo(target);
        _position = target;
        _offset = _block is null ? 0 : (int)(target - _block.Position);
    }
}
