using System.Globalization;
using MappedFileQueues.Files.Names;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Files.Reading;

/// <summary>
/// The files that bear one name one after the other, for a reader that goes from each to the next: the one that has the name now,
/// and those before it, under the names that <see cref="AppendFileStream"/> (`app.roll-000001.log`) or logrotate (`app.log.1`,
/// `app.log-20260131`) gave them. Files are told apart by their inodes, so it does not matter when they are renamed, or to what.
/// <para>Names change while they are looked at. What was found counts only when the name still means the same file afterwards,
/// and two lists of the directory, one after the other, say the same.</para>
/// </summary>
internal sealed class FileSequence
{
    private const int TriesMax = 100;

    private readonly string _path;

    public FileSequence(string path)
    {
        if (CurrentPlatform.Services.IsPortable)
        {
            throw new PlatformNotSupportedException(
                "Files that are renamed can be told apart on Linux only: FollowRolls and ResumeAt need that. Follow the file"
                    + " without FollowRolls, and open it again after it was renamed.");
        }

        _path = Path.GetFullPath(path);
    }

    private enum Naming
    {
        None,

        /// <summary>The higher the younger.</summary>
        Rolled,

        /// <summary>logrotate's: the higher the older.</summary>
        Counted,

        /// <summary>logrotate's with dateext.</summary>
        Dated,
    }

    /// <summary>
    /// Opens the file of a position, else the one that bears the name. Between two renames, and before the first file is made,
    /// that is one without a byte, which is followed by the first that gets the name.
    /// </summary>
    public ReadableFile Open(FilePosition? position, bool mayBeMissing)
    {
        FileMark mark = position?.File ?? default;
        for (int tries = 0; ; tries++)
        {
            ReadableFile? head = CurrentPlatform.Services.TryOpenForReading(_path);
            if (head is not null && (mark == default || head.Mark == mark))
                return head;
            using HeldDirectory? folder = OpenFolder(out string name);
            if (mark == default && head is null && mayBeMissing && folder is not null)
                return new MissingFile(_path, LastOf(folder, name));
            if (folder is not null && mark != default && Find(folder, mark) is { } found)
            {
                head?.Dispose();
                return found;
            }

            bool isStill = IsStill(head);
            head?.Dispose();
            if (isStill || tries == TriesMax)
                throw NotThere(position);
        }
    }

    /// <summary>
    /// Opens the file that came after this one. Null while there is none: while this one bears the name, or while the one that
    /// bears it is empty. Until that has its first byte, whoever writes may not have noticed the renaming, and writes here.
    /// </summary>
    public ReadableFile? FindNext(ReadableFile current)
    {
        for (int tries = 0; tries < TriesMax; tries++)
        {
            ReadableFile? head = CurrentPlatform.Services.TryOpenForReading(_path);
            ReadableFile? next = null;
            try
            {
                if (head is not null && head.Mark == current.Mark)
                    return null;
                if (TryFindNext(current, head, out next))
                    return next;
            }
            finally
            {
                if (next != head)
                    head?.Dispose();
            }
        }

        return null;
    }

    private static ReadableFile? Find(HeldDirectory folder, FileMark mark)
    {
        foreach (string name in folder.List(""))
        {
            if (folder.Identify(name)?.Inode == mark.Inode && OpenIfSame(Path.Combine(folder.Path, name), mark.Inode) is { } file)
            {
                if (file.Mark == mark)
                    return file;
                file.Dispose();
            }
        }

        return null;
    }

    /// <summary>Null when the name means another file by now, or none.</summary>
    private static ReadableFile? OpenIfSame(string path, ulong inode)
    {
        ReadableFile? file = CurrentPlatform.Services.TryOpenForReading(path);
        if (file is null || file.Mark?.Inode == inode)
            return file;
        file.Dispose();
        return null;
    }

    /// <summary>False when the names changed meanwhile.</summary>
    private bool TryFindNext(ReadableFile current, ReadableFile? head, out ReadableFile? next)
    {
        next = null;
        using HeldDirectory? folder = OpenFolder(out string name);
        if (folder is null)
            return true;
        List<Closed> closed = List(folder, name);
        if (!IsStill(head) || !closed.SequenceEqual(List(folder, name)))
            return false;
        int place = closed.FindIndex(file => file.Inode == MarkOf(current).Inode);
        Closed? found = place < 0
            ? OldestBehind(folder, closed, current)
            : place + 1 < closed.Count && closed[place + 1].Naming == closed[place].Naming ? closed[place + 1] : null;
        if (found is not { } file)
        {
            next = head?.Length > 0 ? head : null;
            return true;
        }

        next = OpenIfSame(Path.Combine(folder.Path, file.Name), file.Inode);
        return next is not null;
    }

    /// <summary>
    /// The file was deleted or has a name of another kind. Those that were written to later came later; of a name that bears
    /// the same time, the one that was made later.
    /// </summary>
    private static Closed? OldestBehind(HeldDirectory folder, List<Closed> closed, ReadableFile current)
    {
        Closed? oldest = null;
        (long, long) least = (long.MaxValue, long.MaxValue);
        foreach (Closed candidate in closed)
        {
            using ReadableFile? file = OpenIfSame(Path.Combine(folder.Path, candidate.Name), candidate.Inode);
            if (file is null)
                continue;
            (long, long) time = TimeOf(file);
            if (time.CompareTo(TimeOf(current)) > 0 && time.CompareTo(least) < 0)
                (oldest, least) = (candidate, time);
        }

        return oldest;
    }

    /// <summary>The youngest closed file there is: what comes first is what comes behind it.</summary>
    private static (long Modified, FileMark Mark) LastOf(HeldDirectory folder, string name)
    {
        (long Modified, FileMark Mark) last = default;
        foreach (Closed candidate in List(folder, name))
        {
            using ReadableFile? file = OpenIfSame(Path.Combine(folder.Path, candidate.Name), candidate.Inode);
            if (file?.Modified >= last.Modified)
                last = (file.Modified, file.Mark ?? default);
        }

        return last;
    }

    private static FileMark MarkOf(ReadableFile file) => file is MissingFile missing ? missing.Last : file.Mark ?? default;

    private static (long Modified, long Birth) TimeOf(ReadableFile file) => (file.Modified, MarkOf(file).Birth);

    /// <summary>The closed files, each kind of names by itself, oldest first.</summary>
    private static List<Closed> List(HeldDirectory folder, string name)
    {
        List<Closed> closed = [];
        RolledNames rolled = new(name);
        foreach (string other in folder.List(""))
        {
            (Naming naming, long rank) = RankOf(other, name, rolled);
            if (naming != Naming.None && folder.Identify(other) is { } identity)
                closed.Add(new Closed(other, naming, rank, identity.Inode));
        }

        closed.Sort();
        return closed;
    }

    private static (Naming Naming, long Rank) RankOf(string other, string name, RolledNames rolled)
    {
        const int DateLengthMin = 8;
        if (rolled.NumberOf(other) is > 0 and long number)
            return (Naming.Rolled, number);
        if (other.Length < name.Length + 2 || !other.StartsWith(name, StringComparison.Ordinal))
            return default;
        ReadOnlySpan<char> suffix = other.AsSpan(name.Length + 1);
        if (other[name.Length] == '.' && long.TryParse(suffix, NumberStyles.None, CultureInfo.InvariantCulture, out number))
            return (Naming.Counted, -number);
        bool isDate = other[name.Length] == '-' && suffix.Length >= DateLengthMin
            && suffix.IndexOfAnyExcept("0123456789-") < 0;
        return isDate ? (Naming.Dated, 0) : default;
    }

    /// <summary>The folder and the name in it, through symbolic links.</summary>
    private HeldDirectory? OpenFolder(out string name)
    {
        string path = FileLinks.Follow(_path);
        name = Path.GetFileName(path);
        return CurrentPlatform.Services.OpenDirectory(Path.GetDirectoryName(path)!, create: false, mode: null);
    }

    private bool IsStill(ReadableFile? head)
    {
        using ReadableFile? now = CurrentPlatform.Services.TryOpenForReading(_path);
        return now?.Mark == head?.Mark;
    }

    private QueueNotFoundException NotThere(FilePosition? position) => position is null or { File: { Inode: 0 } }
        ? new QueueNotFoundException(
            $"Cannot open the file for reading: path={_path}, errno={DiskErrors.ENOENT}. Check the path.", _path)
        : new QueueNotFoundException($"The file of this position is no longer in its folder: path={_path}, position={position}."
            + " It was deleted, moved away or compressed; read from the beginning of a file that is there.", _path);

    private readonly record struct Closed(string Name, Naming Naming, long Rank, ulong Inode) : IComparable<Closed>
    {
        public int CompareTo(Closed other)
        {
            int order = (Naming, Rank).CompareTo((other.Naming, other.Rank));
            return order != 0 ? order : string.CompareOrdinal(Name, other.Name);
        }
    }
}

/// <summary>
/// No file yet: it has no bytes, and stands for the last one that was closed before; what comes, comes after that.
/// </summary>
internal sealed class MissingFile(string path, (long Modified, FileMark Mark) last) : ReadableFile
{
    public override string Path => path;

    public override long Length => 0;

    /// <summary>The one that it stands for.</summary>
    public FileMark Last => last.Mark;

    public override FileMark? Mark => default(FileMark);

    public override long Modified => last.Modified;

    public override int ReadAt(Span<byte> destination, long position) => 0;

    public override int ReadCachedAt(Span<byte> destination, long position) => 0;

    public override void AdviseSequential()
    {
    }

    public override void AdviseWillNeed(long position, long length)
    {
    }

    public override void Dispose()
    {
    }
}
