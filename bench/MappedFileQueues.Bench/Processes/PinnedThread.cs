using System.Diagnostics;
using System.Runtime.ExceptionServices;
using System.Runtime.InteropServices;
using System.Runtime.Versioning;

namespace MappedFileQueues.Bench.Processes;

/// <summary>
/// Runs code on a thread that stays on one CPU. Only that thread is pinned: the queue's own threads, made while it runs, go where
/// the system puts them, as they do for a user.
/// </summary>
internal static unsafe partial class PinnedThread
{
    /// <summary>Runs it on the n-th of the CPUs that this process may use (going round), and rethrows what it throws.</summary>
    public static T Run<T>(int index, Func<T> body)
    {
        T? result = default;
        ExceptionDispatchInfo? failure = null;
        ulong mask = MaskOf(index);
        Thread thread = new(() =>
        {
            try
            {
                Pin(mask);
                result = body();
            }
            catch (Exception exception)
            {
                failure = ExceptionDispatchInfo.Capture(exception);
            }
        })
        {
            Name = $"pinned {index}",
        };
        thread.Start();
        thread.Join();
        failure?.Throw();
        return result!;
    }

    /// <summary>One bit of the CPUs that this process may use; 0 where that is not known.</summary>
    private static ulong MaskOf(int index)
    {
        if (!OperatingSystem.IsLinux() && !OperatingSystem.IsWindows())
            return 0;
        List<ulong> allowed = [];
        ulong all = (ulong)GetProcessMask();
        for (int cpu = 0; cpu < 64; cpu++)
        {
            if ((all & (1UL << cpu)) != 0)
                allowed.Add(1UL << cpu);
        }

        return allowed.Count == 0 ? 0 : allowed[index % allowed.Count];
    }

    [SupportedOSPlatform("linux")]
    [SupportedOSPlatform("windows")]
    private static nint GetProcessMask()
    {
        using Process self = Process.GetCurrentProcess();
        return self.ProcessorAffinity;
    }

    private static void Pin(ulong mask)
    {
        // A refusal (a CPU taken away meanwhile) only makes the figure less steady.
        if (mask != 0 && OperatingSystem.IsLinux())
        {
            _ = SetAffinity(0, sizeof(ulong), &mask);
        }
        else if (mask != 0 && OperatingSystem.IsWindows())
        {
            using Process self = Process.GetCurrentProcess();
            self.ProcessorAffinity = (nint)mask;
        }
    }

    [LibraryImport("libc", EntryPoint = "sched_setaffinity")]
    private static partial int SetAffinity(int threadId, nuint length, ulong* mask);
}
