using System.Diagnostics;
using System.Runtime.InteropServices;
using MappedFileQueues.Tests.Files;

namespace MappedFileQueues.Tests.Platform;

/// <summary>
/// A small file system of its own, for full disks and for what only some file systems do. Mounting needs root; where it is
/// impossible the test is skipped.
/// </summary>
internal sealed partial class MountedFileSystem : IDisposable
{
    private const int DefaultLengthMiB = 4;

    /// <summary>EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN are one number; 2 is "without flushing the log".</summary>
    private const nuint Shutdown = 0x8004587D;
    private const uint NoLogFlush = 2;

    private MountedFileSystem(string path, string imagePath) => (Path, ImagePath) = (path, imagePath);

    /// <summary>Where it is mounted.</summary>
    public string Path { get; }

    /// <summary>The file that is its disk; tmpfs has none.</summary>
    public string ImagePath { get; }

    /// <summary>Makes one, of 4 MiB by default: "tmpfs", or a kind that mkfs knows, on a loop device.</summary>
    public static MountedFileSystem Make(string kind, string folder, int lengthMiB = DefaultLengthMiB)
    {
        string path = System.IO.Path.Combine(folder, "mounted");
        string image = System.IO.Path.Combine(folder, "image");
        Directory.CreateDirectory(path);
        string? failure;
        if (kind == "tmpfs")
        {
            failure = TryRun("mount", "-t", "tmpfs", "-o", $"size={lengthMiB}m", "tmpfs", path);
        }
        else
        {
            using (FileStream file = new(image, FileMode.CreateNew))
                file.SetLength(lengthMiB * 1024L * 1024);
            string force = kind.StartsWith("ext", StringComparison.Ordinal) ? "-F" : "-f";
            failure = TryRun($"mkfs.{kind}", "-q", force, image) ?? TryRun("mount", "-o", "loop", image, path);
        }

        if (failure is not null)
            Assert.Skip($"Mounting a file system is not possible here: {failure}");
        return new MountedFileSystem(path, image);
    }

    /// <summary>Runs a program and fails when it does.</summary>
    public static void Run(string program, params IEnumerable<string> arguments)
    {
        string? failure = TryRun(program, arguments);
        Assert.True(failure is null, failure);
    }

    /// <summary>A path in it.</summary>
    public string PathOf(params ReadOnlySpan<string> parts) => System.IO.Path.Combine([Path, .. parts]);

    /// <summary>
    /// Changes the first byte of what is at only one place of the disk, on the disk itself, and takes the file that it is in
    /// out of memory. A file system that knows the checksums of its content (btrfs) cannot give that block any more: EIO.
    /// </summary>
    public void Spoil(string path, ReadOnlySpan<byte> content)
    {
        long place = FindOnDisk(path, content);
        using (FileStream image = File.OpenWrite(ImagePath))
        {
            image.Position = place;
            image.WriteByte((byte)~content[0]);
            image.Flush(flushToDisk: true);
        }

        FileUnderTest.DropFromMemory(path);
    }

    /// <summary>
    /// Makes the disk end before what is at only one place of it, and takes the file that it is in out of memory: EIO from
    /// there on. It has to be made as long as it was before it is unmounted.
    /// </summary>
    public void CutOffAt(string path, ReadOnlySpan<byte> content)
    {
        const long Block = 4096;
        long place = FindOnDisk(path, content);
        FileUnderTest.DropFromMemory(path);
        Resize(place / Block * Block);
    }

    /// <summary>Gives the disk another length, and lets the system know.</summary>
    public void Resize(long length)
    {
        using (FileStream image = File.OpenWrite(ImagePath))
            image.SetLength(length);
        Run("bash", "-c", "losetup --set-capacity \"$(findmnt --noheadings --output SOURCE --target \"$0\")\"", Path);
    }

    /// <summary>
    /// Deletes a file whose room is there at once. Truncated first: a child that another test is starting holds this process's
    /// open files until it has become its own program, and a deleted file keeps its room for so long.
    /// </summary>
    public void Free(string name)
    {
        File.WriteAllBytes(PathOf(name), []);
        File.Delete(PathOf(name));
    }

    /// <summary>From now on the disk takes nothing, and what was not flushed is lost (ext4, xfs).</summary>
    public void ShutDown()
    {
        int directory = Open(Path, 0);
        uint flags = NoLogFlush;
        int result = Control(directory, Shutdown, ref flags);
        int errno = Marshal.GetLastPInvokeError();
        _ = Close(directory);
        Assert.True(result == 0, $"The file system cannot be shut down: path={Path}, errno={errno}.");
    }

    /// <summary>Unmounts it, and mounts again what the disk holds.</summary>
    public void Remount()
    {
        Dispose();
        Run("mount", "-o", "loop", ImagePath, Path);
    }

    /// <summary>
    /// Unmounts; a test that leaves a file open there fails here. Tried for ten seconds: a child that another test is starting
    /// holds this process's files until it has become its own program.
    /// </summary>
    public void Dispose()
    {
        string? failure = null;
        bool unmounted = Eventually.Wait(() => (failure = TryRun("umount", Path)) is null, Eventually.DefaultDeadline);
        Assert.True(unmounted, failure);
    }

    private long FindOnDisk(string path, ReadOnlySpan<byte> content)
    {
        Run("sync", "-f", path);
        int place = File.ReadAllBytes(ImagePath).AsSpan().IndexOf(content);
        Assert.True(place > 0);
        return place;
    }

    /// <summary>Null when it went well, else what it said.</summary>
    private static string? TryRun(string program, params IEnumerable<string> arguments)
    {
        ProcessStartInfo start = new(program, arguments) { RedirectStandardError = true, RedirectStandardOutput = true };
        try
        {
            using Process process = Process.Start(start)!;
            Task<string> output = process.StandardOutput.ReadToEndAsync();
            string error = process.StandardError.ReadToEnd();
            process.WaitForExit();
            return process.ExitCode == 0 ? null : $"{program} {string.Join(' ', start.ArgumentList)}: {error}{output.Result}";
        }
        catch (System.ComponentModel.Win32Exception missing)
        {
            return $"{program}: {missing.Message}";
        }
    }

    [LibraryImport("libc", EntryPoint = "open", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Open(string path, int flags);

    [LibraryImport("libc", EntryPoint = "ioctl", SetLastError = true)]
    private static partial int Control(int descriptor, nuint request, ref uint argument);

    [LibraryImport("libc", EntryPoint = "close")]
    private static partial int Close(int descriptor);
}
