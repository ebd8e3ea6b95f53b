namespace MappedFileQueues.CrashLab.Parts;

/// <summary>Kills and stops of real processes, at steps of the protocol and at any moment.</summary>
internal sealed class KillPart : LabPart
{
    public override string Name => "kill";

    public override string Help => "producers, readers and recoverers, killed and stopped";

    /// <summary>It judges by the clock whether somebody waits for the dead.</summary>
    public override int JobsMax => 1;

    public override bool Prepare(LabOptions options, PartResult result)
    {
        if (OperatingSystem.IsLinux())
            return true;
        result.Skip("all", "signals are Linux's");
        return false;
    }

    public override void Run(int seed, LabOptions options, PartResult result)
    {
        WakeScenario.Run(seed);
        result.Add("wake checks");
        string folder = Path.Combine(
            Directory.Exists("/dev/shm") ? "/dev/shm" : Path.GetTempPath(), $"mfq-crashlab-{Guid.NewGuid():n}");
        Directory.CreateDirectory(folder);
        bool isWhole = false;
        try
        {
            using (var run = new KillRun(seed, folder, options, result))
                run.Run();
            isWhole = true;
        }
        finally
        {
            if (!isWhole)
            {
                string kept = Path.Combine(options.KeepFolder, $"kill-{seed}");
                Directory.CreateDirectory(options.KeepFolder);
                Copy(folder, kept);
                Console.WriteLine($"    store: {kept}");
            }

            Directory.Delete(folder, recursive: true);
        }
    }

    public override bool IsEnough(int runs, LabOptions options, PartResult result) => result.Count("kills") >= options.Kills;

    private static void Copy(string from, string to)
    {
        foreach (string path in Directory.EnumerateFiles(from, "*", SearchOption.AllDirectories))
        {
            string target = Path.Combine(to, Path.GetRelativePath(from, path));
            Directory.CreateDirectory(Path.GetDirectoryName(target)!);
            File.Copy(path, target, overwrite: true);
        }
    }
}
