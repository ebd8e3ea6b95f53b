using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.Tests.Tool;

/// <summary>
/// Terminals with few columns, or none. `mfq --help` never ended at 5 columns, at 1 it said "This is an error of mfq itself", and
/// at 12 tables showed nothing, with exit code 0.
/// </summary>
[Trait("Category", "Slow")]
public sealed class NarrowTerminalTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(5)]
    [InlineData(39)]
    public void Help_FewColumns_IsWrittenForAUsualTerminal(int columns) =>
        Assert.Contains(
            "A persistent queue between processes: one directory, no broker.",
            OnTerminal(columns, "--help").Text,
            StringComparison.Ordinal);

    [Theory]
    [InlineData(1)]
    [InlineData(12)]
    [InlineData(39)]
    public void Table_FewColumns_IsPlainText(int columns)
    {
        ToolRun.Of("produce", _temp.StorePath, "--messages", "3").Expect(0);
        ToolRun.Of("consume", _temp.StorePath, "--consumer", "a-long-name-of-a-consumer", "--commit").Expect(0);
        string[] plain = ToolRun.Of("consumers", "list", _temp.StorePath).Expect(0).Lines;

        ToolRun shown = OnTerminal(columns, $"consumers list '{_temp.StorePath}'");

        Assert.All(plain, line => Assert.Contains(line, shown.Text, StringComparison.Ordinal));
    }

    private static ToolRun OnTerminal(int columns, string arguments)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() && File.Exists("/usr/bin/script"), "The terminal is made by script.");
        string line = string.Create(CultureInfo.InvariantCulture,
            $"stty -onlcr cols {columns} rows 24; exec timeout 60 dotnet exec '{Repository.ToolPath}' {arguments}");
        return ToolRun.Start(new ProcessStartInfo("script", ["-q", "-e", "-c", line, "/dev/null"]), []).Expect(0);
    }
}
