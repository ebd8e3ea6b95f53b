using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Index;
using MappedFileQueues.Packs.Loading;
using MappedFileQueues.Packs.Reading;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Packs;

/// <summary>
/// Reads a pack without a lock and without leaving a trace, beside a writer in this process or another. It follows the writer's
/// puts and deletes. All members may be called from any thread.
/// </summary>
public sealed class PackReader : IDisposable
{
    private readonly HeldDirectory _directory;
    private readonly PackFollower _follower;
    private readonly Lock _refreshing = new();
    private readonly bool _followsWriter;
    private bool _isDisposed;

    private PackReader(HeldDirectory directory, PackFollower follower, bool followsWriter) =>
        (_directory, _follower, _followsWriter) = (directory, follower, followsWriter);

    /// <summary>The pack's directory.</summary>
    public string Path => _directory.Path;

    /// <summary>The number of objects.</summary>
    /// <exception cref="ObjectDisposedException">The reader is disposed.</exception>
    public long Count => Follow().Index.Count;

    /// <summary>The damage that was found and skipped. Empty for an intact pack.</summary>
    public IReadOnlyList<PackDamage> Damages => _follower.Core.Damages;

    /// <summary>Opens a pack for reading; never creates one.</summary>
    /// <param name="path">The pack's directory.</param>
    /// <param name="options">How to read the pack; null for the defaults.</param>
    /// <exception cref="PackNotFoundException">There is no pack.</exception>
    /// <exception cref="PackFormatException">The pack has another version, or its meta page is damaged.</exception>
    /// <exception cref="PackInUseException">The volumes changed each time that they were opened: try again.</exception>
    /// <exception cref="QueueDiskException">The system refused a file operation.</exception>
    public static PackReader Open(string path, PackReaderOptions? options = null)
    {
        ArgumentException.ThrowIfNullOrWhiteSpace(path);
        options ??= new PackReaderOptions();
        HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(
            path, create: false, mode: null) ?? throw PackErrors.NoPack(path);
        try
        {
            PackMeta meta = PackLoader.ReadMeta(directory) ?? throw PackErrors.NoPack(path);
            var access = new PackAccess
            {
                Owner = typeof(PackReader),
                MapsVolumes = options.MapVolumes,
                AllowsStaleValues = options.AllowStaleValues,
            };
            return new PackReader(directory, new PackFollower(directory, meta, access), options.FollowWriter);
        }
        catch
        {
            directory.Dispose();
            throw;
        }
    }

    /// <summary>Takes over everything that the writer has put and deleted so far.</summary>
    /// <exception cref="QueueDiskException">The system refused a file operation.</exception>
    /// <exception cref="PackInUseException">The volumes changed each time that they were opened: try again.</exception>
    /// <exception cref="PackDeletedException">The pack was removed; a call that refreshes first (<see
    /// cref="PackReaderOptions.FollowWriter"/>) throws it too.</exception>
    /// <exception cref="ObjectDisposedException">The reader is disposed.</exception>
    public void Refresh()
    {
        lock (_refreshing)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, this);
            _follower.Refresh();
        }
    }

    /// <inheritdoc cref="PackStore.TryGet(ReadOnlySpan{byte}, IBufferWriter{byte})"/>
    public bool TryGet(ReadOnlySpan<byte> key, IBufferWriter<byte> destination)
    {
        ArgumentNullException.ThrowIfNull(destination);
        while (true)
        {
            PackCore core = Follow();
            try
            {
                return PackQueries.TryGet(core, key, destination);
            }
            catch (ObjectDisposedException) when (IsReplaced(core))
            {
                // A compaction ran meanwhile. The files of the new index are open now.
            }
        }
    }

    /// <inheritdoc cref="PackStore.TryGet(ReadOnlySpan{byte}, IBufferWriter{byte})"/>
    public bool TryGet(string key, IBufferWriter<byte> destination)
    {
        using var bytes = new PackKey(key, stackalloc byte[PackKey.StackLength]);
        return TryGet(bytes.Bytes, destination);
    }

    /// <inheritdoc cref="PackStore.TryGet(ReadOnlySpan{byte}, out IMemoryOwner{byte}?)"/>
    public bool TryGet(ReadOnlySpan<byte> key, [NotNullWhen(true)] out IMemoryOwner<byte>? data)
    {
        while (true)
        {
            PackCore core = Follow();
            try
            {
                return PackQueries.TryGet(core, key, out data);
            }
            catch (ObjectDisposedException) when (IsReplaced(core))
            {
                // As above.
            }
        }
    }

    /// <inheritdoc cref="PackStore.TryGet(ReadOnlySpan{byte}, out IMemoryOwner{byte}?)"/>
    public bool TryGet(string key, [NotNullWhen(true)] out IMemoryOwner<byte>? data)
    {
        using var bytes = new PackKey(key, stackalloc byte[PackKey.StackLength]);
        return TryGet(bytes.Bytes, out data);
    }

    /// <inheritdoc cref="PackStore.Contains(ReadOnlySpan{byte})"/>
    public bool Contains(ReadOnlySpan<byte> key)
    {
        while (true)
        {
            PackCore core = Follow();
            try
            {
                return PackQueries.Contains(core, key);
            }
            catch (ObjectDisposedException) when (IsReplaced(core))
            {
                // As above.
            }
        }
    }

    /// <inheritdoc cref="PackStore.Contains(ReadOnlySpan{byte})"/>
    public bool Contains(string key)
    {
        using var bytes = new PackKey(key, stackalloc byte[PackKey.StackLength]);
        return Contains(bytes.Bytes);
    }

    /// <inheritdoc cref="PackStore.TryGetLength(ReadOnlySpan{byte}, out int)"/>
    public bool TryGetLength(ReadOnlySpan<byte> key, out int length)
    {
        while (true)
        {
            PackCore core = Follow();
            try
            {
                return PackQueries.TryGetLength(core, key, out length);
            }
            catch (ObjectDisposedException) when (IsReplaced(core))
            {
                // As above.
            }
        }
    }

    /// <inheritdoc cref="PackStore.TryGetLength(ReadOnlySpan{byte}, out int)"/>
    public bool TryGetLength(string key, out int length)
    {
        using var bytes = new PackKey(key, stackalloc byte[PackKey.StackLength]);
        return TryGetLength(bytes.Bytes, out length);
    }

    /// <inheritdoc cref="PackStore.TryOpenRead(ReadOnlySpan{byte}, out Stream?)"/>
    public bool TryOpenRead(ReadOnlySpan<byte> key, [NotNullWhen(true)] out Stream? stream)
    {
        while (true)
        {
            PackCore core = Follow();
            try
            {
                return PackQueries.TryOpenRead(core, key, out stream);
            }
            catch (ObjectDisposedException) when (IsReplaced(core))
            {
                // As above.
            }
        }
    }

    /// <inheritdoc cref="PackStore.TryOpenRead(ReadOnlySpan{byte}, out Stream?)"/>
    public bool TryOpenRead(string key, [NotNullWhen(true)] out Stream? stream)
    {
        using var bytes = new PackKey(key, stackalloc byte[PackKey.StackLength]);
        return TryOpenRead(bytes.Bytes, out stream);
    }

    /// <inheritdoc cref="PackStore.GetAsync(ReadOnlyMemory{byte}, CancellationToken)"/>
    public ValueTask<IMemoryOwner<byte>?> GetAsync(ReadOnlyMemory<byte> key, CancellationToken cancellationToken = default) =>
        new(Task.Run(() => TryGet(key.Span, out IMemoryOwner<byte>? data) ? data : null, cancellationToken));

    /// <inheritdoc cref="PackStore.GetAsync(ReadOnlyMemory{byte}, CancellationToken)"/>
    public ValueTask<IMemoryOwner<byte>?> GetAsync(string key, CancellationToken cancellationToken = default) =>
        GetAsync(PackKey.ToBytes(key), cancellationToken);

    /// <inheritdoc cref="PackStore.Enumerate(Action{PackDamage}?)"/>
    public IEnumerable<PackEntry> Enumerate(Action<PackDamage>? onDamage = null) =>
        Enumerate(ReadOnlyMemory<byte>.Empty, onDamage);

    /// <inheritdoc cref="PackStore.Enumerate(ReadOnlyMemory{byte}, Action{PackDamage}?)"/>
    public IEnumerable<PackEntry> Enumerate(string keyPrefix, Action<PackDamage>? onDamage = null) =>
        Enumerate(PackKey.ToBytes(keyPrefix), onDamage);

    /// <inheritdoc cref="PackStore.Enumerate(ReadOnlyMemory{byte}, Action{PackDamage}?)"/>
    public IEnumerable<PackEntry> Enumerate(ReadOnlyMemory<byte> keyPrefix, Action<PackDamage>? onDamage = null)
    {
        while (true)
        {
            PackCore core = Follow();
            using IEnumerator<PackEntry> entries = PackQueries.Enumerate(core, keyPrefix, onDamage).GetEnumerator();
            bool hasEntry;
            try
            {
                // The first step takes references on the volumes. From then on no compaction closes them.
                hasEntry = entries.MoveNext();
            }
            catch (ObjectDisposedException) when (IsReplaced(core))
            {
                continue;
            }

            for (; hasEntry; hasEntry = entries.MoveNext())
                yield return entries.Current;
            yield break;
        }
    }

    /// <summary>
    /// Reads every byte of the pack as of now, and builds the index a second time from the volumes. Reports damage, and where the
    /// index differs. Other calls continue. Needs memory for two more indexes, and opens each volume twice more.
    /// </summary>
    /// <exception cref="QueueDiskException">The system refused a file operation.</exception>
    /// <exception cref="PackInUseException">The volumes changed each time that they were opened: try again.</exception>
    /// <exception cref="PackDeletedException">The pack was removed.</exception>
    /// <exception cref="ObjectDisposedException">The reader is disposed, also meanwhile.</exception>
    public PackVerification Verify()
    {
        Refresh();

        // Under the lock each get that follows the writer would wait until every byte is read.
        try
        {
            using PackCore core = _follower.LoadApart();
            using var verifier = new PackVerifier(core, active: null, besideWriter: true);
            verifier.Scan();

            // On Portable a closed directory does not say so.
            ObjectDisposedException.ThrowIf(Volatile.Read(ref _isDisposed), this);
            return verifier.Compare();
        }
        catch (ObjectDisposedException) when (Volatile.Read(ref _isDisposed))
        {
            // It names the directory, which is closed.
            throw new ObjectDisposedException(typeof(PackReader).FullName);
        }
    }

    /// <inheritdoc cref="PackStore.GetInfo"/>
    public PackInfo GetInfo()
    {
        while (true)
        {
            PackCore core = Follow();
            PackInfo info = PackQueries.Info(core);

            // Otherwise a compaction ran meanwhile, and this core has lost its volumes.
            if (!IsReplaced(core))
                return info;
        }
    }

    /// <summary>Refuses further calls and closes the files. A get that is already reading in another thread completes.</summary>
    public void Dispose()
    {
        lock (_refreshing)
        {
            if (_isDisposed)
                return;
            _isDisposed = true;
            _follower.Dispose();
            _directory.Dispose();
        }
    }

    private PackCore Follow()
    {
        if (_followsWriter)
            Refresh();
        ObjectDisposedException.ThrowIf(Volatile.Read(ref _isDisposed), this);
        return _follower.Core;
    }

    private bool IsReplaced(PackCore core) => !Volatile.Read(ref _isDisposed) && core != _follower.Core;
}
