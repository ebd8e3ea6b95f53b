using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Reading;
using MappedFileQueues.Packs.Writing;

namespace MappedFileQueues.Packs;

/// <summary>
/// Many small objects in few files: a put is one write at the end of a volume, a get one read at a place that the index in memory
/// knows, whatever the number of objects. One process writes a pack at a time, with any number of threads; any number of
/// processes read it by <see cref="OpenReader"/>. All members may be called from any thread.
/// </summary>
/// <remarks>
/// A key is 0 to 65,536 bytes, or a string, which means its UTF-8; data has up to 256 MiB. A later put of a key replaces the
/// earlier. The format, and what each crash leaves, are specified in docs/PACKS.md. The index takes 9.4 to 11.8 bytes of
/// memory an object.
/// </remarks>
public sealed class PackStore : IDisposable
{
    private readonly PackWriter _writer;

    private PackStore(PackWriter writer) => _writer = writer;

    /// <summary>The pack's directory.</summary>
    public string Path => Core.Directory.Path;

    /// <summary>How many objects there are.</summary>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public long Count => Core.Usable().Index.Count;

    /// <summary>
    /// What was found damaged when the pack was opened, or before and still hides something, and passed over. Empty for a pack in
    /// order; <see cref="Verify"/> looks at every byte.
    /// </summary>
    public IReadOnlyList<PackDamage> Damages => Core.Damages;

    private PackCore Core => _writer.Core;

    /// <summary>
    /// Opens a pack for writing, and makes it when it is missing. Reads the last checkpoint of the index and what was written
    /// after it; what a crash has left unfinished is put in order first.
    /// </summary>
    /// <param name="path">The pack's directory.</param>
    /// <param name="options">How to make and write it; null for the defaults.</param>
    /// <exception cref="QueueInUseException">Another writer has it open, in this process or another, which is named.</exception>
    /// <exception cref="QueueNotFoundException">There is no pack here, and the options say not to make one.</exception>
    /// <exception cref="QueueFormatException">The folder holds something else, or a pack of another version.</exception>
    /// <exception cref="QueueDiskException">The system refused a file operation.</exception>
    public static PackStore Open(string path, PackOptions? options = null)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        options ??= new PackOptions();
        return new PackStore(new PackWriter(PackOpening.OpenWriter(path, options, useCheckpoint: true), options));
    }

    /// <summary>Opens a pack for reading, beside a writer in any process; the same as <see cref="PackReader.Open"/>.</summary>
    /// <param name="path">The pack's directory.</param>
    /// <param name="options">How to read it; null for the defaults.</param>
    /// <exception cref="QueueNotFoundException">There is no pack here.</exception>
    /// <exception cref="QueueFormatException">It is a pack of another version, or its meta page is damaged.</exception>
    /// <exception cref="QueueDiskException">The system refused a file operation.</exception>
    public static PackReader OpenReader(string path, PackReaderOptions? options = null) => PackReader.Open(path, options);

    /// <summary>
    /// Puts an object in place of the one that the key has, if any, damaged or not. Allocates nothing in steady state.
    /// </summary>
    /// <param name="key">The key: up to 65,536 bytes.</param>
    /// <param name="data">The data: up to 256 MiB.</param>
    /// <param name="durability">When to return; null for the option's value, which also says what a power cut may take.</param>
    /// <exception cref="ArgumentException">Key or data are too long.</exception>
    /// <exception cref="QueueDiskException">
    /// The disk is full or fails. The object was not put (when only the sync failed: it may be there after the next opening);
    /// after a full disk the next put may succeed.
    /// </exception>
    /// <exception cref="QueuePoisonedException">An earlier sync failed: close the pack and open it again.</exception>
    /// <exception cref="QueueFullException">
    /// The pack has as many volumes as it can have. Deletes go on, and a compaction makes room.
    /// </exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public void Put(ReadOnlySpan<byte> key, ReadOnlySpan<byte> data, PackDurability? durability = null) =>
        _writer.Append(NeedleKind.Value, key, data, durability);

    /// <inheritdoc cref="Put(ReadOnlySpan{byte}, ReadOnlySpan{byte}, PackDurability?)"/>
    public void Put(string key, ReadOnlySpan<byte> data, PackDurability? durability = null)
    {
        using var bytes = new PackKey(key, stackalloc byte[PackKey.StackLength]);
        Put(bytes.Bytes, data, durability);
    }

    /// <summary>
    /// Removes an object, damaged or not; false when the key has none, and then nothing is written. Where damage may hide a
    /// value of
    /// the key, it is deleted too. What a crash may lose is as with a put. A full pack takes deletes.
    /// </summary>
    /// <param name="key">The key.</param>
    /// <param name="durability">When to return; null for the option's value.</param>
    /// <exception cref="ArgumentException">The key is too long.</exception>
    /// <exception cref="QueueDiskException">The disk is full or fails; the object is still there.</exception>
    /// <exception cref="QueuePoisonedException">An earlier sync failed: close the pack and open it again.</exception>
    /// <exception cref="QueueFullException">
    /// The pack has as many volumes as it can have, and the last one is damaged or as long as any can be.
    /// </exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public bool Delete(ReadOnlySpan<byte> key, PackDurability? durability = null) =>
        _writer.Append(NeedleKind.Tombstone, key, default, durability);

    /// <inheritdoc cref="Delete(ReadOnlySpan{byte}, PackDurability?)"/>
    public bool Delete(string key, PackDurability? durability = null)
    {
        using var bytes = new PackKey(key, stackalloc byte[PackKey.StackLength]);
        return Delete(bytes.Bytes, durability);
    }

    /// <summary>
    /// Writes an object's data to <paramref name="destination"/>; false when the key has none. Checked against its checksum
    /// before anything is handed out. One positioned read; two for data of more than 4 MiB. Allocates nothing itself.
    /// </summary>
    /// <param name="key">The key.</param>
    /// <param name="destination">Takes exactly the data, or nothing.</param>
    /// <exception cref="QueueCorruptException">
    /// The bytes on disk are not what was put; or a part of the pack is damaged that may have held a newer value of the key,
    /// or its
    /// deletion (see <see cref="PackOptions.AllowStaleValues"/>). Names file and position.
    /// </exception>
    /// <exception cref="QueueDiskException">The system refused the read.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public bool TryGet(ReadOnlySpan<byte> key, IBufferWriter<byte> destination)
    {
        ArgumentNullException.ThrowIfNull(destination);
        return PackQueries.TryGet(Core, key, destination);
    }

    /// <inheritdoc cref="TryGet(ReadOnlySpan{byte}, IBufferWriter{byte})"/>
    public bool TryGet(string key, IBufferWriter<byte> destination)
    {
        using var bytes = new PackKey(key, stackalloc byte[PackKey.StackLength]);
        return TryGet(bytes.Bytes, destination);
    }

    /// <summary>
    /// Gets an object's data in memory of the pool, which the caller gives back by disposing it; false when the key has none.
    /// Checked against its checksum. Allocates the small owner object.
    /// </summary>
    /// <param name="key">The key.</param>
    /// <param name="data">Exactly the data; null when there is none.</param>
    /// <exception cref="QueueCorruptException">
    /// The bytes on disk are not what was put; or a part of the pack is damaged that may have held a newer value of the key,
    /// or its
    /// deletion (see <see cref="PackOptions.AllowStaleValues"/>). Names file and position.
    /// </exception>
    /// <exception cref="QueueDiskException">The system refused the read.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public bool TryGet(ReadOnlySpan<byte> key, [NotNullWhen(true)] out IMemoryOwner<byte>? data) =>
        PackQueries.TryGet(Core, key, out data);

    /// <inheritdoc cref="TryGet(ReadOnlySpan{byte}, out IMemoryOwner{byte}?)"/>
    public bool TryGet(string key, [NotNullWhen(true)] out IMemoryOwner<byte>? data)
    {
        using var bytes = new PackKey(key, stackalloc byte[PackKey.StackLength]);
        return TryGet(bytes.Bytes, out data);
    }

    /// <summary>Whether the key has an object; reads its header. Allocates nothing.</summary>
    /// <param name="key">The key.</param>
    /// <exception cref="QueueCorruptException">
    /// A place is damaged that is, or may have been, the key's, so that nobody can say.
    /// </exception>
    /// <exception cref="QueueDiskException">The system refused the read.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public bool Contains(ReadOnlySpan<byte> key) => PackQueries.Contains(Core, key);

    /// <inheritdoc cref="Contains(ReadOnlySpan{byte})"/>
    public bool Contains(string key)
    {
        using var bytes = new PackKey(key, stackalloc byte[PackKey.StackLength]);
        return Contains(bytes.Bytes);
    }

    /// <summary>
    /// The objects in the order in which they lie on disk. One that is there during the whole enumeration comes exactly once;
    /// one that is put or deleted meanwhile comes or does not. Takes 16 bytes of memory an object while it runs; other calls
    /// go on.
    /// </summary>
    /// <param name="onDamage">
    /// Called for a damaged object, which is passed over, and first of all for each part of the pack in which there is no
    /// telling what stood: what is older than it comes, and may not be the newest. Null: the enumeration ends with the exception.
    /// </param>
    /// <exception cref="QueueCorruptException">Something is damaged and nobody asked to hear of it.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public IEnumerable<PackEntry> Enumerate(Action<PackDamage>? onDamage = null) => PackQueries.Enumerate(Core, onDamage);

    /// <summary>Returns when everything that was put and deleted before the call is on disk.</summary>
    /// <exception cref="QueueDiskException">The sync failed; nothing is written from here on.</exception>
    /// <exception cref="QueuePoisonedException">An earlier sync failed.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public void Flush() => _writer.Appender.Flush();

    /// <summary>
    /// Frees what overwritten and deleted objects take: copies what is alive in volumes with much garbage to new ones, and
    /// joins neighbours that fit into one. Puts, deletes and gets go on. A crash at any moment loses nothing. The old volumes
    /// go at
    /// the end, or earlier when the disk is full: then it needs room for the largest one that is made, and for the index. Needs
    /// 24 bytes of memory for each object that is copied into one volume.
    /// </summary>
    /// <param name="garbageMin">Volumes of which at least this part is garbage are replaced; 0 means any garbage.</param>
    /// <param name="cancellationToken">Ends it between two new volumes; what was done by then stays done.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="garbageMin"/> is not from 0 to 1.</exception>
    /// <exception cref="QueueDiskException">The disk is full or fails; the old volumes stay.</exception>
    /// <exception cref="QueuePoisonedException">A sync failed: close the pack and open it again.</exception>
    /// <exception cref="QueueFullException">There are 16,384 volumes already; puts and deletes leave one free.</exception>
    /// <exception cref="OperationCanceledException">It was cancelled.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public PackCompaction Compact(double garbageMin = 0.3, CancellationToken cancellationToken = default)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(garbageMin);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(garbageMin, 1);
        return _writer.Compact(garbageMin, cancellationToken);
    }

    /// <summary>
    /// Reads every byte of the pack, and makes the index a second time from the volumes: what is damaged, and where the index
    /// differs. Puts go on, but for the end of it. Takes as much memory as the index again.
    /// </summary>
    /// <exception cref="QueueDiskException">The system refused a file operation.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public PackVerification Verify() => _writer.Verify();

    /// <summary>Sizes and counts, at some moment. Reads no file.</summary>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public PackInfo GetInfo() => PackQueries.Info(Core.Usable());

    /// <summary>
    /// Ends all calls, writes the index down (which syncs what was put) and lets go of the pack. A get in another thread ends
    /// first. An error of the disk on the way is not reported: nothing that was acknowledged depends on it.
    /// </summary>
    public void Dispose() => _writer.Dispose();
}
