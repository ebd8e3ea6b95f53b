using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Platform;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// Faults that only the real system has: full file systems, where a store into a hole kills; system calls that fail or are
/// interrupted (by strace); the limit of file sizes. Each in a child process with a limit on its time.
/// </summary>
internal sealed class RealFaults(LabOptions options, PartResult result)
{
    private const int ScanPages = 40;

    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(3);

    private readonly string _fault = options.Planted.Length > 0 ? options.Planted : "None";

    public void Run()
    {
        if (!OperatingSystem.IsLinux())
        {
            result.Skip("real faults", "they are Linux's");
            return;
        }

        string folder = Directory.CreateTempSubdirectory("mfq-crashlab-").FullName;
        try
        {
            OnMount("tmpfs", 4, folder, path => Child("a disk that is nearly full", "scan", path, $"{ScanPages}"));
            OnMount("tmpfs", 16, folder, path => Child("two stores on a full tmpfs", "fill", path));
            OnMount("ext4", 24, folder, path => Child("two stores on a full ext4", "fill", path));
            Trace(folder, "interrupted", "fdatasync,fsync,pwrite64,flock,fallocate", "error=EINTR:when=2+3", 0);
            Trace(folder, "failing", "fdatasync", "error=EIO:when=20+", DiskErrors.EIO);
            LimitFileSize(folder);
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    private void OnMount(string kind, int lengthMiB, string folder, Action<string> check)
    {
        string own = Path.Combine(folder, $"{kind}-{lengthMiB}");
        Directory.CreateDirectory(own);
        using LabMount? mount = LabMount.TryMake(kind, own, lengthMiB, out string reason);
        if (mount is null)
            result.Skip($"a full {kind}", reason);
        else
            check(mount.Path);
    }

    private void Child(string what, params string[] arguments)
    {
        using var child = new LabChild([FaultChild.Verb, _fault, .. arguments]);
        if (!child.WaitForExit(s_limit))
            throw new LabViolation($"{what}: the child hangs; {child.Output}");
        if (child.ExitCode != 0)
            throw new LabViolation($"{what}: the child ended with exit code {child.ExitCode}: {LastLines(child.Output)}");
        result.Add("real faults");
    }

    /// <summary>A child whose system calls fail as strace makes them.</summary>
    private void Trace(string folder, string name, string calls, string injection, int errno)
    {
        if (LabMount.Run("strace", "-V") is { } missing)
        {
            result.Skip($"{name} system calls", missing);
            return;
        }

        string store = Path.Combine(folder, $"trace-{name}");
        string[] program = Environment.ProcessPath is { } path && Path.GetFileNameWithoutExtension(path) == "dotnet"
            ? [path, Path.Combine(AppContext.BaseDirectory, "MappedFileQueues.CrashLab.dll")]
            : [Environment.ProcessPath!];
        List<string> arguments = ["-f", "-qq", "-o", "/dev/null", "-e", $"trace={calls}"];
        foreach (string call in calls.Split(','))
            arguments.AddRange(["-e", $"inject={call}:{injection}"]);
        string? failure = LabMount.Run(
            "timeout", ["60", "strace", .. arguments, .. program, FaultChild.Verb, _fault, "work", store, $"{errno}"]);
        if (failure is not null)
            throw new LabViolation($"With {name} system calls ({calls}, {injection}): {LastLines(failure)}");
        result.Add("real faults");
    }

    private void LimitFileSize(string folder)
    {
        string store = Path.Combine(folder, "large");
        string dll = Path.Combine(AppContext.BaseDirectory, "MappedFileQueues.CrashLab.dll");
        // Blocks of 512 bytes: 128 MiB.
        string? failure = LabMount.Run(
            "bash", "-c", $"trap '' XFSZ; ulimit -f 131072; "
            + $"exec timeout 60 dotnet '{dll}' {FaultChild.Verb} {_fault} large '{store}'");
        if (failure is not null)
            throw new LabViolation($"With a limit of file sizes: {LastLines(failure)}");
        result.Add("real faults");
    }

    private static string LastLines(string text) => string.Join('\n', text.Split('\n').TakeLast(12));
}
