using System.Diagnostics;

namespace MappedFileQueues.CrashLab.Processes;

/// <summary>A file system of its own: tmpfs, or one in an image file on a loop device. Needs root.</summary>
internal sealed class LabMount : IDisposable
{
    private static readonly TimeSpan s_busyMax = TimeSpan.FromSeconds(10);

    private bool _isMounted;

    private LabMount(string kind, string imagePath, string path)
    {
        Kind = kind;
        ImagePath = imagePath;
        Path = path;
    }

    public string Kind { get; }

    public string ImagePath { get; }

    public string Path { get; }

    /// <summary>Makes and mounts one; null, with the reason, where that cannot be done.</summary>
    public static LabMount? TryMake(string kind, string folder, int lengthMiB, out string reason)
    {
        string path = System.IO.Path.Combine(folder, "mounted");
        Directory.CreateDirectory(path);
        var mount = new LabMount(kind, System.IO.Path.Combine(folder, "image"), path);
        if (kind == "tmpfs")
        {
            reason = Run("mount", "-t", "tmpfs", "-o", $"size={lengthMiB}m", "tmpfs", path) ?? "";
        }
        else
        {
            using (FileStream file = new(mount.ImagePath, FileMode.Create))
                file.SetLength((long)lengthMiB * 1024 * 1024);
            string force = kind == "ext4" ? "-F" : "-f";
            reason = Run($"mkfs.{kind}", "-q", force, mount.ImagePath) ?? mount.TryMount() ?? "";
        }

        mount._isMounted = reason.Length == 0;
        return mount._isMounted ? mount : null;
    }

    /// <summary>Mounts an image that is in a file; null, with the reason, when it cannot be.</summary>
    public static LabMount? TryMountImage(string kind, string imagePath, string path, out string reason)
    {
        Directory.CreateDirectory(path);
        var mount = new LabMount(kind, imagePath, path);
        reason = mount.TryMount() ?? "";
        mount._isMounted = reason.Length == 0;
        return mount._isMounted ? mount : null;
    }

    /// <summary>Mounts the image again after <see cref="Unmount"/>.</summary>
    public void Remount()
    {
        if (TryMount() is { } failure)
            throw new InvalidOperationException(failure);
        _isMounted = true;
    }

    /// <summary>A process that has just been killed may hold a file for a moment.</summary>
    public void Unmount()
    {
        long began = Stopwatch.GetTimestamp();
        while (Run("umount", Path) is { } failure)
        {
            if (Stopwatch.GetElapsedTime(began) > s_busyMax)
                throw new InvalidOperationException(failure);
            Thread.Sleep(5);
        }

        _isMounted = false;
    }

    public void Dispose()
    {
        if (_isMounted)
            Unmount();
    }

    /// <summary>Runs a program; null when it went well, else what it said.</summary>
    public static string? Run(string program, params string[] arguments)
    {
        var start = new ProcessStartInfo(program, arguments) { RedirectStandardError = true, RedirectStandardOutput = true };
        try
        {
            using Process process = Process.Start(start)!;
            Task<string> output = process.StandardOutput.ReadToEndAsync();
            string error = process.StandardError.ReadToEnd();
            process.WaitForExit();
            return process.ExitCode == 0
                ? null
                : $"{program} {string.Join(' ', arguments)}: {error.Trim()} {output.Result.Trim()}".Trim();
        }
        catch (System.ComponentModel.Win32Exception missing)
        {
            return $"{program}: {missing.Message}";
        }
    }

    private string? TryMount() => Run("mount", "-o", "loop", ImagePath, Path);
}
