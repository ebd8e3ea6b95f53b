using System.Diagnostics;
using System.Runtime.InteropServices;

namespace MappedFileQueues.TestPeer;

/// <summary>What this process does to itself. The numbers are Linux's; the tests that use them run there only.</summary>
internal static partial class ProcessSignals
{
    private const int SigKill = 9;
    private const int SigStop = 19;
    private const int LimitOpenFiles = 7;
    private const int LimitProcesses = 6;
    private const int LimitAddressSpace = 9;

    /// <summary>Ends the process as a crash does: nothing is unwound, nothing flushed.</summary>
    public static void Kill()
    {
        if (OperatingSystem.IsLinux())
            _ = Send(Environment.ProcessId, SigKill);
        else
            Process.GetCurrentProcess().Kill();
        Thread.Sleep(Timeout.Infinite);
    }

    /// <summary>Stands still until somebody sends SIGCONT.</summary>
    public static void Stop() => _ = Send(Environment.ProcessId, SigStop);

    /// <summary>The most descriptors that may be open from now on.</summary>
    public static void LimitFiles(ulong count) => Limit(LimitOpenFiles, count);

    /// <summary>The most processes and threads that this process's user may have from now on; root has no limit.</summary>
    public static void LimitThreads(ulong count) => Limit(LimitProcesses, count);

    /// <summary>The most address space that this process may have from now on, in bytes.</summary>
    public static void LimitMemory(ulong length) => Limit(LimitAddressSpace, length);

    private static void Limit(int resource, ulong count)
    {
        ResourceLimit limit = default;
        if (GetLimit(resource, ref limit) != 0)
            throw new InvalidOperationException("getrlimit failed");
        limit.Current = Math.Min(count, limit.Maximum);
        if (SetLimit(resource, in limit) != 0)
            throw new InvalidOperationException("setrlimit failed");
    }

    [LibraryImport("libc", EntryPoint = "kill")]
    private static partial int Send(int processId, int signal);

    [LibraryImport("libc", EntryPoint = "getrlimit")]
    private static partial int GetLimit(int resource, ref ResourceLimit limit);

    [LibraryImport("libc", EntryPoint = "setrlimit")]
    private static partial int SetLimit(int resource, in ResourceLimit limit);

    private struct ResourceLimit
    {
        public ulong Current;
        public ulong Maximum;
    }
}
