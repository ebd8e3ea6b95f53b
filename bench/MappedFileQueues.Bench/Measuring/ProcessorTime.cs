using System.Diagnostics;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Bench.Measuring;

/// <summary>
/// How long all threads of a process have run, those that have ended too. /proc/PID/stat tells it in steps of 10 ms, which is
/// 0.1 % of ten seconds; the process's own clock in the kernel tells the same in nanoseconds.
/// </summary>
internal static unsafe partial class ProcessorTime
{
    /// <summary>CPUCLOCK_SCHED of posix-timers_types.h: what the scheduler counted, for the whole process.</summary>
    private const int SchedulerClock = 2;

    public static TimeSpan Of(int processId)
    {
        if (OperatingSystem.IsLinux() && Environment.Is64BitProcess)
        {
            // The layout of a clock's number is part of the kernel's interface (clock_getcpuclockid(3) only computes it).
            long* time = stackalloc long[2];
            if (GetTime((~processId << 3) | SchedulerClock, time) == 0)
                return TimeSpan.FromSeconds(time[0]) + TimeSpan.FromMicroseconds(time[1] / 1000.0);
        }

        try
        {
            using Process process = Process.GetProcessById(processId);
            return process.TotalProcessorTime;
        }
        catch (Exception exception) when (exception is ArgumentException or InvalidOperationException)
        {
            throw new ToolException($"A process that should have been idle has ended: pid={processId}.");
        }
    }

    [LibraryImport("libc", EntryPoint = "clock_gettime")]
    private static partial int GetTime(int clock, long* time);
}
