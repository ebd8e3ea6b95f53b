using System.Collections.Concurrent;
using System.Globalization;
using MappedFileQueues.Files;

namespace MappedFileQueues.Tests.Files.Rolling;

/// <summary>Rolling when a day begins, retention by age, and the handler that hears of rolled files.</summary>
public sealed class AppendFileDayTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);
    private readonly ConcurrentQueue<RolledFile> _rolled = [];

    private string FilePath => _temp.PathOf("app.log");

    public void Dispose() => _temp.Dispose();

    /// <summary>23 hours on the day on which the clocks go forward, 25 on that on which they go back.</summary>
    [Theory]
    [InlineData("2025-03-29T23:00:00Z", 23)]
    [InlineData("2025-10-25T22:00:00Z", 25)]
    [InlineData("2025-06-01T22:00:00Z", 24)]
    public void Tick_LocalMidnightPasses_RollsTheDayBefore(string midnight, int hours)
    {
        DateTimeOffset start = DateTimeOffset.Parse(midnight, CultureInfo.InvariantCulture);
        ManualTime time = new(start, Zones.Berlin);
        using AppendFileStream stream = new(FilePath, Options(time));
        stream.Write("one"u8);
        stream.Flush();
        time.Advance(TimeSpan.FromHours(hours) - TimeSpan.FromSeconds(2));
        stream.Write(" day"u8);
        time.Advance(TimeSpan.FromSeconds(1));
        stream.Flush();
        Assert.Empty(RolledPaths());

        TickUntil(time, () => !_rolled.IsEmpty);
        stream.Write("the next"u8);
        stream.Flush();
        Assert.Equal("one day"u8, TempStore.ReadOpenFile(RolledPaths().Single()));
        Assert.Equal("the next"u8, TempStore.ReadOpenFile(FilePath));
        RolledFile rolled = Assert.Single(_rolled);
        Assert.Equal(RolledPaths().Single(), rolled.Path);
        Assert.Equal(7, rolled.Length);
        Assert.Equal(start, rolled.Begun);
        // On a busy machine the tick comes when the clock has gone on.
        Assert.InRange(rolled.Ended, start + TimeSpan.FromHours(hours), time.GetUtcNow());
    }

    /// <summary>
    /// A file in which nothing stood was begun yesterday, and its first line of today was rolled a second later.
    /// </summary>
    [Fact]
    public void Tick_NothingWasWrittenUntilTheNextDay_TheFirstWriteStays()
    {
        ManualTime time = new(DateTimeOffset.Parse("2025-06-01T12:00:00Z", CultureInfo.InvariantCulture), Zones.Berlin);
        using AppendFileStream stream = new(FilePath, Options(time));
        int looks = time.ZoneLookCount;
        time.Advance(TimeSpan.FromHours(11));
        Eventually.True(() => time.ZoneLookCount > looks, "a tick finds that the file is empty");
        stream.Write("today"u8);
        time.Advance(TimeSpan.FromHours(22));
        WaitForTick(stream, time);
        Assert.Empty(RolledPaths());
        TickUntil(time, () => RolledPaths().Length == 1, TimeSpan.FromHours(1));
        Assert.Equal("today"u8, TempStore.ReadOpenFile(RolledPaths().Single()));
    }

    /// <summary>The process was not there at midnight.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Open_FileOfAnEarlierDay_IsRolledAtTheFirstTick(bool isOfToday)
    {
        DateTimeOffset now = DateTimeOffset.UtcNow;
        File.WriteAllText(FilePath, "yesterday");
        File.SetLastWriteTimeUtc(FilePath, now.UtcDateTime);

        // The file system's clock is the system's, so the stream's clock is put after it, or left beside it. At 12:00 local
        // time, so that no other midnight is near.
        TimeZoneInfo zone = TimeZoneInfo.CreateCustomTimeZone(
            "noon", TimeSpan.FromMinutes(Math.Round((12 - now.TimeOfDay.TotalHours) * 60)), null, null);
        ManualTime time = new(isOfToday ? now : now.AddDays(1), zone);
        using AppendFileStream stream = new(FilePath, Options(time));
        stream.Write(" and on"u8);
        if (isOfToday)
        {
            WaitForTick(stream, time);
            Assert.Empty(RolledPaths());
            return;
        }

        TickUntil(time, () => RolledPaths().Length == 1);
        Assert.Equal("yesterday and on"u8, TempStore.ReadOpenFile(RolledPaths().Single()));
    }

    /// <summary>
    /// The closed file of a machine whose clock was far ahead was deleted at once: nanoseconds since 1970 count to 2262 only.
    /// </summary>
    [Theory]
    [InlineData(2261)]
    [InlineData(2300)]
    public void RetainedAge_FileOfTheFarFuture_Stays(int year)
    {
        string closed = _temp.PathOf("app.roll-000001.log");
        File.WriteAllText(closed, "new");
        File.SetLastWriteTimeUtc(closed, new DateTime(year, 1, 1, 0, 0, 0, DateTimeKind.Utc));
        using AppendFileStream stream = new(FilePath, new AppendFileOptions { RetainedAge = TimeSpan.FromDays(7) });
        Assert.Equal([closed], RolledPaths());
    }

    [Fact]
    public void RetainedAge_OldFilesAtOpeningAndLater_Go()
    {
        string[] old = [.. Enumerable.Range(1, 3).Select(number => _temp.PathOf($"app.roll-{number:D6}.log"))];
        DateTime now = DateTime.UtcNow;
        foreach (string path in old)
            File.WriteAllText(path, "old");
        File.SetLastWriteTimeUtc(old[0], now.AddDays(-8));
        File.SetLastWriteTimeUtc(old[1], now.AddDays(-6));
        File.SetLastWriteTimeUtc(old[2], now.AddDays(-5));
        File.WriteAllText(_temp.PathOf("app.log.1"), "another program's");
        ManualTime time = new(now);
        AppendFileOptions options = new() { TimeProvider = time, RetainedAge = TimeSpan.FromDays(7), RollLength = 10 };
        using AppendFileStream stream = new(FilePath, options);
        Assert.Equal([old[1], old[2]], RolledPaths());

        // Nothing is written, and yet they go when their time has come.
        time.Advance(TimeSpan.FromDays(1.1));
        Eventually.True(() => RolledPaths() is [{ } only] && only == old[2], "the second one has been kept for seven days");

        // A roll deletes too, and never the file that it has closed just now.
        stream.Write("123456789"u8);
        stream.Write("123456789"u8);
        stream.Flush();
        Assert.Equal([old[2], _temp.PathOf("app.roll-000004.log")], RolledPaths());
        Assert.True(File.Exists(_temp.PathOf("app.log.1")));
    }

    /// <summary>
    /// Each rolled file is told once and in order, a slow handler holds up nobody, and what it throws is dropped.
    /// </summary>
    [Fact]
    public void OnRolled_ManyRolls_ComeInOrderWithoutBeingWaitedFor()
    {
        using ManualResetEventSlim mayGoOn = new();
        ConcurrentQueue<string> told = [];
        AppendFileOptions options = new()
        {
            RollLength = 10,
            RetainedFileCount = 30,
            OnRolled = file =>
            {
                mayGoOn.Wait(TestContext.Current.CancellationToken);
                told.Enqueue($"{Path.GetFileName(file.Path)} {file.Length}");
                throw new InvalidOperationException("of the handler");
            },
        };
        using (AppendFileStream stream = new(FilePath, options))
        {
            for (int i = 0; i < 20; i++)
                stream.Write("12345678"u8);
        }

        Assert.Empty(told);
        mayGoOn.Set();
        Eventually.True(() => told.Count == 19, "all rolled files are told");
        Assert.Equal(Enumerable.Range(1, 19).Select(number => $"app.roll-{number:D6}.log 8"), told);
    }

    [Fact]
    public void Constructor_RetainedAgeOutOfRange_IsRefused() =>
        Assert.Throws<ArgumentOutOfRangeException>(
            () => new AppendFileStream(FilePath, new AppendFileOptions { RetainedAge = TimeSpan.Zero }));

    /// <summary>
    /// A clock told no time zone at the moment of a roll. That ended the stream, whose other calls to the same clock may throw.
    /// </summary>
    [Fact]
    public void Tick_ClockThrowsForTheZone_RollsByTheZoneBefore()
    {
        ManualTime time = new(DateTimeOffset.Parse("2025-06-01T12:00:00Z", CultureInfo.InvariantCulture), Zones.Berlin);
        using AppendFileStream stream = new(FilePath, Options(time));
        stream.Write("one day"u8);
        stream.Flush();
        time.IsZoneBroken = true;
        TickUntil(time, () => !_rolled.IsEmpty, TimeSpan.FromHours(1));
        stream.Write("the next"u8);
        stream.Flush();
        Assert.Equal("the next"u8, TempStore.ReadOpenFile(FilePath));
        TickUntil(time, () => _rolled.Count == 2, TimeSpan.FromHours(1));
    }

    private AppendFileOptions Options(ManualTime time) =>
        new() { TimeProvider = time, RollAtMidnight = true, OnRolled = _rolled.Enqueue };

    private string[] RolledPaths() =>
        [.. Directory.GetFiles(_temp.StorePath, "app.roll-0*.log").Order(StringComparer.Ordinal)];

    /// <summary>A tick that meets a writer at work leaves the roll to the next one.</summary>
    private static void TickUntil(ManualTime time, Func<bool> isDone, TimeSpan? step = null) => Eventually.True(
        () =>
        {
            time.Advance(step ?? TimeSpan.FromSeconds(1));
            return isDone();
        },
        "a tick rolls the file");

    /// <summary>Returns when a tick has been worked off: it looks for a roll before it flushes what was written.</summary>
    private static void WaitForTick(AppendFileStream stream, ManualTime time) =>
        TickUntil(time, () => stream.FlushedLength == stream.AcceptedLength);
}
