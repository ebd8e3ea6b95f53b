using System.Globalization;
using MappedFileQueues.Files.Names;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Files.Reading.Blocks;

/// <summary>
/// The files that have one name one after the other, for a reader that goes from each to the next: the one that has it now,
/// and those before it, under the names that <see cref="AppendFileStream"/> (`app.roll-000001.log`) or logrotate (`app.log.1`,
/// `app.log-20260131`) gave them. Files are told apart by their inodes, so it does not matter when they are renamed, or to what.
/// <para>Names change while they are looked at. What was found counts only when the name still means the same file afterwards,
/// and two lists of the directory, one after the other, say the same.</para>
/// </summary>
internal sealed class FileSequence
{
    private const int TriesMax = 100;

    private readonly string _path;

    /// <summary>The file that <see cref="IsReused"/> was asked about last, and what it knows of it.</summary>
    private ReadableFile? _watched;
    private string? _closedName;
    private long _highestNumber;
    private Reuse _reuse;

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

    private enum Reuse
    {
        Possible,

        /// <summary>The file has no name of those that a stream takes to write them again.</summary>
        Impossible,

        Happened,
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
    /// Opens the file of a position, else the one that has the name. Between two renames, and before the first file is created,
    /// that is one without a byte, which is followed by the first that gets the name.
    /// </summary>
    public ReadableFile Open(FilePosition? position, bool mayBeMissing)
    {
        FileMark mark = position?.File ?? default;
        for (int tries = 0; ; tries++)
        {
            ReadableFile? head = ReadableFile.TryOpen(_path);
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
    /// Opens the file that came after this one. Null while there is none: while this one has the name, or while the one that has
    /// it is empty. Until that has its first byte, a writer may not have noticed the renaming, and writes to this one.
    /// </summary>
    public ReadableFile? FindNext(ReadableFile current)
    {
        for (int tries = 0; tries < TriesMax; tries++)
        {
            ReadableFile? head = ReadableFile.TryOpen(_path);
            ReadableFile? next = null;
            try
            {
                if (head is not null && head.Mark == current.Mark && !IsKnownAsReused(current))
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

    /// <summary>
    /// Whether a stream has taken this closed file to write it again (ReuseOldFiles). Asked after a read: the file loses its
    /// number before its first byte is overwritten, and a number is given once, so what was read before it was lost is whole.
    /// </summary>
    public bool IsReused(ReadableFile current)
    {
        if (_watched == current && _reuse != Reuse.Possible)
            return _reuse == Reuse.Happened;
        try
        {
            using HeldDirectory? folder = OpenFolder(out string name);
            if (folder is not null)
                Look(current, folder, name);
        }
        catch (QueueDiskException error) when (error.Errno is DiskErrors.EACCES or DiskErrors.EPERM)
        {
            // A reader may open the file where it may not list the folder. Then nothing is known of the names.
        }

        return IsKnownAsReused(current);
    }

    private void Look(ReadableFile current, HeldDirectory folder, string name)
    {
        RolledNames rolled = new(name);
        if (_watched != current)
            Watch(current, folder, rolled);
        ulong inode = MarkOf(current).Inode;
        if (_reuse == Reuse.Impossible || folder.Identify(_closedName ?? name)?.Inode == inode)
            return;

        // It has lost the name that it had at the last look.
        IReadOnlyList<string> names = [];
        string? now = FindName() ?? FindName();
        if (now is null)
        {
            _reuse = Reuse.Impossible;
        }
        else if (now == rolled.Next)
        {
            _reuse = Reuse.Happened;
        }
        else if (_closedName is null)
        {
            _closedName = now == name ? null : now;
        }
        else
        {
            // A roll that could not be done gives the number back. It was the highest one.
            long number = rolled.NumberOf(_closedName);
            bool wasTakenBack = now == name && !names.Any(other => rolled.NumberOf(other) > number);
            (_reuse, _closedName) = (wasTakenBack ? Reuse.Possible : Reuse.Happened, null);
        }

        // A file may get another name while the names are looked at, and so be missed once.
        string? FindName() => (names = folder.List("")).FirstOrDefault(
            other => (other == name || other == rolled.Next || rolled.NumberOf(other) > 0)
                && folder.Identify(other)?.Inode == inode);
    }

    /// <summary>
    /// Whether a file that has another content than before was written again since the last look, rather than truncated: a
    /// closed one, or one that has the name again. Then a number was given meanwhile.
    /// </summary>
    public bool WasReused(ReadableFile current)
    {
        using HeldDirectory? folder = OpenFolder(out string name);
        if (_watched == current && folder is not null
            && (_closedName is not null || HighestOf(folder, new RolledNames(name)) > _highestNumber))
            _reuse = Reuse.Happened;
        return IsKnownAsReused(current);
    }

    private static long HighestOf(HeldDirectory folder, RolledNames rolled) =>
        folder.List("").Select(rolled.NumberOf).DefaultIfEmpty().Max();

    private void Watch(ReadableFile file, HeldDirectory folder, RolledNames rolled)
    {
        string opened = Path.GetFileName(file.Path);
        _highestNumber = HighestOf(folder, rolled);
        (_watched, _reuse) = (file, file is MissingFile ? Reuse.Impossible : Reuse.Possible);
        _closedName = rolled.NumberOf(opened) > 0 ? opened : null;
    }

    private bool IsKnownAsReused(ReadableFile file) => _watched == file && _reuse == Reuse.Happened;

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
        ReadableFile? file = ReadableFile.TryOpen(path);
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

        // The oldest file is the one that is written again: those that are left come after it.
        Closed? found = IsKnownAsReused(current) ? OldestRolled(closed)
            : place < 0 ? OldestAfter(folder, closed, current)
            : place + 1 < closed.Count && closed[place + 1].Naming == closed[place].Naming ? closed[place + 1] : null;
        if (found is not { } file)
        {
            next = head?.Length > 0 ? head : null;
            return true;
        }

        next = OpenIfSame(Path.Combine(folder.Path, file.Name), file.Inode);
        return next is not null;
    }

    private static Closed? OldestRolled(List<Closed> closed)
    {
        int place = closed.FindIndex(file => file.Naming == Naming.Rolled);
        return place < 0 ? null : closed[place];
    }

    /// <summary>
    /// The file was deleted or has a name of another kind. Files that were written later came later; of those with the same time,
    /// the one that was created later. Not a copy of it: who copies a log and deletes it has made no new lines.
    /// </summary>
    private static Closed? OldestAfter(HeldDirectory folder, List<Closed> closed, ReadableFile current)
    {
        Closed? oldest = null;
        (long, long) least = (long.MaxValue, long.MaxValue);
        foreach (Closed candidate in closed)
        {
            using ReadableFile? file = OpenIfSame(Path.Combine(folder.Path, candidate.Name), candidate.Inode);
            if (file is null)
                continue;
            (long, long) time = TimeOf(file);
            bool mayBeCopy = candidate.Naming != Naming.Rolled;
            if (time.CompareTo(TimeOf(current)) > 0 && time.CompareTo(least) < 0 && !(mayBeCopy && IsCopy(file, current)))
                (oldest, least) = (candidate, time);
        }

        return oldest;
    }

    /// <summary>
    /// Whether a file holds what the other one does, and nothing else: their beginnings are compared, and what is before the end
    /// of the copy. A copy lacks only what was written after it was made: a program that begins each file with the same words has
    /// made a new file when it was created after the last write to the other one.
    /// </summary>
    private static bool IsCopy(ReadableFile file, ReadableFile original)
    {
        const int ComparedLength = 4096;
        long length = file.Length;
        long rest = original.Length - length;
        bool mayLackTheRest = rest == 0 || MarkOf(file).Birth <= original.Modified;
        return length > 0 && rest >= 0 && mayLackTheRest
            && HaveSameBytes(0) && HaveSameBytes(Math.Max(0, length - ComparedLength));

        bool HaveSameBytes(long position)
        {
            byte[] bytes = new byte[Math.Min(ComparedLength, length - position)];
            byte[] others = new byte[bytes.Length];
            return file.ReadAt(bytes, position) == original.ReadAt(others, position) && bytes.AsSpan().SequenceEqual(others);
        }
    }

    /// <summary>The youngest closed file: reading begins with what comes after it.</summary>
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
        using ReadableFile? now = ReadableFile.TryOpen(_path);
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
/// Stands for a file that is not there yet: it has no bytes, and comes after the last one that was closed.
/// </summary>
internal sealed class MissingFile(string path, (long Modified, FileMark Mark) last) : ReadableFile
{
    public override string Path => path;

    public override long Length => 0;

    /// <summary>The last closed file.</summary>
    public FileMark Last => last.Mark;

    public override FileMark? Mark => default(FileMark);

    public override long Modified => last.Modified;

    public override int ReadAt(Span<byte> destination, long position) => 0;

    public override int ReadCachedAt(Span<byte> destination, long position) => 0;

    public override void AdviseSequential()
    {
    }

    public override void Dispose()
    {
    }
}
