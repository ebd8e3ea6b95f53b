using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Files.Reading.Blocks;

/// <summary>
/// A file in memory, one window after the other, for blocks that the caller gets without a copy (<see
/// cref="ReadAheadOptions.MapBlocks"/>). A look at a position that the file or the disk does not have would end the process. So a
/// block is mapped only after the system has said that all of it is in memory. Otherwise the block is read, and an error of the
/// read is an exception. One thread at a time uses this, the one that fills blocks.
/// </summary>
/// <param name="file">The file; not disposed.</param>
/// <param name="owner">Whose name an <see cref="ObjectDisposedException"/> bears.</param>
internal sealed class FileMapping(ReadableFile file, Type owner) : IDisposable
{
    /// <summary>
    /// Large enough that mapping and unmapping do not count (2 % with 4 MiB, and interrupts of the other processors each time),
    /// small enough that the page tables do not either (512 KiB).
    /// </summary>
    private const long WindowLength = 256 * 1024 * 1024;

    private readonly List<FileWindow> _windows = [];
    private bool _isRefused;

    /// <summary>
    /// Places a block in the mapping, if the system has its bytes in memory already. What is on disk is read instead, in larger
    /// pieces than a mapping would.
    /// </summary>
    /// <returns>How many bytes, fewer where the file or a window ends; 0 when the block has to be read.</returns>
    public int Take(MappedMemory block, long position, int length)
    {
        block.LetGo();
        FileWindow? window = FindAndDropOthers(position);
        long start = position - position % WindowLength;
        int count = (int)Math.Clamp(file.Length - position, 0, Math.Min(length, start + WindowLength - position));
        if (_isRefused || count == 0 || !file.IsCached(position) || !file.IsCached(position + count - 1))
            return 0;
        window ??= Map(start);
        if (window?.TryTouch(position, count) != true)
            return 0;
        block.Take(window, position, count);
        return count;
    }

    /// <summary>Ends the mapping; blocks in it end with it.</summary>
    public void Dispose()
    {
        foreach (FileWindow window in _windows)
            window.Dispose();
        _windows.Clear();
    }

    private FileWindow? Map(long position)
    {
        MappedView? view = file.TryMap(position, WindowLength);
        _isRefused = view is null;
        if (view is null)
            return null;
        FileWindow window = new(new MappedRegion(view), position, owner);
        _windows.Add(window);
        return window;
    }

    /// <summary>The window that holds a position, if there is one. Unmaps other windows that hold no block.</summary>
    private FileWindow? FindAndDropOthers(long position)
    {
        FileWindow? found = null;
        for (int i = _windows.Count - 1; i >= 0; i--)
        {
            FileWindow window = _windows[i];
            if (window.Holds(position))
            {
                found = window;
            }
            else if (window.Users == 0)
            {
                window.Dispose();
                _windows.RemoveAt(i);
            }
        }

        return found;
    }
}

/// <summary>A mapped part of a file, and how many blocks are in it.</summary>
internal sealed unsafe class FileWindow(MappedRegion region, long position, Type owner) : IDisposable
{
    private bool _isDisposed;

    /// <summary>How many blocks are in it.</summary>
    public int Users { get; set; }

    /// <summary>Whether it begins at or before the position and ends after it.</summary>
    public bool Holds(long at) => at >= position && at < position + region.Length;

    /// <summary>Whether all of a range can be looked at; it is in memory then.</summary>
    public bool TryTouch(long at, int count) => region.TryTouchCached(at - position, count);

    /// <summary>The bytes at a position.</summary>
    /// <exception cref="ObjectDisposedException">The file is closed.</exception>
    public byte* At(long at)
    {
        ObjectDisposedException.ThrowIf(Volatile.Read(ref _isDisposed), owner);
        return region.Pointer + (at - position);
    }

    /// <summary>Unmaps.</summary>
    public void Dispose()
    {
        Volatile.Write(ref _isDisposed, true);
        region.Dispose();
    }
}
