using System.Globalization;
using System.Runtime.InteropServices;
using MappedFileQueues.CrashLab.Processes;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Platform.Linux;

namespace MappedFileQueues.CrashLab.Parts;

/// <summary>
/// Power losses of real file systems: ext4 and XFS are shut down in the middle of the work without writing their journals, btrfs
/// is copied; then mounted again, opened as after another boot, and read.
/// </summary>
internal sealed partial class RealCutPart : LabPart
{
    private const int RunsEnough = 12;

    /// <summary>EXT4_IOC_SHUTDOWN and XFS_IOC_GOINGDOWN are one number; 2 is "without flushing the log".</summary>
    private const nuint Shutdown = 0x8004587D;
    private const uint NoLogFlush = 2;
    private const string BootVariable = "MFQ_TEST_BOOT_ID";

    private static readonly (string Kind, int LengthMiB)[] s_kinds = [("ext4", 64), ("xfs", 320), ("btrfs", 256)];
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(20);

    private readonly HashSet<string> _missing = [];

    public override string Name => "real-cut";

    public override string Help => "power losses of ext4, XFS and btrfs on loop devices";

    /// <summary>There are few loop devices, and the run changes this process's boot.</summary>
    public override int JobsMax => 1;

    public override bool Prepare(LabOptions options, PartResult result)
    {
        if (OperatingSystem.IsLinux())
            return true;
        result.Skip("all", "loop devices are Linux's");
        return false;
    }

    public override void Finish() => Environment.SetEnvironmentVariable(BootVariable, null);

    public override bool IsEnough(int runs, LabOptions options, PartResult result) => runs >= RunsEnough;

    public override void Run(int seed, LabOptions options, PartResult result)
    {
        (string kind, int length) = s_kinds[(int)((uint)seed % s_kinds.Length)];
        string folder = Directory.CreateTempSubdirectory("mfq-crashlab-").FullName;
        try
        {
            using LabMount? mount = LabMount.TryMake(kind, folder, length, out string reason);
            if (mount is null)
            {
                if (_missing.Add(kind))
                    result.Skip($"cuts of {kind}", reason);
                return;
            }

            var random = new Random(seed);
            string board = Path.Combine(folder, "board");
            for (int cut = 0; cut < 3; cut++)
            {
                Cut(mount, board, folder, seed, random, options);
                result.Add($"{kind} cuts");
            }
        }
        catch (QueueDiskException error) when (error.Errno == DiskErrors.EIO)
        {
            // What the file system itself cannot read after its shutdown, no store can: one cut of ext4 in several hundred.
            result.Skip($"the rest of seed {seed}", error.Message);
        }
        finally
        {
            Directory.Delete(folder, recursive: true);
        }
    }

    private static void Cut(LabMount mount, string boardPath, string folder, int seed, Random random, LabOptions options)
    {
        File.Delete(boardPath);
        using var board = new KillBoard(boardPath);
        string store = Path.Combine(mount.Path, $"store-{random.Next()}");
        long flushed;
        using (var child = new LabChild(
        [
            CutWorker.Verb, options.Planted.Length > 0 ? options.Planted : "None", store, boardPath,
            seed.ToString(CultureInfo.InvariantCulture), "1",
        ]))
        {
            long began = Environment.TickCount64;
            while (Volatile.Read(ref board.Acked(1)) < random.Next(1, 3000))
            {
                if (child.HasExited)
                    throw new LabViolation($"The child ended before the cut: {child.Output}");
                if (Environment.TickCount64 - began > s_patience.TotalMilliseconds)
                    break;
                Thread.Sleep(1);
            }

            if (mount.Kind == "btrfs")
            {
                CutByCopy(mount, folder, store, board, child, seed, random.Next(2) == 0);
                return;
            }

            // What is flushed from here on is not asked for: a process whose power is gone reports nothing. ext4 was seen to let
            // an fdatasync succeed that its own shutdown overtook, and to lose what it was for (11 of 900 cuts, under load).
            flushed = Volatile.Read(ref board.Acked(1));
            ShutDown(mount.Path);
        }

        mount.Unmount();
        mount.Remount();
        Check(store, board, flushed, seed, random.Next(2) == 0);
    }

    /// <summary>btrfs has no shutdown: while the child stands still the image is copied as it is on the medium.</summary>
    private static void CutByCopy(
        LabMount mount, string folder, string store, KillBoard board, LabChild child, int seed, bool isSameBoot)
    {
        child.Signal(LabChild.SigStop);
        if (!SpinWait.SpinUntil(() => child.IsStopped, s_patience))
            throw new InvalidOperationException("The child does not stand still.");
        string copy = Path.Combine(folder, "copy");
        if (LabMount.Run("cp", "--sparse=always", mount.ImagePath, copy) is { } failure)
            throw new InvalidOperationException(failure);
        child.Signal(LabChild.SigKill);
        child.WaitForExit(s_patience);

        // The two have one identity, and only one of them may be mounted.
        mount.Unmount();
        using (LabMount? again = LabMount.TryMountImage(mount.Kind, copy, Path.Combine(folder, "again"), out string reason))
        {
            if (again is null)
                throw new InvalidOperationException(reason);
            string copied = store.Replace(mount.Path, again.Path, StringComparison.Ordinal);
            Check(copied, board, Volatile.Read(ref board.Acked(1)), seed, isSameBoot);
        }

        File.Delete(copy);
        mount.Remount();
    }

    private static void Check(string store, KillBoard board, long flushed, int seed, bool isSameBoot)
    {
        // Another boot, for this process and from here on; or the same, as after a file system that failed and was mounted again.
        if (!isSameBoot)
            Environment.SetEnvironmentVariable(BootVariable, Guid.NewGuid().ToString());
        CurrentPlatform.Services = new LinuxServices();
        using var queue = new MappedFileQueue(new MappedFileQueueOptions { StorePath = store });
        long last = ReadAll(queue, board, seed);
        KillRun.CheckFiles(queue, store);
        if (last < flushed || last > board.Begun(1))
            throw new LabViolation($"{last} messages are there after the cut; flushed {flushed}, begun {board.Begun(1)}");
        using MappedFileConsumer consumer = queue.OpenConsumer(
            "c", new ConsumerOptions { OnOutOfRange = OutOfRangePolicy.Earliest });
        while (consumer.TryConsume(out ReadOnlySpan<byte> message))
        {
            Victim.CheckMessage(message, seed, consumer.MessageOffset);
            consumer.Advance();
        }

        queue.Producer.Produce(Victim.Message(seed, 1, last + 1));
        if (!consumer.TryConsume(out ReadOnlySpan<byte> next) || !next.SequenceEqual(Victim.Message(seed, 1, last + 1))
            || queue.Flush() <= consumer.Offset)
            throw new LabViolation("A message that was appended after the cut is not there");
    }

    /// <summary>
    /// The number of the last message. Those that the consumer has committed, or was about to, may be gone, and nothing else.
    /// </summary>
    private static long ReadAll(MappedFileQueue queue, KillBoard board, int seed)
    {
        while (true)
        {
            try
            {
                return TryReadAll(queue, board, seed);
            }
            catch (OffsetOutOfRangeException) when (CutWorker.Retains(seed))
            {
                // The queue that was just opened applies the store's policy, and removed the segment under the reader.
            }
        }
    }

    private static long TryReadAll(MappedFileQueue queue, KillBoard board, int seed)
    {
        long removable = CutWorker.Retains(seed) ? board.Committing(1) : 0;
        var order = new StormOrder(seed);
        using MappedFileReader reader = queue.OpenReader();
        bool isFirst = true;
        while (reader.TryRead(out ReadOnlySpan<byte> message))
        {
            if (isFirst)
                order.Numbers[1] = Math.Min(removable, LabMessage.Head(message).Number - 1);
            isFirst = false;
            order.Add(message, reader.MessageOffset);
        }

        return isFirst ? removable : order.Last(1);
    }

    private static void ShutDown(string path)
    {
        int directory = Open(path, 0);
        uint flags = NoLogFlush;
        int result = Control(directory, Shutdown, ref flags);
        int errno = Marshal.GetLastPInvokeError();
        _ = Close(directory);
        if (result != 0)
            throw new InvalidOperationException($"The file system cannot be shut down: path={path}, errno={errno}.");
    }

    [LibraryImport("libc", EntryPoint = "open", StringMarshalling = StringMarshalling.Utf8)]
    private static partial int Open(string path, int flags);

    [LibraryImport("libc", EntryPoint = "ioctl", SetLastError = true)]
    private static partial int Control(int descriptor, nuint request, ref uint argument);

    [LibraryImport("libc", EntryPoint = "close")]
    private static partial int Close(int descriptor);
}
