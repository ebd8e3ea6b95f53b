using MappedFileQueues.Files;
using MappedFileQueues.Files.Appending;
using MappedFileQueues.Files.Names;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.Tests.Files.Names;

/// <summary>
/// A stream that had no closed file left gave the number 1 again, while the deletion of an earlier file of that name was still to
/// be tried again: the next file was deleted as soon as it was closed.
/// </summary>
public sealed class RolledFilesTests : IDisposable
{
    private readonly TempStore _temp = new(createStoreFolder: true);

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Add_NoneIsLeft_GivesNoNumberAgain()
    {
        using HeldDirectory folder = CurrentPlatform.Services.OpenDirectory(_temp.StorePath, create: false, mode: null)!;
        RolledFiles rolled = new(folder, new RolledNames("app.log"));

        File.WriteAllText(_temp.PathOf("app.log"), "first");
        string first = rolled.Add("app.log");
        rolled.Remove(first);
        File.Delete(_temp.PathOf(first));
        File.WriteAllText(_temp.PathOf("app.log"), "second");
        string second = rolled.Add("app.log");

        Assert.Equal("second", File.ReadAllText(_temp.PathOf(second)));
        Assert.NotEqual(first, second);
    }

    /// <summary>
    /// The oldest one was to be used again, and until then stayed, while those after it were deleted: a process that was killed
    /// meanwhile left closed files with a gap between them.
    /// </summary>
    [Fact]
    public void RetainNewest_SeveralGoAndOneIsReused_TheOldestGoFirst()
    {
        using HeldDirectory folder = CurrentPlatform.Services.OpenDirectory(_temp.StorePath, create: false, mode: null)!;
        for (int i = 1; i <= 5; i++)
            File.WriteAllText(_temp.PathOf($"app.roll-00000{i}.log"), "");
        RolledFiles rolled = new(folder, new RolledNames("app.log"));
        AppendFileOptions options = new() { RollLength = 1, RetainedFileCount = 2, ReuseOldFiles = true };
        RolledFileRetention retention = new(folder, rolled, options, deleting: _ => { }, errors: null);

        string? spare = null;
        retention.RetainNewest(countMin: 1, ref spare);

        Assert.Equal("app.roll-000003.log", spare);
        Assert.Equal(
            ["app.roll-000003.log", "app.roll-000004.log", "app.roll-000005.log"],
            Directory.GetFiles(_temp.StorePath).Select(Path.GetFileName).Order(StringComparer.Ordinal));
    }
}
