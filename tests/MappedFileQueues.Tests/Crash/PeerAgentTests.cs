using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.Tests.Crash;

/// <summary>
/// A child that is not yet handed to its test ends when its start fails. It stayed, stopped for good, wherever a test is skipped
/// that stops its child: off Linux.
/// </summary>
public sealed class PeerAgentTests
{
    [Fact]
    public void StartAt_BeginningThrows_EndsTheChild()
    {
        int id = 0;

        Assert.ThrowsAny<InvalidOperationException>(() => PeerAgent.StartAt(agent =>
        {
            id = agent.Id;
            throw new InvalidOperationException("The test is skipped.");
        }));

        Assert.Throws<ArgumentException>(() => Process.GetProcessById(id));
    }

    [Fact]
    public void Start_ChildSaysNothing_EndsIt()
    {
        Assert.SkipWhen(OperatingSystem.IsWindows(), "The child is a shell.");
        using TempStore temp = new();
        string file = Path.Combine(temp.Root, "id");

        Assert.ThrowsAny<Exception>(() => PeerAgent.StartUnder("bash", "-c", $"echo $$ >{file}; exec >&- 2>&-; exec sleep 600"));

        int id = int.Parse(File.ReadAllText(file), CultureInfo.InvariantCulture);
        Assert.Throws<ArgumentException>(() => Process.GetProcessById(id));
    }
}
