namespace MappedFileQueues.CrashLab.Sim;

/// <summary>
/// Makes the disks that a moment could leave behind: the one after a kill of all processes, and those after a power loss, where
/// any subset of the dirty pages (and, within a page, of its sectors) has reached the medium, lengths are old or new, and
/// changes of folders that were not flushed were done or not.
/// </summary>
internal static class CutImage
{
    private const int SectorsPerPage = SimFile.Page / SimFile.Sector;
    private const int AllSectors = (1 << SectorsPerPage) - 1;

    /// <summary>Chooses the sectors of a dirty page that reached the medium, a bit each.</summary>
    private delegate int Chooser(SimFile file, int page);

    /// <summary>What a kill leaves: all that was stored.</summary>
    public static SimDisk OfKill(DiskPicture picture, bool tracksMedium)
    {
        var disk = new SimDisk(tracksMedium) { RootExists = picture.RootExists };
        foreach (string folder in picture.Folders)
            disk.PlaceFolder(folder);
        foreach ((string name, SimFile file) in picture.Names)
        {
            FilePicture content = picture.Files[file];
            SimFile copy = disk.NewFile(file);
            copy.Fill(content.Content, content.Length, content.Blocks);
            copy.Shared = content.Shared;
            disk.Place(name, copy);
        }

        return disk;
    }

    /// <summary>One of the disks that a cut could leave.</summary>
    public static SimDisk OfCut(DiskPicture picture, Random random, bool tracksMedium) =>
        Make(picture, random, tracksMedium, Style(picture, random));

    /// <summary>
    /// One of the 2^n disks that differ in the last n dirty pages; what becomes of the earlier ones the seed says.
    /// </summary>
    public static SimDisk OfSubset(DiskPicture picture, int count, int subset, Random random)
    {
        Dictionary<(SimFile, int), int> last = picture.Dirty.TakeLast(count).Index()
            .ToDictionary(entry => entry.Item, entry => (subset >> entry.Index & 1) == 0 ? 0 : AllSectors);
        bool others = random.Next(2) == 0;
        return Make(picture, random, tracksMedium: true, (file, page) =>
            last.TryGetValue((file, page), out int sectors) ? sectors : others ? AllSectors : 0);
    }

    /// <summary>The disk that holds what was stored into the files of a folder, and nothing else that was not synced.</summary>
    public static SimDisk OfFolder(DiskPicture picture, string folder, Random random)
    {
        HashSet<SimFile> written = [.. picture.Names
            .Where(name => name.Key.StartsWith(folder + "/", StringComparison.Ordinal)).Select(name => name.Value)];
        return Make(picture, random, tracksMedium: true, (file, _) => written.Contains(file) ? AllSectors : 0);
    }

    private static SimDisk Make(DiskPicture picture, Random random, bool tracksMedium, Chooser choose)
    {
        var disk = new SimDisk(tracksMedium) { RootExists = picture.RootExists };
        Dictionary<string, SimFile> names = ChooseNames(picture, random, out HashSet<string> folders);
        foreach (string folder in folders.Where(name => IsThere(name, folders)))
            disk.PlaceFolder(folder);
        foreach ((string name, SimFile file) in names.OrderBy(name => name.Key, StringComparer.Ordinal))
        {
            if (!disk.IsFolder(SimDisk.FolderOf(name)))
                continue;
            SimFile copy = disk.NewFile(file);
            Fill(copy, file, picture.Files[file], random, choose);
            copy.Shared = picture.Files[file].Shared;
            disk.Place(name, copy);
        }

        return disk;
    }

    private static bool IsThere(string folder, HashSet<string> folders) =>
        SimDisk.FolderOf(folder) is var parent && (parent.Length == 0 || (folders.Contains(parent) && IsThere(parent, folders)));

    private static Dictionary<string, SimFile> ChooseNames(DiskPicture picture, Random random, out HashSet<string> folders)
    {
        var names = picture.DurableNames.ToDictionary(StringComparer.Ordinal);
        folders = [.. picture.DurableFolders];
        double share = random.Next(4) switch { 0 => 0, 1 => 1, 2 => 0.5, _ => 0.9 };
        // A journal commits in order; a file system without one does not.
        bool inOrder = random.Next(2) == 0;
        int until = random.Next(picture.Pending.Count + 1);
        for (int i = 0; i < picture.Pending.Count; i++)
        {
            if (share == 1 || (inOrder && share > 0 ? i < until : random.NextDouble() < share))
                picture.Pending[i].Apply(names, folders);
        }

        return names;
    }

    private static void Fill(SimFile copy, SimFile file, FilePicture picture, Random random, Chooser choose)
    {
        int length = picture.Length != picture.DurableLength && random.Next(2) == 0 ? picture.DurableLength : picture.Length;
        if (picture.Dirty.Length == 0)
        {
            copy.Fill(picture.Content, length, picture.DurableBlocks);
            return;
        }

        byte[] content = new byte[Math.Max(picture.Length, picture.DurableLength)];
        picture.Durable.CopyTo(content, 0);
        foreach (int page in picture.Dirty)
            MixPage(content, picture.Content, page * SimFile.Page, choose(file, page));
        copy.Fill(content, length, picture.DurableBlocks);
    }

    private static void MixPage(byte[] content, byte[] changed, int position, int sectors)
    {
        for (int sector = 0; sector < SectorsPerPage; sector++)
        {
            int at = position + (sector * SimFile.Sector);
            if ((sectors & (1 << sector)) == 0 || at >= content.Length)
                continue;
            Span<byte> target = content.AsSpan(at, Math.Min(SimFile.Sector, content.Length - at));
            target.Clear();
            if (at < changed.Length)
                changed.AsSpan(at, Math.Min(target.Length, changed.Length - at)).CopyTo(target);
        }
    }

    /// <summary>Cuts of several temperaments: pure chance alone would hardly ever write all but one page.</summary>
    private static Chooser Style(DiskPicture picture, Random random)
    {
        (SimFile File, int Page) one = picture.Dirty.Count == 0 ? default : picture.Dirty[random.Next(picture.Dirty.Count)];
        double share = random.NextDouble();
        int kind = random.Next(10);
        return kind switch
        {
            0 => (_, _) => 0,
            1 => (_, _) => AllSectors,
            2 => (file, page) => (file, page) == one ? AllSectors : 0,
            3 => (file, page) => (file, page) == one ? 0 : AllSectors,
            4 => (file, page) => (file, page) == one ? random.Next(AllSectors + 1) : AllSectors,
            5 => (file, _) => file == one.File ? AllSectors : 0,
            6 => (file, _) => file == one.File ? 0 : AllSectors,
            7 => (_, _) => random.NextDouble() < share ? AllSectors : 0,
            8 => (_, _) => random.Next(AllSectors + 1),
            _ => (_, _) => random.Next(3) switch { 0 => 0, 1 => AllSectors, _ => random.Next(AllSectors + 1) },
        };
    }
}
