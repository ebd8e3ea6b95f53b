using MappedFileQueues.Log.StoreFiles;

namespace MappedFileQueues.Tests.Log.StoreFiles;

/// <summary>
/// The story: whether dead letters would go into the store that they come from was decided by the text of two paths. A symbolic
/// link to the store passed, and each refused record was read again, refused again and appended again, without end.
/// </summary>
public sealed class StorePathsTests : IDisposable
{
    private readonly TempStore _store = new();

    private string Root => _store.Root;

    public void Dispose() => _store.Dispose();

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void AreSame_LinkToTheStoreOrToAFolderAbove_IsTheSame(bool isThere)
    {
        string folder = Path.Combine(Root, "data");
        string path = Path.Combine(folder, "orders");
        Directory.CreateDirectory(folder);
        if (isThere)
            new MappedFileQueue(new MappedFileQueueOptions { StorePath = path }).Dispose();
        Directory.CreateSymbolicLink(Path.Combine(Root, "folder-link"), folder);
        Directory.CreateSymbolicLink(Path.Combine(Root, "relative-link"), Path.Combine("data", "orders"));
        Directory.CreateSymbolicLink(Path.Combine(Root, "link-to-link"), Path.Combine(Root, "folder-link"));

        Assert.True(StorePaths.AreSame(path, path + Path.DirectorySeparatorChar));
        Assert.True(StorePaths.AreSame(path, Path.Combine(Root, "folder-link", "orders")));
        Assert.True(StorePaths.AreSame(path, Path.Combine(Root, "link-to-link", "orders")));
        Assert.True(StorePaths.AreSame(Path.Combine(Root, "relative-link"), path));
        Assert.False(StorePaths.AreSame(path, Path.Combine(Root, "folder-link", "orders-dead-letters")));
        Assert.False(StorePaths.AreSame(path, folder));

        Directory.CreateSymbolicLink(Path.Combine(Root, "link-inside"), Path.Combine(path, "commitlog"));
        Assert.True(StorePaths.IsInside(path, Path.Combine(path, "none", "none")));
        Assert.True(StorePaths.IsInside(path, Path.Combine(Root, "relative-link", "none")));
        Assert.True(StorePaths.IsInside(path, Path.Combine(Root, "link-inside", "none")));
        Assert.True(StorePaths.IsInside(Path.Combine(Root, "folder-link", "orders"), path));
        Assert.False(StorePaths.IsInside(path, path + "-copy"));
        Assert.False(StorePaths.IsInside(path, folder));
    }

    /// <summary>Such a path must neither hang the comparison nor end it; whoever opens the store hears of it.</summary>
    [Fact]
    public void AreSame_PathCannotBeOpened_ComparesWhatIsWritten()
    {
        string file = Path.Combine(Root, "file");
        string loop = Path.Combine(Root, "loop");
        File.WriteAllText(file, "");
        Directory.CreateSymbolicLink(loop, loop);

        Assert.True(StorePaths.AreSame(file, file));
        Assert.False(StorePaths.AreSame(file, _store.StorePath));
        Assert.True(StorePaths.AreSame(loop, loop));
        Assert.False(StorePaths.AreSame(loop, _store.StorePath));
    }
}
