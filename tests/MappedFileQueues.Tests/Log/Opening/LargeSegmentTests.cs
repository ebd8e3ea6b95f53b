using MappedFileQueues.Format;
using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Opening;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>
/// Most of a large segment is a hole. The opener of a store with one message in a segment of 16 GiB read all of it after a
/// poison: 65 s, in which every other opener was refused.
/// </summary>
public sealed class LargeSegmentTests
{
    private const long Length = 1L << 40;

    [Fact]
    public async Task Open_RestOfTheSegmentIsAHole_IsNotRead()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Linux tells where holes are.");
        using var temp = new TempStore(createStoreFolder: true);
        using HeldDirectory directory = CurrentPlatform.Services.OpenDirectory(temp.StorePath, create: false, mode: null)!;
        directory.CreateSubdirectory(StoreNames.CommitLog);
        using PlatformFile file = directory.Open(StoreNames.Segment(0), FileOpening.CreateNew)!;
        file.SetLength(Length);
        file.WriteAt([1], 1 << 20);
        file.WriteAt([1], Length - 1);
        Task looking = Task.Run(() =>
        {
            Assert.True(LogStartSearch.HasFrame(directory, 0, Length));
            var scanner = new SegmentScanner(file, 0, Length, checksum: default);
            LogTruncation.ZeroFrom(file, scanner, 0, Length);
            Assert.True(scanner.FindNonZeroData(0, Length) < 0);
            Assert.False(LogStartSearch.HasFrame(directory, 0, Length));
        });
        await looking.WaitAsync(Eventually.DefaultDeadline);
    }
}
