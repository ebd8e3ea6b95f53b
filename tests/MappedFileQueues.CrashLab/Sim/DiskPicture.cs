namespace MappedFileQueues.CrashLab.Sim;

/// <summary>A file at the moment of a picture; trailing zeros of both contents are left out.</summary>
internal sealed class FilePicture
{
    public FilePicture(SimFile file)
    {
        Length = file.Length;
        Content = Trimmed(file.Content);
        DurableLength = file.DurableLength;
        Durable = Trimmed(file.Durable);
        Blocks = [.. Enumerable.Range(0, file.PageCount).Where(file.HasBlock)];
        DurableBlocks = [.. file.DurableBlocks];
        Dirty = Content.AsSpan().SequenceEqual(Durable) ? [] : [.. file.DirtyPages()];
        HolesStoredInto = [.. file.StoresIntoHoles()];
        Shared = file.Shared;
    }

    public int Length { get; }

    public byte[] Content { get; }

    public int DurableLength { get; }

    public byte[] Durable { get; }

    public int[] Blocks { get; }

    public int[] DurableBlocks { get; }

    public int[] Dirty { get; }

    public int[] HolesStoredInto { get; }

    public byte[]? Shared { get; }

    private static byte[] Trimmed(ReadOnlySpan<byte> content) => content[..(content.LastIndexOfAnyExcept((byte)0) + 1)].ToArray();
}

/// <summary>Everything about a disk at one moment: what a kill of all processes leaves, and all that a cut could leave.</summary>
internal sealed class DiskPicture
{
    public DiskPicture(SimDisk disk)
    {
        lock (disk.Gate)
        {
            RootExists = disk.RootExists;
            Names = disk.Names.ToDictionary(StringComparer.Ordinal);
            Folders = [.. disk.Folders];
            DurableNames = disk.DurableNames.ToDictionary(StringComparer.Ordinal);
            DurableFolders = [.. disk.DurableFolders];
            Pending = [.. disk.Pending];
            foreach (SimFile file in Names.Values.Concat(DurableNames.Values).Concat(Pending.Select(change => change.File!)))
            {
                if (file is not null && !Files.ContainsKey(file))
                    Files.Add(file, new FilePicture(file));
            }
        }

        Dirty =
        [
            .. Names.OrderBy(name => name.Key.StartsWith("commitlog/", StringComparison.Ordinal))
                .ThenBy(name => name.Key, StringComparer.Ordinal)
                .SelectMany(name => Files[name.Value].Dirty.Select(page => (name.Value, page))),
        ];
    }

    public bool RootExists { get; }

    public Dictionary<string, SimFile> Names { get; }

    public HashSet<string> Folders { get; }

    public Dictionary<string, SimFile> DurableNames { get; }

    public HashSet<string> DurableFolders { get; }

    public IReadOnlyList<NameChange> Pending { get; }

    public Dictionary<SimFile, FilePicture> Files { get; } = [];

    /// <summary>The pages that the medium does not hold as they are, those of the log last.</summary>
    public IReadOnlyList<(SimFile File, int Page)> Dirty { get; }

    /// <summary>Names of files in whose holes somebody stored: on a full disk that kills.</summary>
    public IEnumerable<string> HolesStoredInto =>
        from name in Names where Files[name.Value].HolesStoredInto.Length > 0 select name.Key;
}
