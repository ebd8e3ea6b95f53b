using MappedFileQueues.Platform;

namespace MappedFileQueues.CrashLab.Sim;

/// <summary>
/// A disk with one store on it, in memory: names, files, locks, and beside what the processes see what the medium holds. A
/// power loss at any moment is then a choice of what of the difference has reached the medium (<see cref="CutImage"/>).
/// </summary>
internal sealed class SimDisk(bool tracksMedium) : IDisposable
{
    public const string Root = "/sim/store";

    private readonly Dictionary<string, SimFile> _names = new(StringComparer.Ordinal);
    private readonly HashSet<string> _folders = new(StringComparer.Ordinal);
    private readonly List<NameChange> _pending = [];
    private int _fileCount;

    public Lock Gate { get; } = new();

    public bool TracksMedium => tracksMedium;

    public bool RootExists { get; set; }

    /// <summary>Called before and after each call that changes something, without the gate.</summary>
    public Action<string>? Point { get; set; }

    /// <summary>Called with a lock's name when somebody does not get it: others may go on and release it.</summary>
    public Action<string>? Refused { get; set; }

    /// <summary>What fails; null: nothing does.</summary>
    public SimFaults? Faults { get; set; }

    public SimLocks Locks { get; } = new();

    /// <summary>How many bytes were read by position since the last reset.</summary>
    public long BytesRead { get; set; }

    public IReadOnlyDictionary<string, SimFile> Names => _names;

    public IReadOnlyCollection<string> Folders => _folders;

    public Dictionary<string, SimFile> DurableNames { get; } = new(StringComparer.Ordinal);

    public HashSet<string> DurableFolders { get; } = new(StringComparer.Ordinal);

    public IReadOnlyList<NameChange> Pending => _pending;

    public static string FolderOf(string name) => name.Contains('/') ? name[..name.LastIndexOf('/')] : "";

    public SimFile? Find(string name) => _names.GetValueOrDefault(name);

    public bool IsFolder(string name) => name.Length == 0 || _folders.Contains(name);

    public SimFile NewFile() => new(++_fileCount, tracksMedium);

    /// <summary>An empty file with the inode that the other one has, which a crash does not change.</summary>
    public SimFile NewFile(SimFile original)
    {
        _fileCount = Math.Max(_fileCount, original.Id);
        return new SimFile(original.Id, tracksMedium);
    }

    public SimFile Create(string name)
    {
        SimFile file = NewFile();
        Do(new NameChange(NameChangeKind.Add, FolderOf(name), "", name, file));
        return file;
    }

    public bool MakeFolder(string name)
    {
        if (_folders.Contains(name))
            return false;
        Do(new NameChange(NameChangeKind.MakeFolder, FolderOf(name), "", name, null));
        return true;
    }

    public bool Remove(string name)
    {
        if (!_names.TryGetValue(name, out SimFile? file))
            return false;
        Do(new NameChange(NameChangeKind.Remove, FolderOf(name), name, "", file));
        return true;
    }

    public void Move(string from, string to)
    {
        SimFile file = _names[from];
        if (FolderOf(from) == FolderOf(to))
        {
            Do(new NameChange(NameChangeKind.Move, FolderOf(to), from, to, file));
            return;
        }

        var add = new NameChange(NameChangeKind.Add, FolderOf(to), "", to, file);
        Do(add);
        Do(new NameChange(NameChangeKind.Remove, FolderOf(from), from, "", file, add));
    }

    /// <summary>The changes of a folder's entries go to the medium, in their order.</summary>
    public void FlushFolder(string folder)
    {
        if (!tracksMedium)
            return;
        foreach (NameChange change in _pending.Where(change => change.Folder == folder))
            change.Apply(DurableNames, DurableFolders);
        _pending.RemoveAll(change => change.Folder == folder);
    }

    /// <summary>Puts a file of an image in place: it is on the medium, and so is its name.</summary>
    public void Place(string name, SimFile file)
    {
        _names[name] = file;
        if (tracksMedium)
            DurableNames[name] = file;
    }

    public void PlaceFolder(string name)
    {
        _folders.Add(name);
        if (tracksMedium)
            DurableFolders.Add(name);
    }

    /// <summary>The system found time to write some dirty pages back, in no order.</summary>
    public void WriteBackSome(Random random)
    {
        double share = random.NextDouble();
        foreach (SimFile file in _names.OrderBy(name => name.Key, StringComparer.Ordinal).Select(name => name.Value))
        {
            if (random.Next(3) != 0)
                continue;
            foreach (int page in file.DirtyPages().ToList())
            {
                if (random.NextDouble() < share)
                    file.WriteBack(page);
            }
        }
    }

    public QueueDiskException Error(string failed, string name, int errno, string text) =>
        DiskErrors.Make(failed, $"{Root}/{name}", errno, text);

    public void Dispose()
    {
        foreach (SimFile file in _names.Values.Distinct())
            file.Dispose();
        _names.Clear();
    }

    private void Do(NameChange change)
    {
        change.Apply(_names, _folders);
        if (tracksMedium)
            _pending.Add(change);
    }
}
