using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Testing;

/// <summary>
/// A disk whose faults a test switches on and off. Files are real files of the real disk; what fails is what the queue asks of
/// it, with the errors that the system would give. It counts for the queues whose options name it
/// (<see cref="FaultDiskExtensions.UseDisk"/>), in this process. Any thread.
/// </summary>
public sealed class FaultDisk
{
    private volatile bool _isFull;
    private volatile bool _failsFlushes;
    private long _flushCount;

    /// <summary>
    /// Whether the disk is full: no file gets room any more (ENOSPC). What has its room already, in steps of 256 KiB and more, is
    /// appended all the same. A producer that needs room gets a <see cref="QueueDiskException"/>, and continues once there is
    /// room.
    /// </summary>
    public bool IsFull
    {
        get => _isFull;
        set => _isFull = value;
    }

    /// <summary>
    /// Whether flushes fail (EIO), as on a disk that breaks. The first one poisons the store: close the queue in all processes,
    /// then open it again with this switched off.
    /// </summary>
    public bool FailsFlushes
    {
        get => _failsFlushes;
        set => _failsFlushes = value;
    }

    /// <summary>How many flushes of files were asked for, those that failed included.</summary>
    public long FlushCount => Interlocked.Read(ref _flushCount);

    internal OperatingSystemServices MakeServices() => new FaultServices(this, CurrentPlatform.Services);

    private void ThrowIfFull(string path)
    {
        if (_isFull)
            throw new QueueDiskException($"No space left on device: path={path}. The disk of this test is full.",
                DiskErrors.ENOSPC, path);
    }

    private void Flush(string path)
    {
        Interlocked.Increment(ref _flushCount);
        if (_failsFlushes)
            throw new QueueDiskException(
                $"Input/output error: path={path}. Flushes of this test's disk fail.", DiskErrors.EIO, path);
    }

    private sealed class FaultServices(FaultDisk disk, OperatingSystemServices inner) : ForwardingServices(inner)
    {
        protected override HeldDirectory Wrap(HeldDirectory directory) => new FaultDirectory(disk, directory);
    }

    private sealed class FaultDirectory(FaultDisk disk, HeldDirectory inner) : ForwardingDirectory(inner)
    {
        public override long FreeBytes => disk.IsFull ? 0 : base.FreeBytes;

        public override void FlushEntries(string subdirectory)
        {
            disk.Flush(subdirectory);
            base.FlushEntries(subdirectory);
        }

        protected override PlatformFile Wrap(string name, PlatformFile file) => new FaultFile(disk, file, name);
    }

    private sealed class FaultFile(FaultDisk disk, PlatformFile inner, string name) : ForwardingFile(inner)
    {
        public override bool TryAllocate(long offset, long length)
        {
            disk.ThrowIfFull(name);
            return base.TryAllocate(offset, length);
        }

        public override void Allocate(long offset, long length)
        {
            disk.ThrowIfFull(name);
            base.Allocate(offset, length);
        }

        public override bool TryReserve(long offset, long length)
        {
            disk.ThrowIfFull(name);
            return base.TryReserve(offset, length);
        }

        public override void FlushData()
        {
            disk.Flush(name);
            base.FlushData();
        }
    }
}

/// <summary>Gives a queue a disk with faults.</summary>
public static class FaultDiskExtensions
{
    /// <summary>Lets the queues that are made with these options see a disk.</summary>
    /// <typeparam name="TOptions">The options' type.</typeparam>
    /// <param name="options">The options.</param>
    /// <param name="disk">The disk.</param>
    /// <returns>The options.</returns>
    public static TOptions UseDisk<TOptions>(this TOptions options, FaultDisk disk)
        where TOptions : MappedFileQueueOptions
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(disk);
        options.Platform = disk.MakeServices();
        return options;
    }
}
