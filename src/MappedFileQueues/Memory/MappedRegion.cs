using System.Diagnostics;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Memory;

/// <summary>
/// The one owner of a mapping's pointer. It has no finalizer on purpose: whoever maps roots the region until nobody can be
/// inside it any more, and what is never disposed stays mapped for the life of the process, which is always safe.
/// </summary>
internal sealed unsafe class MappedRegion : IDisposable
{
    private MappedView? _view;

    public MappedRegion(PlatformFile file, long length, bool writable)
        : this(file.Map(length, writable))
    {
    }

    /// <summary>Takes the view over.</summary>
    public MappedRegion(MappedView view)
    {
        _view = view;
        Pointer = view.Pointer;
        Length = view.Length;
    }

    /// <summary>The first byte; not to be used after <see cref="Dispose"/>.</summary>
    public byte* Pointer { get; }

    /// <summary>The mapped length in bytes.</summary>
    public long Length { get; }

    /// <summary>The aligned word at a position that the caller took from a layout, not from the file.</summary>
    public ulong* Word(long position)
    {
        Debug.Assert(position >= 0 && position + 8 <= Length && position % 8 == 0);
        return (ulong*)(Pointer + position);
    }

    /// <inheritdoc cref="MappedView.Touch"/>
    public void Touch(long position, long length) => _view?.Touch(position, Math.Min(length, Length - position));

    /// <inheritdoc cref="MappedView.TouchForReading"/>
    public void TouchForReading(long position, long length) =>
        _view?.TouchForReading(position, Math.Min(length, Length - position));

    /// <inheritdoc cref="MappedView.TryTouchForReading"/>
    public bool TryTouchForReading(long position, long length) =>
        _view?.TryTouchForReading(position, Math.Min(length, Length - position)) == true;

    /// <inheritdoc cref="MappedView.TryTouchCached"/>
    public bool TryTouchCached(long position, long length) =>
        _view?.TryTouchCached(position, Math.Min(length, Length - position)) == true;

    /// <inheritdoc cref="MappedView.LetGoOfPages"/>
    public void LetGoOfPages(long position, long length) => _view?.LetGoOfPages(position, length);

    /// <inheritdoc cref="MappedView.StopReadAhead"/>
    public void StopReadAhead(long position, long length) =>
        _view?.StopReadAhead(position, Math.Min(length, Length - position));

    public void Dispose() => Interlocked.Exchange(ref _view, null)?.Dispose();
}
