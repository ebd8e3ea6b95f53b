using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.Tests.Crash;

/// <summary>
/// A child process that does what it is told, and that can be stopped or killed between any two steps of the protocol.
/// </summary>
internal sealed class PeerAgent : IDisposable
{
    /// <summary>The arguments of `unshare` that make a container of what follows.</summary>
    public static readonly string[] Namespaces =
        ["--pid", "--fork", "--kill-child", "--mount-proc", "--ipc", "--uts", "--net"];

    private readonly ChildProcess _child;
    private int _seen;

    private PeerAgent(ChildProcess child)
    {
        _child = child;
        EndUnless(() => NextLine(line => line == "ready"));
    }

    public int Id => _child.Id;

    public bool HasExited => _child.HasExited;

    /// <summary>How many units the child's appends have returned for.</summary>
    public int AckedCount => _child.Lines.Count(line => line.StartsWith("acked ", StringComparison.Ordinal));

    /// <summary>What a `watch` of the child has received.</summary>
    public IReadOnlyList<string> Received =>
        [.. _child.Lines.Where(line => line.StartsWith("got ", StringComparison.Ordinal)).Select(line => line[4..])];

    /// <summary>The words of all lines that begin with a word.</summary>
    public IReadOnlyList<string> After(string word) =>
    [
        .. _child.Lines.Where(line => line.StartsWith($"{word} ", StringComparison.Ordinal))
            .SelectMany(line => line.Split(' ')[1..]),
    ];

    /// <summary>Starts one; with a boot id it lives in another boot than this process.</summary>
    public static PeerAgent Start(Guid? bootId = null)
    {
        Dictionary<string, string> environment = new() { ["DOTNET_TieredPGO"] = "0" };
        if (bootId is { } id)
            environment["MFQ_TEST_BOOT_ID"] = id.ToString();
        return new PeerAgent(ChildProcess.Start(Repository.TestPeerPath, ["agent"], environment));
    }

    /// <summary>Starts one and brings it to where a test begins; it ends when that fails, or skips the test.</summary>
    public static PeerAgent StartAt(Action<PeerAgent> begin, Guid? bootId = null)
    {
        PeerAgent agent = Start(bootId);
        agent.EndUnless(() => begin(agent));
        return agent;
    }

    /// <summary>
    /// Starts one in namespaces of its own for process ids, mounts and the rest, as in a container; needs root. The first process
    /// of such a namespace is deaf to a signal of its own, so that is a shell, which first runs the commands of the caller.
    /// </summary>
    public static PeerAgent StartInNamespaces(string prepare = "true")
    {
        string[] shell = ["bash", "-c", $"{prepare} && \"$@\"; exit $?", "bash"];
        return new PeerAgent(ChildProcess.Start(
            new ProcessStartInfo("unshare", [.. Namespaces, .. shell, "dotnet", "exec", Repository.TestPeerPath, "agent"]),
            new Dictionary<string, string> { ["DOTNET_TieredPGO"] = "0" }));
    }

    /// <summary>Starts one by another program, which gets its command line after its own arguments.</summary>
    public static PeerAgent StartUnder(params string[] program) => new(ChildProcess.Start(
        new ProcessStartInfo(program[0], [.. program[1..], "dotnet", "exec", Repository.TestPeerPath, "agent"]),
        new Dictionary<string, string> { ["DOTNET_TieredPGO"] = "0" }));

    /// <summary>Sends a command and returns what the child answers; fails when that is an error.</summary>
    public string Ask(string command)
    {
        Send(command);
        string answer = Answer();
        Assert.True(answer.StartsWith("ok", StringComparison.Ordinal), $"{command}: {answer}");
        return answer.Length > 3 ? answer[3..] : "";
    }

    /// <summary>Sends a command that must fail; returns the exception's name and message.</summary>
    public string AskForError(string command)
    {
        Send(command);
        string answer = Answer();
        Assert.True(answer.StartsWith("error ", StringComparison.Ordinal), $"{command}: {answer}");
        return answer["error ".Length..];
    }

    public void Send(string command) => _child.Input.WriteLine(command);

    /// <summary>Waits for the answer to a command that was sent before.</summary>
    public string Answer() => NextLine(line => line.StartsWith("ok", StringComparison.Ordinal)
        || line.StartsWith("error ", StringComparison.Ordinal));

    /// <summary>Waits for a line behind those that were waited for before.</summary>
    public string NextLine(Func<string, bool> predicate)
    {
        string found = _child.WaitForLine(predicate, fromIndex: _seen);
        IReadOnlyList<string> lines = _child.Lines;
        while (!ReferenceEquals(lines[_seen], found))
            _seen++;
        _seen++;
        return found;
    }

    /// <summary>Makes the child kill, stop or hang itself when it comes to a step for the N-th time.</summary>
    public void Trap(string step, int hit, string what = "kill")
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() || what == "kill", "A process stops itself by a signal of Linux.");
        Ask(string.Create(CultureInfo.InvariantCulture, $"trap step={step} hit={hit} do={what}"));
    }

    /// <summary>Makes each thread of the child that comes to a step wait there for a file; the others continue.</summary>
    public void HoldAt(string step, string file) => Ask($"hold-at step={step} file={file}");

    /// <summary>Waits until a thread is held.</summary>
    public void WaitUntilHeld() => NextLine(line => line == "waits");

    /// <summary>Waits until the child has killed itself at the step that was set.</summary>
    public void ExpectKilled() => _child.ExpectExit(ChildProcess.ExitCodeKilled);

    /// <summary>A process opens a store, removes what it may, and is killed at a step of that.</summary>
    public static void KillRemover(string path, string step)
    {
        using PeerAgent agent = Start();
        agent.Ask($"open path={path}");
        agent.Trap(step, hit: 1);
        agent.Send("trim");
        agent.ExpectKilled();
    }

    public void Kill() => _child.KillAndWait();

    /// <summary>Stops the child wherever it is.</summary>
    public void Stop() => _child.Stop();

    public void Continue() => _child.Continue();

    /// <summary>Waits until the child is at the step that was set.</summary>
    public void WaitUntilStopped()
    {
        string tasks = string.Create(CultureInfo.InvariantCulture, $"/proc/{_child.Id}/task");
        Eventually.True(() => Directory.GetDirectories(tasks).All(IsStopped), "every thread of the child stands");
    }

    public void Dispose() => _child.Dispose();

    /// <summary>Nobody has this object yet who could end the child after an exception.</summary>
    private void EndUnless(Action works)
    {
        try
        {
            works();
        }
        catch
        {
            Dispose();
            throw;
        }
    }

    private static bool IsStopped(string task)
    {
        try
        {
            string stat = File.ReadAllText(Path.Combine(task, "stat"));
            return stat[stat.LastIndexOf(')') + 2] == 'T';
        }
        catch (IOException)
        {
            // The thread ended between the listing and the look.
            return true;
        }
    }
}
