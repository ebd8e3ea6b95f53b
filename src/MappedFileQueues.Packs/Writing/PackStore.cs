using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Reading;
using MappedFileQueues.Packs.Writing;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Packs;

/// <summary>
/// Stores many small objects in few files. A put is one write at the end of a volume. A get is one read at a position that the
/// in-memory index knows, whatever the number of objects. One process at a time writes a pack, with any number of threads. Any
/// number of processes read it through <see cref="OpenReader"/>. All members may be called from any thread.
/// </summary>
/// <remarks>
/// A key is 0 to 65,536 bytes, or a string, which stands for its UTF-8 bytes. Data has up to 256 MiB. A later put of the same key
/// replaces the earlier one. docs/PACKS.md specifies the format and what a crash leaves after each step. The index takes 9.4 to
/// 11.8 bytes of memory per object.
/// </remarks>
public sealed class PackStore : IDisposable
{
    private readonly PackWriter _writer;

    private PackStore(PackWriter writer) => _writer = writer;

    /// <summary>The pack's directory.</summary>
    public string Path => Core.Directory.Path;

    /// <summary>The number of objects.</summary>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public long Count => Core.Usable().Index.Count;

    /// <summary>
    /// The damage that was found and skipped when the pack was opened, and earlier damage that still hides objects. Empty for an
    /// intact pack. <see cref="Verify"/> checks every byte.
    /// </summary>
    public IReadOnlyList<PackDamage> Damages => Core.Damages;

    /// <summary>
    /// How many objects were evicted since the pack was opened, because of <see cref="PackOptions.MaxBytes"/>; 0 without it.
    /// </summary>
    public long EvictedCount => _writer.EvictedCount;

    /// <summary>
    /// Why the last compaction in the background has failed (<see cref="PackOptions.CompactAtGarbage"/>); null if it has not.
    /// </summary>
    public MappedFileQueueException? CompactionFailure => _writer.CompactionFailure;

    private PackCore Core => _writer.Core;

    /// <summary>
    /// Opens a pack for writing, and creates it if it is missing. Reads the last checkpoint of the index and everything written
    /// after it. First repairs what a crash left unfinished.
    /// </summary>
    /// <param name="path">The pack's directory.</param>
    /// <param name="options">How to create and write the pack; null for the defaults.</param>
    /// <exception cref="ArgumentException"><see cref="PackOptions.MaxBytes"/> is less than two volumes of the pack.</exception>
    /// <exception cref="PackInUseException">
    /// Another writer, in this process or another, has the pack open. The message names its process.
    /// </exception>
    /// <exception cref="PackNotFoundException">There is no pack, and the options do not allow creating one.</exception>
    /// <exception cref="PackFormatException">The directory holds something else, or a pack of another version.</exception>
    /// <exception cref="QueueDiskException">The system refused a file operation.</exception>
    public static PackStore Open(string path, PackOptions? options = null)
    {
        ArgumentException.ThrowIfNullOrWhiteSpace(path);
        options ??= new PackOptions();
        var writer = new PackWriter(PackOpening.OpenWriter(path, options, useCheckpoint: true), options);
        try
        {
            EvictExcess(writer);
            return new PackStore(writer);
        }
        catch
        {
            writer.Dispose();
            throw;
        }
    }

    /// <summary>Opens a pack for reading, beside a writer in any process. Same as <see cref="PackReader.Open"/>.</summary>
    /// <param name="path">The pack's directory.</param>
    /// <param name="options">How to read the pack; null for the defaults.</param>
    /// <exception cref="PackNotFoundException">There is no pack.</exception>
    /// <exception cref="PackFormatException">The pack has another version, or its meta page is damaged.</exception>
    /// <exception cref="QueueDiskException">The system refused a file operation.</exception>
    public static PackReader OpenReader(string path, PackReaderOptions? options = null) => PackReader.Open(path, options);

    /// <summary>
    /// Stores an object under a key. Replaces the key's current object, damaged or not. Allocates nothing in steady state.
    /// </summary>
    /// <param name="key">The key, up to 65,536 bytes.</param>
    /// <param name="data">The data, up to 256 MiB.</param>
    /// <param name="durability">
    /// When to return, which also decides what a power loss may lose; null for the value of <see cref="PackOptions.Durability"/>.
    /// </param>
    /// <exception cref="ArgumentException">
    /// The key or the data is too long, or the object is longer than <see cref="PackOptions.MaxBytes"/>.
    /// </exception>
    /// <exception cref="ArgumentOutOfRangeException">The durability is not a defined level.</exception>
    /// <exception cref="QueueDiskException">
    /// The disk is full or fails. The object was not stored. If only the sync failed, the object may exist after the pack is
    /// opened again. After a full disk the next put may succeed; deletes and compactions have some room kept for them.
    /// </exception>
    /// <exception cref="PackPoisonedException">An earlier sync failed: close the pack and open it again.</exception>
    /// <exception cref="PackDeletedException">The pack was removed while it was open.</exception>
    /// <exception cref="PackFullException">
    /// The pack has the maximum number of volumes. Deletes still work, and a compaction makes room. Or it has used all numbers
    /// of volumes, puts or (with <see cref="PackOptions.MaxBytes"/>) generations: copy it into a new pack.
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
    /// As <see cref="Put(ReadOnlySpan{byte}, ReadOnlySpan{byte}, PackDurability?)"/>, without a thread that waits for the disk:
    /// any number of calls share one sync. The calling thread copies a short object to the system; what takes longer, or needs a
    /// new volume, runs on a thread of the pool. Allocates.
    /// </summary>
    /// <param name="key">The key, up to 65,536 bytes; unchanged until the call is complete.</param>
    /// <param name="data">The data, up to 256 MiB; unchanged until the call is complete.</param>
    /// <param name="durability">
    /// When to complete, which also decides what a power loss may lose; null for the value of <see
    /// cref="PackOptions.Durability"/>.
    /// </param>
    /// <param name="cancellationToken">
    /// Ends the wait. If the object was written already, it stays, and it is unknown whether it is on disk.
    /// </param>
    /// <exception cref="ArgumentException">
    /// The key or the data is too long, or the object is longer than <see cref="PackOptions.MaxBytes"/>.
    /// </exception>
    /// <exception cref="ArgumentOutOfRangeException">The durability is not a defined level.</exception>
    /// <exception cref="QueueDiskException">As for the method that is not asynchronous.</exception>
    /// <exception cref="PackPoisonedException">An earlier sync failed: close the pack and open it again.</exception>
    /// <exception cref="PackDeletedException">The pack was removed while it was open.</exception>
    /// <exception cref="PackFullException">The pack has the maximum number of volumes.</exception>
    /// <exception cref="OperationCanceledException">The wait was cancelled.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public async ValueTask PutAsync(
        ReadOnlyMemory<byte> key,
        ReadOnlyMemory<byte> data,
        PackDurability? durability = null,
        CancellationToken cancellationToken = default) =>
        _ = await _writer.AppendAsync(NeedleKind.Value, key, data, durability, cancellationToken).ConfigureAwait(false);

    /// <inheritdoc cref="PutAsync(ReadOnlyMemory{byte}, ReadOnlyMemory{byte}, PackDurability?, CancellationToken)"/>
    public ValueTask PutAsync(
        string key,
        ReadOnlyMemory<byte> data,
        PackDurability? durability = null,
        CancellationToken cancellationToken = default) =>
        PutAsync(PackKey.ToBytes(key), data, durability, cancellationToken);

    /// <summary>
    /// Deletes an object, damaged or not. Returns false, and writes nothing, if the key has no object. If damage may hide a value
    /// of the key, that value is deleted too. A crash may lose a delete as it may lose a put. A full pack still accepts deletes,
    /// and so does a full disk for a while (docs/PACKS.md section 4).
    /// With <see cref="PackOptions.MaxBytes"/> it also returns false if the object itself had to be evicted to make room for the
    /// record of its deletion.
    /// </summary>
    /// <param name="key">The key.</param>
    /// <param name="durability">When to return; null for the value of <see cref="PackOptions.Durability"/>.</param>
    /// <exception cref="ArgumentException">The key is too long.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The durability is not a defined level.</exception>
    /// <exception cref="QueueDiskException">The disk is full or fails; the object still exists.</exception>
    /// <exception cref="PackPoisonedException">An earlier sync failed: close the pack and open it again.</exception>
    /// <exception cref="PackDeletedException">The pack was removed while it was open.</exception>
    /// <exception cref="PackFullException">
    /// The pack has the maximum number of volumes, and the last one is damaged or as long as a volume can be.
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
    /// As <see cref="Delete(ReadOnlySpan{byte}, PackDurability?)"/>, without a thread that waits for the disk. Allocates.
    /// </summary>
    /// <param name="key">The key; unchanged until the call is complete.</param>
    /// <param name="durability">When to complete; null for the value of <see cref="PackOptions.Durability"/>.</param>
    /// <param name="cancellationToken">Ends the wait. The object may be deleted then.</param>
    /// <exception cref="ArgumentException">The key is too long.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The durability is not a defined level.</exception>
    /// <exception cref="QueueDiskException">The disk is full or fails; the object still exists.</exception>
    /// <exception cref="PackPoisonedException">An earlier sync failed: close the pack and open it again.</exception>
    /// <exception cref="PackDeletedException">The pack was removed while it was open.</exception>
    /// <exception cref="OperationCanceledException">The wait was cancelled.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public ValueTask<bool> DeleteAsync(
        ReadOnlyMemory<byte> key, PackDurability? durability = null, CancellationToken cancellationToken = default) =>
        _writer.AppendAsync(NeedleKind.Tombstone, key, default, durability, cancellationToken);

    /// <inheritdoc cref="DeleteAsync(ReadOnlyMemory{byte}, PackDurability?, CancellationToken)"/>
    public ValueTask<bool> DeleteAsync(
        string key, PackDurability? durability = null, CancellationToken cancellationToken = default) =>
        DeleteAsync(PackKey.ToBytes(key), durability, cancellationToken);

    /// <summary>
    /// Writes an object's data to <paramref name="destination"/>; false if the key has no object. The data is verified against
    /// its checksum before the caller gets any of it. One positioned read; two for data of more than 4 MiB. Allocates nothing
    /// itself.
    /// </summary>
    /// <param name="key">The key.</param>
    /// <param name="destination">Receives all of the data, or nothing.</param>
    /// <exception cref="PackCorruptException">
    /// The bytes on disk differ from what was stored. Or a damaged part of the pack may have held a newer value of the key, or
    /// its deletion (see <see cref="PackOptions.AllowStaleValues"/>). The exception names file and position.
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
    /// Gets an object's data in pooled memory, which the caller returns by disposing it; false if the key has no object. The data
    /// is verified against its checksum. Allocates the small owner object.
    /// </summary>
    /// <param name="key">The key.</param>
    /// <param name="data">Exactly the data; null if the key has no object.</param>
    /// <exception cref="PackCorruptException">
    /// The bytes on disk differ from what was stored. Or a damaged part of the pack may have held a newer value of the key, or
    /// its deletion (see <see cref="PackOptions.AllowStaleValues"/>). The exception names file and position.
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

    /// <summary>
    /// Gets an object's data in pooled memory, which the caller returns by disposing it; null if the key has no object. Reads on
    /// a thread of the pool, because the disk may take its time; an object that is in memory already is got faster by <see
    /// cref="TryGet(ReadOnlySpan{byte}, out IMemoryOwner{byte}?)"/>. The data is verified against its checksum. Allocates.
    /// </summary>
    /// <param name="key">The key; unchanged until the call is complete.</param>
    /// <param name="cancellationToken">Cancels a call that no thread has begun yet.</param>
    /// <exception cref="PackCorruptException">
    /// The bytes on disk differ from what was stored, or damage may hide a newer value of the key.
    /// </exception>
    /// <exception cref="QueueDiskException">The system refused the read.</exception>
    /// <exception cref="OperationCanceledException">The call was cancelled.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public ValueTask<IMemoryOwner<byte>?> GetAsync(ReadOnlyMemory<byte> key, CancellationToken cancellationToken = default) =>
        new(Task.Run(() => TryGet(key.Span, out IMemoryOwner<byte>? data) ? data : null, cancellationToken));

    /// <inheritdoc cref="GetAsync(ReadOnlyMemory{byte}, CancellationToken)"/>
    public ValueTask<IMemoryOwner<byte>?> GetAsync(string key, CancellationToken cancellationToken = default) =>
        GetAsync(PackKey.ToBytes(key), cancellationToken);

    /// <summary>
    /// The length of an object's data in bytes; false if the key has no object. Reads the object's header, not its data, which
    /// may be damaged. Allocates nothing.
    /// </summary>
    /// <param name="key">The key.</param>
    /// <param name="length">The length; 0 if the key has no object.</param>
    /// <exception cref="PackCorruptException">
    /// A damaged place belongs, or may belong, to the key, so the answer is unknown.
    /// </exception>
    /// <exception cref="QueueDiskException">The system refused the read.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public bool TryGetLength(ReadOnlySpan<byte> key, out int length) => PackQueries.TryGetLength(Core, key, out length);

    /// <inheritdoc cref="TryGetLength(ReadOnlySpan{byte}, out int)"/>
    public bool TryGetLength(string key, out int length)
    {
        using var bytes = new PackKey(key, stackalloc byte[PackKey.StackLength]);
        return TryGetLength(bytes.Bytes, out length);
    }

    /// <summary>
    /// Opens an object's data as a stream to read and seek in; false if the key has no object. The call reads all of the data
    /// once to verify its checksum, in pieces of 256 KiB. The stream then reads it again, so it takes no memory of the object's
    /// size, and twice the reading. It keeps giving the same bytes until it is disposed, after the pack is disposed too; so long
    /// the volume's file stays open, and its room on disk is not given back. It is for one thread at a time; Dispose may come
    /// from any.
    /// </summary>
    /// <param name="key">The key.</param>
    /// <param name="stream">The stream, which the caller disposes; null if the key has no object.</param>
    /// <exception cref="PackCorruptException">
    /// The bytes on disk differ from what was stored, or damage may hide a newer value of the key.
    /// </exception>
    /// <exception cref="QueueDiskException">The system refused the read.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public bool TryOpenRead(ReadOnlySpan<byte> key, [NotNullWhen(true)] out Stream? stream) =>
        PackQueries.TryOpenRead(Core, key, out stream);

    /// <inheritdoc cref="TryOpenRead(ReadOnlySpan{byte}, out Stream?)"/>
    public bool TryOpenRead(string key, [NotNullWhen(true)] out Stream? stream)
    {
        using var bytes = new PackKey(key, stackalloc byte[PackKey.StackLength]);
        return TryOpenRead(bytes.Bytes, out stream);
    }

    /// <summary>Whether the key has an object. Reads the object's header. Allocates nothing.</summary>
    /// <param name="key">The key.</param>
    /// <exception cref="PackCorruptException">
    /// A damaged place belongs, or may belong, to the key, so the answer is unknown.
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
    /// Enumerates the objects in their order on disk. An object that exists during the whole enumeration appears
    /// exactly once. An object that is put or deleted meanwhile may or may not appear. Takes 16 bytes of memory per object while
    /// it runs. Other calls continue.
    /// </summary>
    /// <param name="onDamage">
    /// Called for each damaged object, which the enumeration skips. Called first for each part of the pack whose lost content is
    /// unknown: objects older than that part still appear, but may not be the newest values. If null, the enumeration throws at
    /// the first damage.
    /// </param>
    /// <exception cref="PackCorruptException">Something is damaged, and <paramref name="onDamage"/> is null.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public IEnumerable<PackEntry> Enumerate(Action<PackDamage>? onDamage = null) =>
        Enumerate(ReadOnlyMemory<byte>.Empty, onDamage);

    /// <summary>
    /// Enumerates the objects whose key begins with these bytes, in their order on disk. The index keeps no keys,
    /// so this reads the header and key of every object of the pack, in the order of the files, and costs as much as
    /// <see cref="Enumerate(Action{PackDamage}?)"/> but for what is returned (docs/PACKS.md, section 3). The rest is as there;
    /// damage is reported whatever its key.
    /// </summary>
    /// <param name="keyPrefix">The beginning of the keys; unchanged until the enumeration ends. Empty: all objects.</param>
    /// <param name="onDamage">As for an enumeration of all objects.</param>
    /// <exception cref="PackCorruptException">Something is damaged, and <paramref name="onDamage"/> is null.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public IEnumerable<PackEntry> Enumerate(ReadOnlyMemory<byte> keyPrefix, Action<PackDamage>? onDamage = null) =>
        PackQueries.Enumerate(Core, keyPrefix, onDamage);

    /// <inheritdoc cref="Enumerate(ReadOnlyMemory{byte}, Action{PackDamage}?)"/>
    public IEnumerable<PackEntry> Enumerate(string keyPrefix, Action<PackDamage>? onDamage = null) =>
        Enumerate(PackKey.ToBytes(keyPrefix), onDamage);

    /// <summary>Returns when everything that was put or deleted before the call is on disk.</summary>
    /// <exception cref="QueueDiskException">The sync failed; the pack accepts no more writes.</exception>
    /// <exception cref="PackPoisonedException">An earlier sync failed.</exception>
    /// <exception cref="PackDeletedException">The pack was removed while it was open.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public void Flush() => _writer.Appender.Flush();

    /// <summary>Completes when everything that was put or deleted before the call is on disk. No thread waits for it.</summary>
    /// <param name="cancellationToken">Ends the wait.</param>
    /// <exception cref="QueueDiskException">The sync failed; the pack accepts no more writes.</exception>
    /// <exception cref="PackPoisonedException">An earlier sync failed.</exception>
    /// <exception cref="PackDeletedException">The pack was removed while it was open.</exception>
    /// <exception cref="OperationCanceledException">The wait was cancelled.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public ValueTask FlushAsync(CancellationToken cancellationToken = default) => _writer.FlushAsync(cancellationToken);

    /// <summary>
    /// Frees the space of overwritten and deleted objects: copies the live objects of volumes with much garbage to new volumes,
    /// and merges neighbours that fit into one. Puts, deletes and gets continue. A crash at any moment loses nothing. The old
    /// volumes are deleted at the end, or earlier if the disk is full: then the compaction needs room for the new volume of which
    /// the least is kept, and some room is kept free for that (docs/PACKS.md section 4). Needs 24 bytes of memory for each object
    /// that is copied into one volume.
    /// </summary>
    /// <param name="garbageMin">
    /// The compaction replaces volumes of which at least this fraction is garbage; 0 means any garbage.
    /// </param>
    /// <param name="cancellationToken">Ends the compaction between two new volumes; what is done by then stays done.</param>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="garbageMin"/> is not from 0 to 1.</exception>
    /// <exception cref="QueueDiskException">The disk is full or fails; the old volumes stay.</exception>
    /// <exception cref="PackPoisonedException">A sync failed: close the pack and open it again.</exception>
    /// <exception cref="PackDeletedException">The pack was removed while it was open.</exception>
    /// <exception cref="PackFullException">The pack already has 16,384 volumes. Puts and deletes leave one free.</exception>
    /// <exception cref="OperationCanceledException">The compaction was cancelled.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public PackCompaction Compact(double garbageMin = 0.3, CancellationToken cancellationToken = default)
    {
        // Not a number is neither less nor greater than anything.
        if (garbageMin is not (>= 0 and <= 1))
            throw new ArgumentOutOfRangeException(nameof(garbageMin), garbageMin, "The fraction is not from 0 to 1.");
        return _writer.Compact(garbageMin, cancellationToken);
    }

    /// <summary>
    /// Reads every byte of the pack, and builds the index a second time from the volumes. Reports damage, and where the index
    /// differs. Puts continue, except at the end of the call. Needs memory for a second index.
    /// </summary>
    /// <exception cref="QueueDiskException">The system refused a file operation.</exception>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public PackVerification Verify() => _writer.Verify();

    /// <summary>Sizes and counts at one moment. Reads no file.</summary>
    /// <exception cref="ObjectDisposedException">The pack is disposed.</exception>
    public PackInfo GetInfo() => PackQueries.Info(Core.Usable());

    /// <summary>
    /// Refuses further calls, writes a checkpoint of the index (which syncs what was put) and closes the pack. A get that is
    /// already reading in another thread completes. Disk errors are not reported: nothing acknowledged depends on the checkpoint.
    /// </summary>
    public void Dispose() => _writer.Dispose();

    private static void EvictExcess(PackWriter writer)
    {
        try
        {
            writer.EvictExcess();
        }
        catch (QueueDiskException error) when (DiskErrors.IsFull(error.Errno) && !writer.Appender.IsPoisoned)
        {
            // A put tries again, once there is room for the reserve. Whoever wants to free the disk needs the pack open.
        }
    }
}
