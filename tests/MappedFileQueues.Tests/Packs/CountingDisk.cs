using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tests.Packs;

/// <summary>Counts the bytes that are read and written, for what this test opens from here on.</summary>
internal sealed class CountingDisk : ForwardingServices
{
    private long _read;
    private long _written;

    public CountingDisk()
        : base(CurrentPlatform.Services) => CurrentPlatform.Services = this;

    public long BytesRead => Volatile.Read(ref _read);

    public long BytesWritten => Volatile.Read(ref _written);

    protected override HeldDirectory Wrap(HeldDirectory directory) => new CountingDirectory(this, directory);

    private sealed class CountingDirectory(CountingDisk disk, HeldDirectory inner) : ForwardingDirectory(inner)
    {
        protected override PlatformFile Wrap(string name, PlatformFile file) => new CountingFile(disk, file);
    }

    private sealed class CountingFile(CountingDisk disk, PlatformFile inner) : ForwardingFile(inner)
    {
        public override int ReadAt(Span<byte> destination, long position)
        {
            int read = base.ReadAt(destination, position);
            Interlocked.Add(ref disk._read, read);
            return read;
        }

        public override void WriteAt(ReadOnlySpan<byte> source, long position)
        {
            base.WriteAt(source, position);
            Interlocked.Add(ref disk._written, source.Length);
        }
    }
}
