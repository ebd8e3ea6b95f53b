using MappedFileQueues.Packs.Format;
using MappedFileQueues.Packs.Volumes;

namespace MappedFileQueues.Tests.Packs.Volumes;

/// <summary>The search for the next needle after damage.</summary>
public sealed class VolumeScannerTests
{
    private const int Length = 16 * 1024 * 1024;

    private readonly MemoryFile _file = new("volume");
    private int _reads;

    public VolumeScannerTests()
    {
        _file.SetLength(Length);
        _file.BeforeRead = () => _reads++;
    }

    /// <summary>A hole, as a copy leaves it that was cut short, was read to its last byte.</summary>
    [Fact]
    public void TryResync_HoleUntilTheEnd_IsNotRead()
    {
        using VolumeScanner scanner = NewScanner();

        Assert.False(scanner.TryResync(0, wholeNeedle: true));

        Assert.Equal(Length, scanner.Position);
        Assert.InRange(_reads, 1, 2);
    }

    [Fact]
    public void TryResync_NeedleAfterAHole_IsFound()
    {
        var source = new NeedleSource(NeedleKind.Value, "key"u8, [1]);
        source.WriteTo(NewVolume(), Length / 2, 1);
        source.Dispose();
        using VolumeScanner scanner = NewScanner();

        Assert.True(scanner.TryResync(0, wholeNeedle: true));

        Assert.Equal(Length / 2, scanner.Position);
        Assert.InRange(_reads, 1, 4);
    }

    private VolumeScanner NewScanner() => new(NewVolume(), VolumeHeader.Length, Length);

    private Volume NewVolume() => new(new VolumeName(1, 1, 0), _file, default);
}
