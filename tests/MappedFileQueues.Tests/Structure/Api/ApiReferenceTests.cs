namespace MappedFileQueues.Tests.Structure.Api;

/// <summary>
/// The pages in docs/api are what the comments in the sources say. With MFQ_UPDATE_SURFACE=1 in the environment the test writes
/// them instead.
/// </summary>
public sealed class ApiReferenceTests
{
    private const string Folder = "docs/api";

    [Fact]
    public void Pages_All_AreWhatTheCommentsSay()
    {
        IReadOnlyDictionary<string, string> pages = ApiReference.Make();
        string folder = Repository.PathOf(Folder);
        if (Environment.GetEnvironmentVariable("MFQ_UPDATE_SURFACE") == "1")
            Write(folder, pages);

        Assert.Equal(pages.Keys.Order(), Directory.GetFiles(folder).Select(path => Path.GetFileName(path)).Order());
        Assert.All(pages, page => Assert.True(
            page.Value == File.ReadAllText(Path.Combine(folder, page.Key)),
            $"{Folder}/{page.Key} is not what the comments say: run this test with MFQ_UPDATE_SURFACE=1."));
    }

    [Fact]
    public void Pages_OfTheCore_SayWhatACallDoesAndThrows()
    {
        string page = ApiReference.Make()["MappedFileQueues.md"];

        Assert.Contains("public long Flush()", page, StringComparison.Ordinal);
        Assert.Contains("- `QueuePoisonedException`: ", page, StringComparison.Ordinal);
        Assert.Contains("- `Interval` = ", page, StringComparison.Ordinal);
        Assert.DoesNotContain("inheritdoc", page, StringComparison.Ordinal);
    }

    private static void Write(string folder, IReadOnlyDictionary<string, string> pages)
    {
        Directory.CreateDirectory(folder);
        foreach (string path in Directory.GetFiles(folder))
            File.Delete(path);
        foreach ((string name, string text) in pages)
            File.WriteAllText(Path.Combine(folder, name), text);
    }
}
