using System.Collections.Concurrent;
using MappedFileQueues.Files;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Tests.Contract;

namespace MappedFileQueues.Tests.Files.Appending;

/// <summary>Where in the file the writes of full buffers begin and end: at places which the system serves quickly.</summary>
public sealed class AppendFilePlacesTests : IDisposable
{
    private const int BufferLength = 64 * 1024;
    private const int Alignment = BufferLength / 2;
    private const int LineLength = 100;
    private const int LineCount = 10_000;

    private readonly TempStore _temp = new(createStoreFolder: true);

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(0)]
    [InlineData(5_000)]
    [InlineData(BufferLength - 1)]
    [InlineData(BufferLength + Alignment)]
    public void Write_ShortLines_FullBuffersEndAtAlignedPlaces(int lengthBefore)
    {
        File.WriteAllText(FilePath, new string('b', lengthBefore));
        ConcurrentQueue<Place> places = [];
        using (AppendFileStream stream = Open(places))
            WriteLines(stream, LineCount);

        // The last one is the rest, at closing.
        Place[] full = [.. places.SkipLast(1)];
        Assert.NotEmpty(full);
        Assert.Equal(lengthBefore / 4096 * 4096, full[0].Position);
        Assert.All(full, place => Assert.Equal(0, place.End % Alignment));
        Assert.All(full.Skip(1), place => Assert.Equal(BufferLength, place.Length));
        CheckFile(lengthBefore, LineCount);
    }

    [Fact]
    public void Write_FlushedBetween_GoesBackToAlignedPlaces()
    {
        ConcurrentQueue<Place> places = [];
        using (AppendFileStream stream = Open(places))
        {
            WriteLines(stream, 77);
            stream.Flush();
            WriteLines(stream, LineCount - 77);
        }

        Place[] full = [.. places.Skip(1).SkipLast(1)];
        Assert.Equal(77 * LineLength / 4096 * 4096, full[0].Position);
        Assert.All(full, place => Assert.Equal(0, place.End % Alignment));
        CheckFile(0, LineCount);
    }

    /// <summary>A write above half a buffer goes through the buffers by itself, also from a place that is not aligned.</summary>
    [Theory]
    [InlineData(Alignment)]
    [InlineData(Alignment + 1)]
    [InlineData((5 * BufferLength) + 17)]
    public void Write_LongOneBetweenLines_KeepsToAlignedPlaces(int length)
    {
        byte[] lines = new byte[length / LineLength * LineLength];
        for (int i = 0; i < lines.Length; i++)
            lines[i] = i % LineLength == LineLength - 1 ? (byte)'\n' : (byte)'.';
        ConcurrentQueue<Place> places = [];
        using (AppendFileStream stream = Open(places))
        {
            WriteLines(stream, 1_000);
            stream.Write(lines);
            WriteLines(stream, 1_000);
        }

        Assert.True(places.SkipLast(1).Count(place => place.End % Alignment != 0) <= 1, string.Join(", ", places));
        CheckFile(0, 2_000 + (lines.Length / LineLength));
    }

    private static void WriteLines(AppendFileStream stream, int count)
    {
        byte[] line = new byte[LineLength];
        line.AsSpan().Fill((byte)'.');
        line[^1] = (byte)'\n';
        for (int i = 0; i < count; i++)
            stream.Write(line);
    }

    private AppendFileStream Open(ConcurrentQueue<Place> places)
    {
        PlatformScope.Use(portable: false);
        CurrentPlatform.Services = new RecordingServices(CurrentPlatform.Services, places);
        return new AppendFileStream(FilePath, new AppendFileOptions
        {
            BufferLength = BufferLength,
            FlushInterval = Timeout.InfiniteTimeSpan,
        });
    }

    private void CheckFile(int lengthBefore, int lineCount)
    {
        byte[] bytes = File.ReadAllBytes(FilePath);
        Assert.Equal(lengthBefore + (lineCount * LineLength), bytes.Length);
        Assert.Equal(-1, bytes.AsSpan(0, lengthBefore).IndexOfAnyExcept((byte)'b'));
        for (int i = 0; i < lineCount * LineLength; i++)
            Assert.Equal(i % LineLength == LineLength - 1 ? '\n' : '.', (char)bytes[lengthBefore + i]);
    }

    private sealed record Place(long Position, int Length)
    {
        public long End => Position + Length;
    }

    private sealed class RecordingServices(OperatingSystemServices real, ConcurrentQueue<Place> places) : ForwardingServices(real)
    {
        protected override HeldDirectory Wrap(HeldDirectory directory) => new RecordingDirectory(directory, places);
    }

    private sealed class RecordingDirectory(HeldDirectory real, ConcurrentQueue<Place> places) : ForwardingDirectory(real)
    {
        protected override PlatformFile Wrap(string name, PlatformFile file) => new RecordingFile(file, places);
    }

    private sealed class RecordingFile(PlatformFile real, ConcurrentQueue<Place> places) : ForwardingFile(real)
    {
        public override void WriteAt(ReadOnlySpan<byte> source, long position)
        {
            places.Enqueue(new Place(position, source.Length));
            base.WriteAt(source, position);
        }
    }
}
