using MappedFileQueues.Packs;
using MappedFileQueues.Packs.Volumes;

namespace MappedFileQueues.Tests.Packs.Reading;

/// <summary>What is asked of the system before a get's read.</summary>
public sealed class ReadAroundTests : IDisposable
{
    private const long Window = 128 * 1024;

    private readonly MemoryFile _file = new("volume");

    public void Dispose() => _file.Dispose();

    /// <summary>The get waits for its own pages alone, while the others are on their way.</summary>
    [Fact]
    public void Ask_AWindowNeverSeen_WhatIsWantedFirstThenTheWindow()
    {
        var around = new ReadAround(_file);

        around.Ask(5 * Window + 777, 2100);

        Assert.Equal([(5 * Window + 777, 2100), (5 * Window, Window)], _file.Advised);
    }

    [Fact]
    public void Ask_AgainInTheWindow_Nothing()
    {
        var around = new ReadAround(_file);
        around.Ask(0, 8);
        _file.Advised.Clear();

        around.Ask(Window - 1, 8);
        Assert.Empty(_file.Advised);
        around.Ask(Window, 8);
        Assert.NotEmpty(_file.Advised);
    }

    [Fact]
    public void Ask_EveryWindowOfALargeVolumeInAnyOrder_EachOnce()
    {
        const int Count = 5000;
        var around = new ReadAround(_file);
        int[] order = [.. Enumerable.Range(0, Count)];
        new Random(1).Shuffle(order);

        foreach (int window in (int[])[.. order, .. order])
            around.Ask(window * Window + 8, 8);

        Assert.Equal(
            Enumerable.Range(0, Count).Select(window => window * Window),
            _file.Advised.Where(advised => advised.Length == Window).Select(advised => advised.Position).Order());
    }
}
