using System.Diagnostics;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Memory;

/// <summary>
/// The one owner of a mapping's pointer. It has no finalizer on purpose: the code that maps it keeps the region alive until no
/// thread can be inside it, and a region that is never disposed stays mapped for the life of the process, which is always safe.
/// </summary>
internal sealed unsafe class MappedRegion : IDisposable
{
    private MappedView? _view;

    public MappedRegion(PlatformFile file, long length, bool writable)
        : this(file.Map(length, writable))
    {
    }

    /// <summary>Takes ownership of the view.</summary>
    public MappedRegion(MappedView view)
    {
        _view = view;
        Pointer = view.Pointer;
        Length = view.Length;
    }

    /// <summary>The first byte; invalid after <see cref="Dispose"/>.</summary>
    public byte* Pointer { get; }

    /// <summary>The mapped length in bytes.</summary>
    public long Length { get; }

    /// <summary>The aligned word at a position that the caller took from a layout, never from the file.</summary>
    public ulong* Word(long position)
    {
        Debug.Assert(position >= 0 && position + 8 <= Length && position % 8 == 0);
        return (ulong*)(Pointer + position);
    }

    /// <inheritdoc cref="MappedView.Touch"/>
    public void Touch(long position, long length) => _view?.Touch(position, Math.Min(length, Length - position));

    /// <inheritdoc cref="MappedView.TryTouchForReading"/>
    public bool TryTouchForReading(long position, long length) =>
        _view?.TryTouchForReading(position, Math.Min(length, Length - position)) == true;

    /// <inheritdoc cref="MappedView.TryTouchCached"/>
    public bool TryTouchCached(long position, long length) =>
        _view?.TryTouchCached(position, Math.Min(length, Length - position)) == true;

    /// <summary>
    /// Maps all of a small file that is read in many places, and makes sure that each of its pages can be read.
    /// </summary>
    /// <exception cref="QueueDiskException">The disk cannot give a page.</exception>
    /// <exception cref="QueueCorruptException">The file is shorter than <paramref name="length"/>.</exception>
    public static MappedRegion MapWhole(PlatformFile file, long length, bool writable)
    {
        var region = new MappedRegion(file, length, writable);
        long there = region.MakeReadable(file, 0, length, out QueueDiskException? error);
        if (there >= length)
            return region;
        region.Dispose();
        throw error ?? (Exception)ZeroFill.TooShort(file.Path, there, length);
    }

    /// <summary>
    /// Asks the system for a range before the caller reads it. A load from a page that the disk cannot give, or that the file
    /// has lost, throws no exception: it ends the process (SIGBUS). Where the system cannot tell
    /// (<see cref="MappedView.TellsWhatIsThere"/>), the pages are read from the file, whose errors are exceptions.
    /// </summary>
    /// <param name="file">The mapped file.</param>
    /// <param name="from">Where to begin.</param>
    /// <param name="to">Where to end.</param>
    /// <param name="error">Why a page is not there; null when all are, and when the file has become shorter.</param>
    /// <returns>The end of what can be read.</returns>
    public long MakeReadable(PlatformFile file, long from, long to, out QueueDiskException? error)
    {
        error = null;
        return TryTouchCached(from, to - from) ? to : FindReadable(file, from, to, out error);
    }

    /// <inheritdoc cref="MappedView.TryTouchForWriting"/>
    public bool TryTouchForWriting(long position, long length) =>
        _view?.TryTouchForWriting(position, Math.Min(length, Length - position)) == true;

    /// <inheritdoc cref="MappedView.CachedTo"/>
    public long CachedTo(long position, long end) => _view?.CachedTo(position, end) ?? position;

    /// <inheritdoc cref="MappedView.TellsWhatIsThere"/>
    public bool TellsWhatIsThere => _view?.TellsWhatIsThere == true;

    /// <inheritdoc cref="MappedView.LetGoOfPages"/>
    public void LetGoOfPages(long position, long length) => _view?.LetGoOfPages(position, length);

    /// <inheritdoc cref="MappedView.StopReadAhead"/>
    public void StopReadAhead(long position, long length) =>
        _view?.StopReadAhead(position, Math.Min(length, Length - position));

    public void Dispose() => Interlocked.Exchange(ref _view, null)?.Dispose();

    /// <summary>Page by page: everything before the first missing page can still be read.</summary>
    private long FindReadable(PlatformFile file, long from, long to, out QueueDiskException? error)
    {
        error = null;
        int page = Environment.SystemPageSize;
        Span<byte> content = stackalloc byte[page];
        for (long at = from & -page; at < to; at += page)
        {
            if (TryTouchForReading(at, page))
                continue;
            try
            {
                // A whole page: the disk may give one block of it and not another. Where the file ends inside a page, the rest
                // of that page reads as zeros.
                bool isThere = file.ReadAt(content, at) > 0;
                if (isThere && (!TellsWhatIsThere || TryTouchForReading(at, page)))
                    continue;
                if (isThere)
                    error = DiskErrors.Make($"Cannot map the page at {at}", file.Path, DiskErrors.EIO, "it can be read");
            }
            catch (QueueDiskException failed)
            {
                error = failed;
            }

            return Math.Max(at, from);
        }

        return to;
    }
}
