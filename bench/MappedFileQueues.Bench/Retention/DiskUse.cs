namespace MappedFileQueues.Bench.Retention;

/// <summary>
/// How much a store takes on the disk at most, looked at all the time by a thread of its own: the lengths of its files, and of
/// those that are removed but still mapped, where the system tells (Linux).
/// </summary>
internal sealed class DiskUse : IDisposable
{
    private const string MapsPath = "/proc/self/maps";
    private const string Removed = " (deleted)";

    private static readonly TimeSpan s_interval = TimeSpan.FromMilliseconds(20);

    private readonly string _path;
    private readonly Thread _thread;
    private readonly ManualResetEvent _ends = new(false);
    private long _most;

    public DiskUse(string path)
    {
        _path = path;
        _thread = new Thread(Look) { IsBackground = true, Name = "disk use" };
        _thread.Start();
    }

    /// <summary>The most so far.</summary>
    public long Most => Volatile.Read(ref _most);

    public void Dispose()
    {
        _ends.Set();
        _thread.Join();
        _ends.Dispose();
    }

    private void Look()
    {
        do
            Volatile.Write(ref _most, Math.Max(_most, NamedLength() + RemovedLength()));
        while (!_ends.WaitOne(s_interval));
    }

    private long NamedLength()
    {
        long sum = 0;
        foreach (FileInfo file in new DirectoryInfo(_path).EnumerateFiles("*", SearchOption.AllDirectories))
        {
            try
            {
                sum += file.Length;
            }
            catch (FileNotFoundException)
            {
                // Renamed or removed meanwhile.
            }
        }

        return sum;
    }

    private long RemovedLength() => !OperatingSystem.IsLinux()
        ? 0
        : File.ReadLines(MapsPath)
            .Where(line => line.EndsWith(Removed, StringComparison.Ordinal) && line.Contains(_path, StringComparison.Ordinal))
            .Sum(LengthOf);

    private static long LengthOf(string line)
    {
        string[] ends = line[..line.IndexOf(' ', StringComparison.Ordinal)].Split('-');
        return Convert.ToInt64(ends[1], 16) - Convert.ToInt64(ends[0], 16);
    }
}
