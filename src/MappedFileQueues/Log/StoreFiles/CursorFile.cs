using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// A named consumer's stored offset: one mapped word that only the holder of the name writes. The file gets its name when its
/// page is on disk, so a full disk cannot turn a commit into SIGBUS, and no power loss leaves zeros, which are damage. It is
/// synced again once it holds the first offset.
/// </summary>
/// <param name="directory">The store.</param>
/// <param name="fileName">The file's name.</param>
/// <param name="name">The lock of the consumer's name.</param>
/// <param name="file">The file.</param>
internal sealed unsafe class CursorFile(HeldDirectory directory, string fileName, PlatformLock name, PlatformFile file)
    : IDisposable
{
    private const string Suffix = ".cursor";

    private readonly MappedRegion _region = MappedRegion.MapWhole(file, CursorWord.FileLength, writable: true);
    private bool _isNameFlushed;

    /// <summary>The word; written by the consumer, read by info and retention.</summary>
    public ulong* Word => _region.Word(0);

    /// <summary>False while the consumer is new.</summary>
    // P15 acquire: pairs with P15 release in LogConsumer.
    public bool HasOffset => SharedWord.ReadAcquire(Word) != CursorWord.New;

    /// <exception cref="QueueCorruptException">The word is damaged.</exception>
    // P15 acquire: pairs with P15 release in LogConsumer.
    public long Offset => Parse(directory, fileName, SharedWord.ReadAcquire(Word));

    /// <summary>The folder of a consumer's cursor.</summary>
    public static string FolderOf(string name) => name.Length == 0 ? StoreNames.Offsets : StoreNames.Consumers;

    /// <summary>The cursor files of all consumers that the folder lists.</summary>
    public static IEnumerable<string> Names(HeldDirectory directory)
    {
        yield return StoreNames.Cursor("");
        foreach (string name in directory.List(StoreNames.Consumers))
        {
            if (name.EndsWith(Suffix, StringComparison.Ordinal))
                yield return $"{StoreNames.Consumers}/{name}";
        }
    }

    /// <summary>Removes what dead makers have left. Only for a lone opener: a maker is attached.</summary>
    public static void RemoveTemporaries(HeldDirectory directory)
    {
        foreach (string folder in (string[])[StoreNames.Offsets, StoreNames.Consumers])
            directory.DeleteWhere(
                folder, static name => name.EndsWith(Suffix + WholeFile.TemporarySuffix, StringComparison.Ordinal));
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
        catch (Exception error) when (error is QueueDiskException or QueueCorruptException)
        {
            return new StoredCursor(fileName, null, error);
        }
    }

    /// <summary>The consumer of a cursor file.</summary>
    public static string NameOf(string fileName) => fileName == StoreNames.Cursor("")
        ? ""
        : System.IO.Path.GetFileNameWithoutExtension(fileName);

    /// <summary>The offset in a cursor file; null when there is no file, or no offset yet.</summary>
    /// <exception cref="QueueCorruptException">The file is damaged.</exception>
    private static long? Read(HeldDirectory directory, string fileName)
    {
        using PlatformFile? file = directory.Open(fileName, FileOpening.Read);
        if (file is null)
            return null;
        Span<byte> bytes = stackalloc byte[sizeof(ulong)];
        ulong word = file.ReadAt(bytes, 0) < bytes.Length ? 0 : BitConverter.ToUInt64(bytes);
        return word == CursorWord.New ? null : Parse(directory, fileName, word);
    }

    /// <summary>The offset in a word that is not that of a new cursor.</summary>
    /// <exception cref="QueueCorruptException">The word is damaged.</exception>
    public static long Parse(HeldDirectory directory, string fileName, ulong word) => CursorWord.TryRead(word, out long offset)
        ? offset
        : throw new QueueCorruptException($"The consumer's stored offset is damaged: consumer=\"{NameOf(fileName)}\", "
            + $"word=0x{word:X16}, file={fileName}, path={directory.Path}. Move the consumer with ResetConsumer.", fileName, 0);

    /// <summary>Writes the cursor of a consumer of a store that nobody has open, and syncs it.</summary>
    public static void Write(HeldDirectory directory, string fileName, long offset)
    {
        using PlatformFile file = directory.Open(fileName, FileOpening.ReadWriteOrCreate)!;
        WritePage(file, CursorWord.From(offset));
        file.Sync();
    }

    /// <summary>Takes the name and maps its cursor; null when another consumer holds the name.</summary>
    public static CursorFile? TryOpen(HeldDirectory directory, ControlPage control, string name)
    {
        PlatformLock? held = directory.TryLock(StoreNames.ConsumerLock(name), LockKind.Exclusive);
        if (held is null)
            return null;
        PlatformFile? file = null;
        string fileName = StoreNames.Cursor(name);
        try
        {
            file = directory.Open(fileName, FileOpening.ReadWrite) ?? Make(directory, fileName);
            if (file.Length < CursorWord.FileLength)
                file.WriteAt(new byte[CursorWord.FileLength - file.Length], file.Length);
            TakeAlone(directory, file);
            // Each time, and before an offset is stored: the process that made the file may have died before it said so.
            PlaceFiles.NoteChange(control);
            return new CursorFile(directory, fileName, held, file);
        }
        catch
        {
            file?.Dispose();
            held.Dispose();
            throw;
        }
    }

    private static PlatformFile Make(HeldDirectory directory, string fileName)
    {
        WholeFile.Write(directory, fileName, file => WritePage(file, CursorWord.New));
        directory.Rename(fileName + WholeFile.TemporarySuffix, fileName);
        return directory.Open(fileName, FileOpening.ReadWrite) ?? throw MetaLock.LocksRemoved(directory);
    }

    private static void WritePage(PlatformFile file, ulong word)
    {
        byte[] page = new byte[CursorWord.FileLength];
        BitConverter.TryWriteBytes(page, word);
        file.WriteAt(page, 0);
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
    /// Makes the committed offset survive a power loss. The first call also flushes the file's name, because its creator may have
    /// died before it did so.
    /// </summary>
    public void Flush()
    {
        try
        {
            file.FlushData();
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
        directory.FlushEntries(FolderOf(NameOf(fileName)));
        _isNameFlushed = true;
    }

    /// <summary>Releases the page; releases the name last.</summary>
    public void Dispose()
    {
        _region.Dispose();
        file.Dispose();
        name.Dispose();
    }
}
