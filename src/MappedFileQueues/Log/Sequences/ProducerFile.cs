using System.Security.Cryptography;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Sequences;

/// <summary>
/// The file of a producer with an id (<see cref="ProducerLayout"/>), mapped. Its two words only rise. The producer raises them,
/// and so does whoever removes segments, for producers of any process.
/// </summary>
/// <param name="file">The file.</param>
/// <param name="id">The id that its messages carry.</param>
internal sealed unsafe class ProducerFile(PlatformFile file, ulong id) : IDisposable
{
    private const string Suffix = ".producer";

    private readonly MappedRegion _region = MappedRegion.MapWhole(file, ProducerLayout.Length, writable: true);

    public ulong Id => id;

    /// <summary>The producer has no message at or after this offset; <see cref="long.MaxValue"/> when it may append.</summary>
    public long End
    {
        get
        {
            // P61 acquire: under `open`; pairs with P61 release in Close.
            long closed = (long)SharedWord.ReadAcquire(_region.Word(ProducerLayout.ClosedAt));
            return closed <= 0 ? long.MaxValue : closed;
        }
    }

    /// <summary>Every message of this producer before the offset has at most the sequence.</summary>
    public (ulong Sequence, long Offset) Known
    {
        get
        {
            // P60 acquire: the offset before the sequence that belongs to it, or to a later one; pairs with P60 full in Raise.
            long offset = (long)SharedWord.ReadAcquire(_region.Word(ProducerLayout.OffsetAt));
            ulong copy = SharedWord.ReadAcquire(_region.Word(ProducerLayout.SequenceCopyAt)); // P60 relaxed: see Raise.
            ulong sequence = SharedWord.ReadAcquire(_region.Word(ProducerLayout.SequenceAt)); // P60 relaxed: see Raise.
            // One that damage has raised would make messages pass for repetitions. The first raise may have died before the copy.
            return (copy == 0 ? sequence : Math.Min(copy, sequence), offset);
        }
    }

    /// <summary>The name of the file of an id.</summary>
    public static string NameOf(string id) => $"{StoreNames.Producers}/{id.ToLowerInvariant()}{Suffix}";

    /// <summary>The names of all of them.</summary>
    public static IEnumerable<string> Names(HeldDirectory directory) => directory.List(StoreNames.Producers)
        .Where(name => name.EndsWith(Suffix, StringComparison.Ordinal)).Select(name => $"{StoreNames.Producers}/{name}");

    /// <summary>The id, as a part of names, of a file.</summary>
    public static string IdOf(string name) => System.IO.Path.GetFileNameWithoutExtension(name);

    /// <summary>
    /// Opens the file of an id whose lock the caller holds, and makes it if it is missing. It is durable when this returns.
    /// </summary>
    /// <param name="directory">The store.</param>
    /// <param name="meta">Its meta page.</param>
    /// <param name="id">The id.</param>
    /// <param name="durable">The durable offset: nothing of a new producer is before it.</param>
    /// <exception cref="QueueCorruptException">The file is damaged, or of another store.</exception>
    public static ProducerFile Open(HeldDirectory directory, StoreMeta meta, string id, long durable)
    {
        string name = NameOf(id);
        if (directory.Identify(name) is null)
        {
            _ = directory.CreateSubdirectory(StoreNames.Producers);
            byte[] page = ProducerLayout.Make(MakeId(), meta.StoreId, 0, durable);
            WholeFile.Replace(directory, name, file => file.WriteAt(page, 0));
        }

        if (TryOpen(directory, meta, name) is not { } opened)
            throw Damaged(directory, id);
        return opened.Into(file =>
        {
            // P61 release: under the lock; pairs with P61 acquire in End.
            SharedWord.WriteRelease(file._region.Word(ProducerLayout.ClosedAt), 0);
            // Before the first message: after a power loss a removal must not pass it over as closed. And whoever made the file,
            // or the folder, may have died before its name was on disk.
            file.Sync();
            directory.FlushEntries(StoreNames.Producers);
            directory.FlushEntries(StoreNames.Offsets);
            return file;
        });
    }

    /// <summary>The error of a file that nobody may produce by.</summary>
    public static QueueCorruptException Damaged(HeldDirectory directory, string id) => new(
        $"The file of the producer is damaged, or of another store: id=\"{id}\", file={NameOf(id)}, path={directory.Path}. "
        + "Restore it, or forget the producer with DeleteProducer.", NameOf(id), 0);

    /// <summary>Maps a file; null when it is damaged, of another store, or gone.</summary>
    public static ProducerFile? TryOpen(HeldDirectory directory, StoreMeta meta, string name)
    {
        PlatformFile? file = directory.Open(name, FileOpening.ReadWrite);
        if (file is null)
            return null;
        try
        {
            if (TryReadId(file, meta, out ulong id))
                return new ProducerFile(file, id);
        }
        catch
        {
            file.Dispose();
            throw;
        }

        file.Dispose();
        return null;
    }

    /// <summary>Whether a file can be used; it is only read.</summary>
    public static bool IsWhole(HeldDirectory directory, StoreMeta meta, string name)
    {
        using PlatformFile? file = directory.Open(name, FileOpening.Read);
        return file is not null && TryReadId(file, meta, out _);
    }

    private static bool TryReadId(PlatformFile file, StoreMeta meta, out ulong id)
    {
        id = 0;
        byte[] page = new byte[ProducerLayout.Length];
        return file.ReadAt(page, 0) == page.Length && ProducerLayout.TryReadId(page, meta.StoreId, out id);
    }

    /// <summary>Stores that all messages of the producer before an offset have at most a sequence.</summary>
    public void Raise(ulong sequence, long offset)
    {
        // P60 full: both before the offset that belongs to it; pairs with P60 acquire in Known.
        SharedWord.RaiseTo(_region.Word(ProducerLayout.SequenceAt), sequence);
        SharedWord.RaiseTo(_region.Word(ProducerLayout.SequenceCopyAt), sequence);
        ProtocolSteps.Reach(ProtocolStep.ProducerSequenceStored);
        SharedWord.RaiseTo((long*)_region.Word(ProducerLayout.OffsetAt), offset); // P60 full: pairs with P60 acquire in Known.
    }

    /// <summary>
    /// Notes that nobody produces with the id any more, and that all of its messages are before an offset; the caller holds its
    /// lock.
    /// </summary>
    // P61 release: pairs with P61 acquire in End.
    public void Close(long end) => SharedWord.WriteRelease(_region.Word(ProducerLayout.ClosedAt), (ulong)end);

    /// <summary>Makes the words survive a power loss.</summary>
    public void Sync()
    {
        try
        {
            file.FlushData();
        }
        catch
        {
            // The system takes the page for clean now: the next sync, after which messages are removed, would succeed and write
            // nothing. The store makes it dirty again, and what is not closed is synced by each removal.
            Close(0);
            throw;
        }
    }

    public void Dispose()
    {
        _region.Dispose();
        file.Dispose();
    }

    private static ulong MakeId()
    {
        Span<byte> bytes = stackalloc byte[sizeof(ulong)];
        ulong id;
        do
        {
            RandomNumberGenerator.Fill(bytes);
            id = BitConverter.ToUInt64(bytes);
        }
        while (id == 0);
        return id;
    }
}
