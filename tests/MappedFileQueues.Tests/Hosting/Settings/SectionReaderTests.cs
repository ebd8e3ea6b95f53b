extern alias hosting;

using MappedFileQueues.Files;
using SectionReader = hosting::MappedFileQueues.Hosting.Settings.SectionReader;
using Microsoft.Extensions.Configuration;

namespace MappedFileQueues.Tests.Hosting.Settings;

/// <summary>Values that the framework's binder takes mean the same here, except where it misreads them.</summary>
public sealed class SectionReaderTests
{
    /// <summary>
    /// The null of a JSON file was ignored, so that a log whose files were all to be kept lost all but 15. A blank at the end of
    /// a value, or what a file of variables with the line ends of Windows leaves there, was refused.
    /// </summary>
    [Fact]
    public void Read_NullAndBlanksAroundAValue_AreWhatTheFrameworkTakesThemFor()
    {
        IConfiguration section = new ConfigurationBuilder().AddInMemoryCollection(new Dictionary<string, string?>
        {
            ["RetainedFileCount"] = null,
            ["BufferLength"] = " 65536\r",
            ["RollAtMidnight"] = "true ",
            ["FlushInterval"] = "\t00:00:02 ",
            ["Durability"] = "Group\r",
        }).Build();
        AppendFileOptions expected = new() { RetainedFileCount = 15 };
        section.Bind(expected);
        AppendFileOptions options = new() { RetainedFileCount = 15 };

        Assert.Empty(SectionReader.Read(section, "Log", options));

        Assert.Equal(expected, options);
        Assert.Null(options.RetainedFileCount);
        Assert.Equal(65536, options.BufferLength);
    }

    [Fact]
    public void Read_NothingButBlanks_SaysNothing()
    {
        IConfiguration section = new ConfigurationBuilder().AddInMemoryCollection(new Dictionary<string, string?>
        {
            ["RetainedFileCount"] = " ",
            ["RollAtMidnight"] = null,
        }).Build();
        AppendFileOptions options = new() { RetainedFileCount = 15, RollAtMidnight = true };

        Assert.Empty(SectionReader.Read(section, "Log", options));

        Assert.Equal(15, options.RetainedFileCount);
        Assert.True(options.RollAtMidnight);
    }
}
