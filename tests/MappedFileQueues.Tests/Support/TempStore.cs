namespace MappedFileQueues.Tests.Support;

/// <summary>
/// A fresh folder for one test, removed at its end. It is under the system's folder for temporary files; where that is held
/// in memory (tmpfs), where allocation and flushing are no real work, TMPDIR moves it.
/// </summary>
internal sealed class TempStore : IDisposable
{
    private const string MemoryFolder = "/dev/shm";

    /// <summary>
    /// Makes the folder; <paramref name="createStoreFolder"/> tells whether the store's own folder in it is made too.
    /// </summary>
    public TempStore(bool createStoreFolder = false)
    {
        Root = Directory.CreateTempSubdirectory("mfq-test-").FullName;
        if (createStoreFolder)
            Directory.CreateDirectory(StorePath);
    }

    /// <summary>Makes the folder inside another one, which stays.</summary>
    public TempStore(string parent)
    {
        Root = Path.Combine(parent, $"mfq-test-{Path.GetRandomFileName()}");
        Directory.CreateDirectory(Root);
    }

    /// <summary>
    /// In memory where there is such a place, for what is not about disks: flushing costs nothing there, and it is another file
    /// system to work on.
    /// </summary>
    public static TempStore InMemory() =>
        OperatingSystem.IsLinux() && Directory.Exists(MemoryFolder) ? new TempStore(MemoryFolder) : new TempStore();

    /// <summary>The folder that is removed at the end.</summary>
    public string Root { get; }

    /// <summary>A place inside it for the store.</summary>
    public string StorePath => Path.Combine(Root, "store");

    /// <summary>A path inside the store's folder; the parts are joined.</summary>
    public string PathOf(params ReadOnlySpan<string> parts) => Path.Combine([StorePath, .. parts]);

    /// <summary>Lets everybody read a file, or look into a folder; only the owner may write.</summary>
    public static void MakeReadable(string path)
    {
        const UnixFileMode Readable = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute
            | UnixFileMode.GroupRead | UnixFileMode.GroupExecute | UnixFileMode.OtherRead | UnixFileMode.OtherExecute;
        if (!OperatingSystem.IsWindows())
            File.SetUnixFileMode(path, Readable);
    }

    /// <summary>The content of a file that somebody has open for writing.</summary>
    public static byte[] ReadOpenFile(string path)
    {
        using FileStream file = new(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete);
        byte[] bytes = new byte[file.Length];
        file.ReadExactly(bytes);
        return bytes;
    }

    /// <summary>
    /// Removes the folder. A test that leaves it unremovable (an open handle on Windows, say) fails here, as it should.
    /// </summary>
    public void Dispose()
    {
        if (!Directory.Exists(Root))
            return;
        MakeRemovable();
        Directory.Delete(Root, recursive: true);
    }

    /// <summary>Tests of missing rights leave folders that nobody may look into.</summary>
    private void MakeRemovable()
    {
        if (OperatingSystem.IsWindows())
            return;
        const UnixFileMode All = UnixFileMode.UserRead | UnixFileMode.UserWrite | UnixFileMode.UserExecute;
        Stack<string> folders = new([Root]);
        while (folders.TryPop(out string? folder))
        {
            File.SetUnixFileMode(folder, File.GetUnixFileMode(folder) | All);
            foreach (DirectoryInfo inner in new DirectoryInfo(folder).EnumerateDirectories())
            {
                if (inner.LinkTarget is null)
                    folders.Push(inner.FullName);
            }
        }
    }
}
