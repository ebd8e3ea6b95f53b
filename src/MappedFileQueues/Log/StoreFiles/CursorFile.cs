using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// A named consumer's stored offset: one mapped word that only the holder of the name writes. Its page is written on creation,
/// so a full disk cannot turn a commit into SIGBUS, and synced once it holds the first offset.
/// </summary>
internal sealed unsafe class CursorFile : IDisposable
{
    private readonly PlatformLock _name;
    private readonly PlatformFile _file;
    private readonly MappedRegion _region;
    private readonly HeldDirectory _directory;
    private readonly string _folder;
    private bool _isNameFlushed;

    private CursorFile(HeldDirectory directory, string folder, PlatformLock name, PlatformFile file)
    {
        _directory = directory;
        _folder = folder;
        _name = name;
        _file = file;
        _region = MappedRegion.MapWhole(file, CursorWord.FileLength, writable: true);
    }

    /// <summary>The word; written by the consumer, read by info and retention.</summary>
    public ulong* Word => _region.Word(0);

    /// <summary>False while the consumer is new.</summary>
    // P15 acquire: pairs with P15 release in LogConsumer.
    public bool HasOffset => CursorWord.IsValid(SharedWord.ReadAcquire(Word));

    // P15 acquire: pairs with P15 release in LogConsumer.
    public long Offset => CursorWord.Offset(SharedWord.ReadAcquire(Word));

    /// <summary>The folder of a consumer's cursor.</summary>
    public static string FolderOf(string name) => name.Length == 0 ? StoreNames.Offsets : StoreNames.Consumers;

    /// <summary>The cursor files of all consumers that the folder lists.</summary>
    public static IEnumerable<string> Names(HeldDirectory directory)
    {
        yield return StoreNames.Cursor("");
        foreach (string name in directory.List(StoreNames.Consumers))
        {
            if (name.EndsWith(".cursor", StringComparison.Ordinal))
                yield return $"{StoreNames.Consumers}/{name}";
        }
    }

    /// <summary>The cursors of all consumers, with those that cannot be read.</summary>
    public static IEnumerable<StoredCursor> ReadAll(HeldDirectory directory) =>
        Names(directory).Select(name => TryRead(directory, name));

    /// <summary>The cursor in a file; also when it cannot be read.</summary>
    public static StoredCursor TryRead(HeldDirectory directory, string fileName)
    {
        try
        {
            return new StoredCursor(fileName, Read(directory, fileName), null);
        }
        catch (QueueDiskException error)
        {
            return new StoredCursor(fileName, null, error);
        }
    }

    /// <summary>The consumer of a cursor file.</summary>
    public static string NameOf(string fileName) => fileName == StoreNames.Cursor("")
        ? ""
        : System.IO.Path.GetFileNameWithoutExtension(fileName);

    /// <summary>The offset in a cursor file; null when there is none.</summary>
    public static long? Read(HeldDirectory directory, string fileName)
    {
        using PlatformFile? file = directory.Open(fileName, FileOpening.Read);
        Span<byte> bytes = stackalloc byte[sizeof(ulong)];
        if (file is null || file.ReadAt(bytes, 0) < bytes.Length)
            return null;
        ulong word = BitConverter.ToUInt64(bytes);
        return CursorWord.IsValid(word) ? CursorWord.Offset(word) : null;
    }

    /// <summary>Writes the cursor of a consumer of a store that nobody has open, and syncs it.</summary>
    public static void Write(HeldDirectory directory, string fileName, long offset)
    {
        using PlatformFile file = directory.Open(fileName, FileOpening.ReadWriteOrCreate)!;
        byte[] page = new byte[CursorWord.FileLength];
        BitConverter.TryWriteBytes(page, CursorWord.From(offset));
        file.WriteAt(page, 0);
        file.Sync();
    }

    /// <summary>
    /// Moves a stored offset below another one up to it, beside the consumer that may hold the name, and syncs it. A commit at
    /// the same time wins.
    /// </summary>
    public static void Raise(HeldDirectory directory, string fileName, long offset)
    {
        using PlatformFile? file = directory.Open(fileName, FileOpening.ReadWrite);
        // A shorter one is being made.
        if (file is null || file.Length < CursorWord.FileLength)
            return;
        using MappedRegion region = MappedRegion.MapWhole(file, CursorWord.FileLength, writable: true);
        // P15 acquire: as the consumer stored it; pairs with P15 release in LogConsumer.
        ulong word = SharedWord.ReadAcquire(region.Word(0));
        if (!CursorWord.IsValid(word) || CursorWord.Offset(word) >= offset)
            return;
        // P15 full: nothing lies between the two offsets; pairs with P15 acquire in ConsumerCursors.
        _ = SharedWord.CompareExchange(region.Word(0), word, CursorWord.From(offset));
        file.Sync();
    }

    /// <summary>Takes the name and maps its cursor; null when another consumer holds the name.</summary>
    public static CursorFile? TryOpen(HeldDirectory directory, ControlPage control, string name)
    {
        PlatformLock? held = directory.TryLock(StoreNames.ConsumerLock(name), LockKind.Exclusive);
        if (held is null)
            return null;
        PlatformFile? file = null;
        string folder = FolderOf(name);
        try
        {
            file = directory.Open(StoreNames.Cursor(name), FileOpening.ReadWriteOrCreate)!;
            if (file.Length < CursorWord.FileLength)
                file.WriteAt(new byte[CursorWord.FileLength - file.Length], file.Length);
            TakeAlone(directory, file);
            // Each time, and before an offset is stored: the process that made the file may have died before it said so.
            ConsumerCursors.NoteChange(control);
            return new CursorFile(directory, folder, held, file);
        }
        catch
        {
            file?.Dispose();
            held.Dispose();
            throw;
        }
    }

    /// <summary>
    /// Takes the cursor itself, for a caller that holds its name. A consumer holds both, so that a second one is refused when the
    /// file of the name's lock was removed under the first. Portable knows no such lock.
    /// </summary>
    public static void TakeAlone(HeldDirectory directory, PlatformFile cursor)
    {
        // A process that is being killed may release the name first.
        var pause = new LockWait.Pause(TimeSpan.FromSeconds(5));
        while (!cursor.TryTakeAlone())
        {
            if (pause.IsOver)
                throw MetaLock.LocksRemoved(directory);
            pause.Sleep();
        }
    }

    /// <summary>
    /// Makes the committed offset survive a power cut. The first call also flushes the file's name, because its creator may have
    /// died before it did so.
    /// </summary>
    public void Flush()
    {
        try
        {
            _file.FlushData();
        }
        catch
        {
            // After a failed sync the system takes the page for clean: the next sync, which may be that of a removal that relies
            // on this cursor, would succeed and write nothing. An exchange with what is there makes the page dirty again.
            // P15 relaxed: any value will do, and a commit at the same time writes the page itself.
            ulong word = SharedWord.ReadAcquire(Word);
            // P15 relaxed: the word stays as it is.
            _ = SharedWord.CompareExchange(Word, word, word);
            throw;
        }

        if (_isNameFlushed)
            return;
        _directory.FlushEntries(_folder);
        _isNameFlushed = true;
    }

    /// <summary>Releases the page; releases the name last.</summary>
    public void Dispose()
    {
        _region.Dispose();
        _file.Dispose();
        _name.Dispose();
    }
}
