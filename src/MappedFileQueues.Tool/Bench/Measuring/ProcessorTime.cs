using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.Tool.Bench.Measuring;

/// <summary>
/// How long all threads of a process have run. /proc/PID/stat counts in steps of 10 ms, which is 0.1 % of ten seconds;
/// the threads' schedstat files count nanoseconds.
/// </summary>
internal static class ProcessorTime
{
    public static TimeSpan Of(int processId)
    {
        string tasks = $"/proc/{processId}/task";
        if (File.Exists($"{tasks}/{processId}/schedstat"))
            return TimeSpan.FromMicroseconds(Directory.GetDirectories(tasks).Sum(NanosecondsOf) / 1000);
        using Process process = Process.GetProcessById(processId);
        return process.TotalProcessorTime;
    }

    private static double NanosecondsOf(string task)
    {
        try
        {
            string text = File.ReadAllText(Path.Combine(task, "schedstat"));
            return double.Parse(text.AsSpan(0, text.IndexOf(' ')), CultureInfo.InvariantCulture);
        }
        catch (IOException)
        {
            // A thread that ended between the listing and the look takes its time with it; idle processes end none.
            return 0;
        }
    }
}
