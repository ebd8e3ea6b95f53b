using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Linux;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// Writes a simulated disk to real files: failing images, which are kept, and a sample of all others, which the Linux platform
/// recovers, so that the simulation cannot be kinder than the system is.
/// </summary>
internal static class RealStore
{
    private static readonly LinuxServices s_linux = new();

    public static void Write(SimDisk disk, string path)
    {
        Directory.CreateDirectory(path);
        foreach (string folder in disk.Folders)
            Directory.CreateDirectory(Path.Combine(path, folder));
        foreach ((string name, SimFile file) in disk.Names)
            File.WriteAllBytes(Path.Combine(path, name), file.Content.ToArray());
    }

    /// <summary>This boot is another one than any simulated, so the real system sees a cut.</summary>
    public static void Check(SimDisk image, LabPlan plan, ModelPicture model, Random random)
    {
        string folder = Path.Combine(
            Directory.Exists("/dev/shm") ? "/dev/shm" : Path.GetTempPath(), $"mfq-crashlab-{Guid.NewGuid():n}");
        try
        {
            string path = Path.Combine(folder, "store");
            Write(image, path);
            new ImageOracle(plan, model, isCut: true, new Random(random.Next())).Check(path, s_linux);
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }
}
