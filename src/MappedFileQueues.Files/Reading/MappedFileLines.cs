using System.Runtime.CompilerServices;
using MappedFileQueues.Files.Names;
using MappedFileQueues.Files.Reading;
using MappedFileQueues.Files.Reading.Blocks;

namespace MappedFileQueues.Files;

/// <summary>
/// The lines of a UTF-8 text file of any length as spans of bytes. Nothing is copied or decoded, and the next blocks are read in
/// the background. A line ends with \n or \r\n; the last one may lack its end. A byte order mark is skipped. Bytes are not
/// checked to be valid UTF-8.
/// <para>The spans are in memory that the file is read into, not in a mapping of the file. The system kills a process that
/// touches a mapped page after the end of a truncated file, and no check beforehand helps, because the truncation can happen
/// between the check and the touch. Reading is also faster (docs/FILES.md).</para>
/// <para>For one caller at a time. <see cref="StopFollowing"/> and <see cref="Dispose"/> may be called from any thread, and end a
/// call that waits. Steady reading allocates nothing; a line longer than a block is gathered in memory of its own. Nothing is
/// written, so a crash loses nothing.</para>
/// </summary>
public sealed class MappedFileLines : IDisposable
{
    private const byte LineFeed = (byte)'\n';
    private const byte CarriageReturn = (byte)'\r';

    /// <summary>
    /// The beginning of a line that continues in the next block is copied before that block's data, when it fits here.
    /// </summary>
    private const int Headroom = 64 * 1024;

    /// <summary>Larger memory for long lines is released when the line is done.</summary>
    private const int LongKeptMax = 16 * 1024 * 1024;

    private readonly ReadPump _pump;
    private readonly int _lineLengthMax;
    private readonly FilePosition? _resumedAt;

    // The window: what was read and not returned yet, [_next, _end) of _array. What was returned is before it, from _first on.
    private byte[] _array = [];
    private int _first;
    private int _next;
    private int _end;
    private long _endPosition;

    // The memory of the window: a block of the pump, or the memory for long lines.
    private ReadBlock? _block;
    private byte[] _long = [];

    /// <summary>The file that comes after the window's, whose last line lacks its end and was not given yet.</summary>
    private bool _endsFile;

    private FileMark? _mark;

    private MappedFileLines(FileSource source, MappedFileLinesOptions options)
    {
        (_lineLengthMax, _resumedAt) = (options.LineLengthMax, options.ResumeAt);
        _pump = new ReadPump(source, options, Headroom, usesCache: false, isText: true, typeof(MappedFileLines));
        _mark = source.First.Mark;
        _endPosition = options.ResumeAt?.Offset ?? options.StartPosition;
        if (options.ResumeAt is { } place)
            _pump.Resume(place);
        else if (_endPosition > 0)
            _ = _pump.MoveTo(_endPosition);
    }

    /// <summary>
    /// The position in bytes where the next line begins, in the file that the last line was in.
    /// </summary>
    public long Position => _endPosition - (_end - _next);

    /// <summary>
    /// The position with its file, to be stored and given to <see cref="ReadAheadOptions.ResumeAt"/> later. Linux only.
    /// </summary>
    /// <exception cref="PlatformNotSupportedException">The portable platform cannot tell files apart.</exception>
    public FilePosition FilePosition
    {
        get
        {
            uint? check = FilePosition.CheckOf(_array.AsSpan(_first, _next - _first), Position);
            FilePosition place = new(ReadPump.Known(_mark), Position, check);
            return check is null && place == _resumedAt ? _resumedAt.Value : place;
        }
    }

    /// <summary>The length of the file in bytes now.</summary>
    /// <exception cref="ObjectDisposedException">This was closed.</exception>
    /// <exception cref="QueueDiskException">The system refused.</exception>
    public long Length => _pump.Length;

    private ReadOnlySpan<byte> Rest => _array.AsSpan(_next, _end - _next);

    /// <summary>Opens a file. Other programs may write, rename, truncate and delete it meanwhile.</summary>
    /// <param name="path">A regular file.</param>
    /// <param name="options">How to read; copied. Null means the defaults.</param>
    /// <returns>The lines, from the first one on.</returns>
    /// <exception cref="ArgumentException">The path is empty; or <see cref="ReadAheadOptions.MapBlocks"/> is set.</exception>
    /// <exception cref="QueueNotFoundException">There is no such file.</exception>
    /// <exception cref="QueueDiskException">The system refused; or it is a folder, a pipe or a device.</exception>
    public static MappedFileLines Open(string path, MappedFileLinesOptions? options = null)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        if (options?.MapBlocks == true)
        {
            throw new ArgumentException(
                "Lines are not handed out from a mapping, so that a truncated file is an exception: MapBlocks=true.",
                nameof(options));
        }

        if (options is { ResumeAt: not null, StartPosition: > 0 })
        {
            throw new ArgumentException(
                $"Only one of both can say where to begin: ResumeAt={options.ResumeAt}, StartPosition={options.StartPosition}.",
                nameof(options));
        }

        options ??= new MappedFileLinesOptions();
        return new MappedFileLines(FileSource.Open(path, options), options);
    }

    /// <summary>
    /// Returns the next line without its end, and waits for it. While following, also waits for the end of a last line, until
    /// <see cref="StopFollowing"/>.
    /// </summary>
    /// <param name="line">The line, which may be empty; valid until the next call.</param>
    /// <param name="cancellationToken">Ends the wait; the place stays.</param>
    /// <returns>False at the end of the file. Later calls look whether the file has grown; what was appended to a last line
    /// without an end is a line of its own.</returns>
    /// <exception cref="FileTruncatedException">The file has become shorter; everything that was read before was returned.
    /// Later calls throw it again.</exception>
    /// <exception cref="LineTooLongException">The line is longer than the limit. Later calls throw it again.</exception>
    /// <exception cref="QueueDiskException">A read failed. Later calls throw it again, unless only a descriptor or memory was
    /// missing (<see cref="QueueDiskException.Errno"/> 23, 24 or 12), or the next file could not be opened because of a right or
    /// a loop of links (13, 1 or 40): then they look again.</exception>
    /// <exception cref="OperationCanceledException">The token was cancelled before there was a line.</exception>
    /// <exception cref="InvalidOperationException">Another call is pending.</exception>
    /// <exception cref="ObjectDisposedException">This was closed, perhaps while the call waited.</exception>
    public bool TryRead(out ReadOnlySpan<byte> line, CancellationToken cancellationToken = default)
    {
        _pump.ThrowIfDisposed();
        ReadOnlySpan<byte> rest = Rest;
        int length = rest.IndexOf(LineFeed);

        // -1 is more than the limit too.
        if ((uint)length > (uint)_lineLengthMax)
            return TryReadSlow(out line, cancellationToken);
        line = WithoutCarriageReturn(rest, length);
        _next += length + 1;
        return true;
    }

    /// <summary>
    /// Returns the next whole lines that are in memory, with their ends, for the caller to split. Only the last line of the file
    /// may lack its end. The limit of the length counts only where the end is not in memory yet.
    /// </summary>
    /// <param name="lines">At least one line; valid until the next call.</param>
    /// <param name="cancellationToken">Ends the wait; the place stays.</param>
    /// <returns>False at the end.</returns>
    /// <inheritdoc cref="TryRead" path="/exception"/>
    public bool TryReadBlock(out ReadOnlySpan<byte> lines, CancellationToken cancellationToken = default)
    {
        _pump.ThrowIfDisposed();
        int searched = 0;
        int length;
        while ((length = Rest[searched..].LastIndexOf(LineFeed) + 1) == 0)
        {
            searched = _end - _next;
            CheckLength(WithoutCarriageReturn(Rest, searched).Length);
            if (_endsFile || !Extend(_pump.Take(cancellationToken), ref searched))
                break;
        }

        lines = Rest[..(searched + length)];
        _next += lines.Length;
        BeginFileAtItsEnd();
        return lines.Length > 0;
    }

    /// <summary>
    /// Waits, without blocking a thread, until <see cref="TryRead"/> can return a line at once.
    /// </summary>
    /// <param name="cancellationToken">Ends the wait; the place stays.</param>
    /// <returns>False at the end of the file.</returns>
    /// <inheritdoc cref="TryRead" path="/exception"/>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder<>))]
    public async ValueTask<bool> WaitToReadAsync(CancellationToken cancellationToken = default)
    {
        _pump.ThrowIfDisposed();
        int searched = 0;
        while (Rest[searched..].IndexOf(LineFeed) < 0)
        {
            searched = _end - _next;
            CheckLength(WithoutCarriageReturn(Rest, searched).Length);
            if (_endsFile || !Extend(await _pump.TakeAsync(cancellationToken).ConfigureAwait(false), ref searched))
                return searched > 0;
        }

        return true;
    }

    /// <summary>For `foreach (ReadOnlySpan&lt;byte&gt; line in lines)`: the lines from here on.</summary>
    /// <returns>Itself, to be stepped through.</returns>
    public Enumerator GetEnumerator() => new(this);

    /// <summary>
    /// From now on the end of the file is the end; what was appended before this call is still returned. From any thread. Does
    /// nothing when the file is not followed.
    /// </summary>
    public void StopFollowing() => _pump.StopFollowing();

    /// <summary>Ends waiting calls and waits for the background read under way. A second call does nothing.</summary>
    public void Dispose() => _pump.Dispose();

    internal static MappedFileLines Open(ReadableFile file, MappedFileLinesOptions options) =>
        new(new FileSource(file, null), options);

    private static ReadOnlySpan<byte> WithoutCarriageReturn(ReadOnlySpan<byte> text, int length) =>
        text[..(length > 0 && text[length - 1] == CarriageReturn ? length - 1 : length)];

    [MethodImpl(MethodImplOptions.NoInlining)]
    private bool TryReadSlow(out ReadOnlySpan<byte> line, CancellationToken cancellationToken)
    {
        int searched = 0;
        while (true)
        {
            ReadOnlySpan<byte> rest = Rest;
            int length = rest[searched..].IndexOf(LineFeed);
            line = WithoutCarriageReturn(rest, length < 0 ? rest.Length : searched + length);
            CheckLength(line.Length);
            if (length >= 0)
            {
                _next += searched + length + 1;
                return true;
            }

            searched = rest.Length;
            if (_endsFile || !Extend(_pump.Take(cancellationToken), ref searched))
                break;
        }

        line = Rest;
        CheckLength(line.Length);
        _next = _end;
        BeginFileAtItsEnd();
        return line.Length > 0;
    }

    /// <summary>Throws when a line that was not returned yet, or what there is of it, is longer than allowed.</summary>
    private void CheckLength(int length)
    {
        if (length > _lineLengthMax)
            throw new LineTooLongException(_pump.Path, Position, _lineLengthMax);
    }

    /// <summary>Begins the next file once the last line of this one, which lacks its end, was returned.</summary>
    private void BeginFileAtItsEnd()
    {
        if (!_endsFile || _next < _end)
            return;
        _endsFile = false;
        BeginFile();
    }

    private void BeginFile()
    {
        (_endPosition, _first) = (0, _next);
        _mark = _pump.MarkOrNull;
    }

    /// <summary>
    /// Puts the next block after what is left of the window. False when there is none, or only in the next file. Resets
    /// <paramref name="searched"/>, which counts from the window's beginning, when the window begins after a byte order mark.
    /// </summary>
    private bool Extend(ReadBlock? next, ref int searched)
    {
        if (next is null)
            return false;
        if (next.BeginsFile)
        {
            if (next.IsAfterLoss)
                (_next, searched) = (_end, 0);
            _endsFile = _next < _end;
            if (!_endsFile)
                BeginFile();
            return !_endsFile;
        }

        // With what came before it, of which a position keeps the checksum.
        int before = Math.Min(FilePosition.CheckedMax, _next - _first);
        ReadOnlySpan<byte> kept = _array.AsSpan(_next - before, before + _end - _next);
        _endPosition = next.End;
        if (kept.Length <= Headroom)
        {
            int first = next.Start - kept.Length;
            kept.CopyTo(next.Array.AsSpan(first));
            LetGo();
            _block = next;
            if (_long.Length > LongKeptMax)
                _long = [];
            (_array, _first, _next, _end) = (next.Array, first, first + before, next.Start + next.Count);
        }
        else
        {
            Gather(kept, before, next);
        }

        if (Position == 0 && Rest is [0xEF, 0xBB, 0xBF, ..])
        {
            _next += 3;
            searched = 0;
        }

        return true;
    }

    /// <summary>Gathers a line that is longer than a block, with all of the next block, in memory of its own.</summary>
    private void Gather(ReadOnlySpan<byte> kept, int before, ReadBlock next)
    {
        int length = kept.Length + next.Count;
        if (_long.Length < length)
        {
            long wanted = Math.Min(Math.Max(length, 2L * _long.Length), Array.MaxLength);
            byte[] larger = GC.AllocateUninitializedArray<byte>((int)wanted);
            kept.CopyTo(larger);
            _long = larger;
        }
        else
        {
            kept.CopyTo(_long);
        }

        next.Array.AsSpan(next.Start, next.Count).CopyTo(_long.AsSpan(kept.Length));
        _pump.Release(next);
        LetGo();
        (_array, _first, _next, _end) = (_long, 0, before, length);
    }

    private void LetGo()
    {
        if (_block is not null)
            _pump.Release(_block);
        _block = null;
    }

    /// <summary>Steps through the lines of a <see cref="MappedFileLines"/>.</summary>
    public ref struct Enumerator
    {
        private readonly MappedFileLines _lines;
        private ReadOnlySpan<byte> _current;

        internal Enumerator(MappedFileLines lines) => _lines = lines;

        /// <summary>The line, without its end; valid until the next step.</summary>
        public readonly ReadOnlySpan<byte> Current => _current;

        /// <summary>Goes to the next line; see <see cref="TryRead"/>.</summary>
        /// <returns>False at the end.</returns>
        public bool MoveNext() => _lines.TryRead(out _current);
    }
}
