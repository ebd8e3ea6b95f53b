using System.IO.MemoryMappedFiles;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Platform.Portable;

/// <summary>A view of the BCL.</summary>
internal sealed unsafe class PortableView : MappedView
{
    // The handle of the view has a finalizer.
    private static readonly RootedObjects s_mapped = new();

    private readonly SafeMemoryMappedViewHandle _handle;
    private readonly long _length;
    private readonly byte* _start;

    /// <summary>Takes the view over.</summary>
    public PortableView(MemoryMappedViewAccessor view, long length)
    {
        // The accessor itself is dropped without Dispose, which would write everything to the disk first; it has no finalizer.
        _handle = view.SafeMemoryMappedViewHandle;
        _length = length;
        byte* pointer = null;
        _handle.AcquirePointer(ref pointer);
        _start = pointer + view.PointerOffset;
        s_mapped.Add(this);
    }

    /// <inheritdoc/>
    public override byte* Pointer => _handle.IsClosed ? null : _start;

    /// <inheritdoc/>
    public override long Length => _length;

    /// <inheritdoc/>
    public override void Touch(long position, long length)
    {
        long start = Math.Clamp(position, 0, _length) & -Environment.SystemPageSize;
        ReadPages(_start, start, Math.Min(position + length, _length));
    }

    /// <inheritdoc/>
    public override void Dispose()
    {
        if (!s_mapped.TryRemove(this))
            return;
        _handle.ReleasePointer();
        _handle.Dispose();
    }
}
