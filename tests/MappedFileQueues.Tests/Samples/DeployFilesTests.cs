using System.Diagnostics;
using System.Text.RegularExpressions;
using MappedFileQueues.Tests.Tool;
using YamlDotNet.RepresentationModel;

namespace MappedFileQueues.Tests.Samples;

/// <summary>
/// The files of samples/deploy are what they seem to be, and say the same: one directory, for one group, and probes that exist.
/// </summary>
[Trait("Category", "Slow")]
public sealed partial class DeployFilesTests : IDisposable
{
    private const string StorePath = "/var/lib/shop/orders";
    private const string UnitName = "mfq-worker.service";

    private static readonly string[] s_instructions =
        ["FROM", "ARG", "WORKDIR", "COPY", "RUN", "ENV", "USER", "ENTRYPOINT"];

    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    [Fact]
    public void Dockerfile_Instructions_AreThoseOfDocker()
    {
        // A line that ends with a backslash goes on in the next one.
        string[] lines = [.. LinesOf(Text("Dockerfile").Replace("\\\n", " "))];
        Assert.All(lines, line => Assert.Contains(line.Split(' ')[0], s_instructions));
        Assert.StartsWith("FROM ", lines[0], StringComparison.Ordinal);
        Assert.Contains("USER app", lines);
        Assert.Contains(lines, line => line.Contains($"__StorePath={StorePath}", StringComparison.Ordinal));
        Assert.Single(lines, line => line.StartsWith("ENTRYPOINT [\"", StringComparison.Ordinal));
        string[] stages = [.. lines.SelectMany(line => Stage().Matches(line)).Select(stage => stage.Groups[1].Value)];
        Assert.All(
            lines.SelectMany(line => CopiedStage().Matches(line)), copied => Assert.Contains(copied.Groups[1].Value, stages));
    }

    [Fact]
    public void Compose_Services_ShareOneVolume()
    {
        YamlNode compose = Assert.Single(Documents("compose.yaml"));
        string[] volumes = [.. Keys(At(compose, "volumes"))];
        Assert.Equal(2, Keys(At(compose, "services")).Count());
        foreach (string name in Keys(At(compose, "services")))
        {
            YamlNode service = At(compose, "services", name);
            Assert.Equal("true", Value(At(service, "read_only")));
            string mount = Value(Assert.Single(Items(At(service, "volumes"))));
            Assert.Equal($"{Assert.Single(volumes)}:/var/lib/shop", mount);
            ExpectProbe([.. Items(At(service, "healthcheck", "test")).Skip(1).Select(Value)]);
        }
    }

    [Fact]
    public void Kubernetes_Containers_ShareOneClaim()
    {
        YamlNode[] documents = [.. Documents("kubernetes.yaml")];
        Assert.Equal(["PersistentVolumeClaim", "Deployment"], documents.Select(document => Value(At(document, "kind"))));
        YamlNode pod = At(documents[1], "spec", "template", "spec");
        YamlNode volume = Items(At(pod, "volumes")).First();
        Assert.Equal(
            Value(At(documents[0], "metadata", "name")), Value(At(volume, "persistentVolumeClaim", "claimName")));
        YamlNode[] containers = [.. Items(At(pod, "containers"))];
        Assert.Equal(2, containers.Length);
        foreach (YamlNode container in containers)
        {
            Assert.Equal("true", Value(At(container, "securityContext", "readOnlyRootFilesystem")));
            Assert.Contains(
                Items(At(container, "volumeMounts")),
                mount => Value(At(mount, "name")) == Value(At(volume, "name"))
                    && Value(At(mount, "mountPath")) == "/var/lib/shop");
        }

        ExpectProbe([.. Items(At(containers[1], "readinessProbe", "exec", "command")).Select(Value)]);
        Assert.Equal(
            At(documents[1], "spec", "selector", "matchLabels"), At(documents[1], "spec", "template", "metadata", "labels"));
    }

    /// <summary>Systemd reads it without a complaint, and finds little that it leaves open.</summary>
    [Fact]
    public void Unit_Settings_AreThoseOfSystemd()
    {
        string[] lines = [.. LinesOf(Text(UnitName))];
        Assert.All(lines, line => Assert.Matches(@"^(\[[A-Z]\w+\]|[A-Z]\w+=.*)$", line));
        foreach (string needed in new[] { "ProtectSystem=strict", "StateDirectory=shop", $"Environment={Setting}={StorePath}" })
            Assert.Contains(needed, lines);
        if (!File.Exists("/usr/bin/systemd-analyze"))
            return;
        // The program of the unit is not on this machine.
        string unit = Path.Combine(_temp.Root, UnitName);
        File.WriteAllText(unit, ExecStart().Replace(Text(UnitName), "ExecStart=/bin/true"));
        Assert.Equal("", Analyze("verify", unit).Error);
        Assert.Equal("", Analyze("security", "--offline=true", "--threshold=25", unit).Error);

        static ToolRun Analyze(params string[] arguments) =>
            ToolRun.Start(new ProcessStartInfo("systemd-analyze", arguments), []).Expect(0);
    }

    /// <summary>
    /// What the files ask for, all at once: a read-only root, a small /dev/shm, namespaces of its own, no network, no rights, and
    /// a folder of the group with set-group-ID. The one that appends and the one that reads are different users of that group.
    /// </summary>
    [Fact]
    public void Tool_LockedContainer_ProducesAndConsumes()
    {
        Assert.SkipUnless(
            OperatingSystem.IsLinux() && Environment.IsPrivilegedProcess && File.Exists("/usr/bin/unshare"),
            "Namespaces need root on Linux.");
        string state = Path.Combine(_temp.Root, "shop");
        string store = Path.Combine(state, "orders");
        Directory.CreateDirectory(state);
        TempStore.MakeReadable(_temp.Root);
        Run("chown", "1654:1654", state);
        Run("chmod", "2770", state);

        InContainer(1654, "produce", store, "--messages", "20", "--size", "100").Expect(0);
        // What UnixCreateMode 660 would have made.
        Run("chmod", "-R", "g+rwX", store);
        ToolRun consumed = InContainer(1655, "consume", store, "--consumer", "worker", "--commit", "--count", "5").Expect(0);
        InContainer(1654, "produce", store, "--messages", "1").Expect(0);
        InContainer(1655, "check", store, "--max-lag", "64MiB").Expect(0);

        Assert.Equal(5, consumed.Lines.Count(line => line.Length > 0));
        InContainer(1654, "produce", Path.Combine(_temp.Root, "elsewhere"), "--messages", "1").ExpectError("elsewhere");

        ToolRun InContainer(int user, params string[] arguments)
        {
            const string Lock = "mount --make-rprivate / && mount --bind \"$0\" \"$0\""
                + " && mount -t tmpfs -o size=64k none /dev/shm && mount -o remount,bind,ro / && exec \"$@\"";
            string[] asUser =
                ["setpriv", $"--reuid={user}", "--regid=1654", "--clear-groups", "--no-new-privs", "--bounding-set=-all"];
            ProcessStartInfo start = new("unshare",
            [
                "--mount", .. Crash.PeerAgent.Namespaces, "sh", "-c", Lock, state, .. asUser,
                "sh", "-c", "umask 0007; exec \"$@\"", "sh", "dotnet", "exec", Repository.ToolPath, .. arguments,
            ]);
            start.Environment["HOME"] = "/nonexistent";
            return ToolRun.Start(start, []);
        }
    }

    private const string Setting = "MappedFileQueues__orders__StorePath";

    /// <summary>The probe of a container is a command that the tool has.</summary>
    private void ExpectProbe(string[] command)
    {
        Assert.Equal(["mfq", "check", StorePath], command.Take(3));
        ToolRun.Of("produce", _temp.StorePath, "--messages", "1").Expect(0);
        ToolRun.Of(["check", _temp.StorePath, .. command[3..]]).Expect(0);
    }

    private static void Run(string program, params string[] arguments) =>
        ToolRun.Start(new ProcessStartInfo(program, arguments), []).Expect(0);

    private static IEnumerable<string> LinesOf(string text) => text.Split('\n').Where(line => line.Length > 0 && line[0] != '#');

    private static string Text(string name) => File.ReadAllText(Repository.PathOf($"samples/deploy/{name}"));

    private static IEnumerable<YamlNode> Documents(string name)
    {
        YamlStream stream = [];
        stream.Load(new YamlDotNet.Core.MergingParser(new YamlDotNet.Core.Parser(new StringReader(Text(name)))));
        return stream.Documents.Select(document => document.RootNode);
    }

    private static YamlNode At(YamlNode node, params string[] path) => path.Aggregate(node, (current, key) => current[key]);

    private static IEnumerable<string> Keys(YamlNode node) => ((YamlMappingNode)node).Children.Keys.Select(Value);

    private static IEnumerable<YamlNode> Items(YamlNode node) => (YamlSequenceNode)node;

    private static string Value(YamlNode node) => ((YamlScalarNode)node).Value!;

    [GeneratedRegex("^FROM .* AS (.+)$")]
    private static partial Regex Stage();

    [GeneratedRegex("--from=(\\S+)")]
    private static partial Regex CopiedStage();

    [GeneratedRegex("^ExecStart=.*$", RegexOptions.Multiline)]
    private static partial Regex ExecStart();
}
