using System.ComponentModel;
using System.Diagnostics;

namespace MappedFileQueues.Bench.DotnetIo;

/// <summary>
/// An ext4 file system in a file, mounted for one child process alone: in a mount namespace of its own (unshare), which ends with
/// the process however that ends, and takes mount and loop device with it.
/// </summary>
internal sealed class LoopImage : IDisposable
{
    private const string Script = "mount -o loop \"$1\" \"$2\" && shift 2 && exec \"$@\"";

    private readonly string _image;

    private LoopImage(string directory, long length)
    {
        _image = Path.Combine(directory, "ext4.img");
        MountPoint = Path.Combine(directory, "ext4");
        using (FileStream file = new(_image, FileMode.CreateNew))
            file.SetLength(length);
        Directory.CreateDirectory(MountPoint);
    }

    /// <summary>Where the process finds it.</summary>
    public string MountPoint { get; }

    /// <summary>What is before the command that is to see it.</summary>
    public IReadOnlyList<string> Prefix =>
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", Script, "sh", _image, MountPoint];

    /// <summary>
    /// Makes one; null, and the reason, where it cannot be made or mounted: it takes root, e2fsprogs and util-linux.
    /// </summary>
    public static LoopImage? TryMake(string directory, long length, string[] options, out string reason)
    {
        LoopImage image = new(directory, length);
        if (TryRun(["mkfs.ext4", "-q", "-F", .. options, image._image], out reason)
            && TryRun([.. image.Prefix, "true"], out reason))
            return image;
        image.Dispose();
        return null;
    }

    public void Dispose()
    {
        File.Delete(_image);
        Directory.Delete(MountPoint);
    }

    private static bool TryRun(IReadOnlyList<string> command, out string reason)
    {
        try
        {
            using Process process = Process.Start(new ProcessStartInfo(command[0], command.Skip(1))
            {
                RedirectStandardOutput = true,
                RedirectStandardError = true,
            })!;
            Task<string> output = process.StandardOutput.ReadToEndAsync();
            reason = process.StandardError.ReadToEnd().Trim().ReplaceLineEndings(" ");
            process.WaitForExit();
            output.GetAwaiter().GetResult();
            return process.ExitCode == 0;
        }
        catch (Win32Exception error)
        {
            reason = $"{command[0]}: {error.Message}";
            return false;
        }
    }
}
