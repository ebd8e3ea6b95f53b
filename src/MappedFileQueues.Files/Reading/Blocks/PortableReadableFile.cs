using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Portable;
using Microsoft.Win32.SafeHandles;

namespace MappedFileQueues.Files.Reading.Blocks;

/// <summary>A file by the BCL, opened with the hint that it will be read from front to back.</summary>
internal sealed class PortableReadableFile(string path, SafeFileHandle handle) : ReadableFile
{
    /// <inheritdoc/>
    public override string Path => path;

    /// <inheritdoc/>
    public override long Length
    {
        get
        {
            try
            {
                return RandomAccess.GetLength(handle);
            }
            catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
            {
                throw Refused("Cannot ask for the length of the file", error);
            }
        }
    }

    /// <summary>Opens the file; see <see cref="ReadableFile.TryOpen"/>.</summary>
    public static PortableReadableFile? TryOpenFile(string path)
    {
        try
        {
            if ((File.GetAttributes(path) & FileAttributes.Directory) != 0)
                throw Refused("Cannot read this as a file", path, DiskErrors.EISDIR, "Is a directory");

            const FileShare Everything = FileShare.ReadWrite | FileShare.Delete;
            SafeFileHandle handle = File.OpenHandle(
                path, FileMode.Open, FileAccess.Read, Everything, FileOptions.SequentialScan);
            return new PortableReadableFile(path, handle);
        }
        catch (Exception error) when (error is FileNotFoundException or DirectoryNotFoundException)
        {
            return null;
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw Refused("Cannot open the file for reading", path, PortableErrors.Number(error), Text(error), error);
        }
    }

    /// <inheritdoc/>
    public override int ReadAt(Span<byte> destination, long position)
    {
        try
        {
            return PortableFile.ReadAt(handle, destination, position);
        }
        catch (Exception error) when (PortableErrors.IsOfTheSystem(error))
        {
            throw Refused($"Cannot read at {position}", error);
        }
    }

    /// <inheritdoc/>
    public override int ReadCachedAt(Span<byte> destination, long position) => 0;

    /// <inheritdoc/>
    public override void AdviseSequential()
    {
        // The option at opening has done this.
    }

    /// <inheritdoc/>
    public override void Dispose() => handle.Dispose();

    private static string Text(Exception error) => error.Message.TrimEnd('.');

    private QueueDiskException Refused(string failed, Exception error) =>
        Refused(failed, Path, PortableErrors.Number(error), Text(error), error);
}
