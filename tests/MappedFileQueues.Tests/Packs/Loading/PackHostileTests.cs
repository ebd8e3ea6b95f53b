using System.Globalization;

namespace MappedFileQueues.Tests.Packs.Loading;

/// <summary>
/// Damage anywhere in a pack: never another value, a crash or a hang. A child does it, which a crash would end.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class PackHostileTests : IDisposable
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromMinutes(15);

    private readonly TempStore _temp = TempStore.InMemory();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData("closed")]
    [InlineData("killed")]
    public void BytesChanged_FilesCut_ExactBytesOrNothing(string kind)
    {
        Directory.CreateDirectory(_temp.StorePath);
        using ChildProcess child = ChildProcess.StartPeer("pack-hostile", _temp.StorePath, kind);

        string line = child.WaitForLine(line => line.StartsWith("checked ", StringComparison.Ordinal), s_deadline);
        child.ExpectExit();
        Assert.InRange(int.Parse(line["checked ".Length..], CultureInfo.InvariantCulture), 2000, 100_000);
    }
}
