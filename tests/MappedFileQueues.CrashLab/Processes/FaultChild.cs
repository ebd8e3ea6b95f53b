using System.Globalization;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.CrashLab.Processes;

/// <summary>
/// What the fault part does in a process that may die of it: `fault FAULT scan FOLDER PAGES`, `fault FAULT fill FOLDER`,
/// `fault FAULT work STORE ERRNO`, `fault FAULT large STORE`.
/// </summary>
internal static class FaultChild
{
    public const string Verb = "fault";

    private const int FillerLength = 8 * 1024 * 1024;
    private const int Page = 4096;

    public static int Run(string[] arguments)
    {
        PlantedFaults.Active = Enum.Parse<PlantedFault>(arguments[0]);
        try
        {
            switch (arguments[1])
            {
                case "scan":
                    Scan(arguments[2], int.Parse(arguments[3], CultureInfo.InvariantCulture));
                    break;
                case "fill":
                    Fill(arguments[2]);
                    break;
                case "work":
                    Work(arguments[2], int.Parse(arguments[3], CultureInfo.InvariantCulture));
                    break;
                default:
                    Large(arguments[2]);
                    break;
            }

            return 0;
        }
        catch (Exception error)
        {
            Console.WriteLine(error);
            return LabChild.ExitViolation;
        }
    }

    /// <summary>
    /// A new store on a disk with so many free pages, for each number: it opens, or the disk is full; nobody dies.
    /// </summary>
    private static void Scan(string folder, int pagesMax)
    {
        string fillerPath = Path.Combine(folder, "filler");
        for (int pages = 0; pages <= pagesMax; pages++)
        {
            string storePath = Path.Combine(folder, "store");
            if (Directory.Exists(storePath))
                Directory.Delete(storePath, recursive: true);
            File.Delete(fillerPath);
            using FileStream filler = new(fillerPath, FileMode.Create);
            FillUp(filler);
            filler.SetLength(filler.Length - ((long)pages * Page));
            Console.WriteLine($"AT {pages} free pages");
            try
            {
                using MappedFileQueue queue = Open(storePath, 65536);
                queue.Producer.Produce("one"u8);
            }
            catch (QueueDiskException error) when (error.Errno == DiskErrors.ENOSPC)
            {
                continue;
            }
        }
    }

    private static void FillUp(FileStream filler)
    {
        byte[] zeros = new byte[Page];
        try
        {
            while (true)
            {
                filler.Write(zeros);
                filler.Flush();
            }
        }
        catch (IOException)
        {
            filler.SetLength(filler.Length & -Page);
        }
    }

    /// <summary>
    /// Two stores fill one disk; each append that returned can be read; once there is room it continues. There has to be room for
    /// what both prepare ahead, and they append in turn: else the first store's background thread sometimes took all of it.
    /// </summary>
    private static void Fill(string folder)
    {
        string fillerPath = Path.Combine(folder, "filler");
        using (FileStream filler = new(fillerPath, FileMode.Create))
            filler.Write(new byte[FillerLength]);
        string[] paths = [Path.Combine(folder, "first"), Path.Combine(folder, "second")];
        MappedFileQueue[] queues = [.. paths.Select(path => Open(path, 1024 * 1024))];
        int[] counts = new int[queues.Length];
        for (int full = 0, i = 0; full < queues.Length; i++)
        {
            int which = i % queues.Length;
            try
            {
                queues[which].Producer.Produce(LabMessage.Make(which, 1, counts[which], 3000));
                counts[which]++;
                full = 0;
            }
            catch (QueueDiskException error) when (error.Errno == DiskErrors.ENOSPC)
            {
                full++;
            }
        }

        Expect(queues, counts);
        File.Delete(fillerPath);
        for (int i = 0; i < 50; i++)
        {
            for (int which = 0; which < queues.Length; which++)
                queues[which].Producer.Produce(LabMessage.Make(which, 1, counts[which]++, 3000));
        }

        foreach (MappedFileQueue queue in queues)
            queue.Flush();

        Expect(queues, counts);
        foreach (MappedFileQueue queue in queues)
            queue.Dispose();
    }

    private static void Expect(MappedFileQueue[] queues, int[] counts)
    {
        for (int which = 0; which < queues.Length; which++)
        {
            using MappedFileReader reader = queues[which].OpenReader();
            for (int i = 0; i < counts[which]; i++)
            {
                if (!reader.TryRead(out ReadOnlySpan<byte> message)
                    || !message.SequenceEqual(LabMessage.Make(which, 1, i, 3000)))
                    throw new LabViolation($"On the full disk message {i} of {counts[which]} is not what was appended");
            }

            if (reader.TryRead(out _))
                throw new LabViolation("On the full disk there is a message that was not appended");
        }
    }

    /// <summary>
    /// Appends, flushes, reads. A system call may fail on the way: with an error number that is expected, a flush must throw and
    /// nothing be confirmed after it; with none (calls that are interrupted) everything must go well.
    /// </summary>
    private static void Work(string storePath, int expectedErrno)
    {
        using MappedFileQueue queue = Open(storePath, 65536);
        long confirmed = 0;
        try
        {
            for (int i = 0; i < 400; i++)
            {
                long offset = queue.Producer.Produce(LabMessage.Make(1, 1, i, 200));
                if (i % 10 == 9 && (confirmed = queue.Flush()) <= offset)
                    throw new LabViolation($"Flush confirms {confirmed}, a message before it lies at {offset}");
            }
        }
        catch (MappedFileQueueException error) when (expectedErrno != 0 && error is QueueDiskException or QueuePoisonedException)
        {
            if (error is QueueDiskException disk && disk.Errno != expectedErrno)
                throw;
            try
            {
                throw new LabViolation($"A flush after one that failed confirms {queue.Flush()}");
            }
            catch (QueuePoisonedException)
            {
                Console.WriteLine("FAILED as it must");
                return;
            }
        }

        if (expectedErrno != 0)
            throw new LabViolation("No flush failed");
        using MappedFileReader reader = queue.OpenReader();
        for (int i = 0; i < 400; i++)
        {
            if (!reader.TryRead(out ReadOnlySpan<byte> message) || !message.SequenceEqual(LabMessage.Make(1, 1, i, 200)))
                throw new LabViolation($"Message {i} is not what was appended");
        }
    }

    /// <summary>Segments above the limit of file sizes are refused with EFBIG, and smaller ones can be made.</summary>
    private static void Large(string storePath)
    {
        try
        {
            using MappedFileQueue queue = Open(storePath, 1L << 30);
            throw new LabViolation("A segment above the limit of file sizes was made");
        }
        catch (QueueDiskException error) when (error.Errno == DiskErrors.EFBIG)
        {
            Directory.Delete(storePath, recursive: true);
        }

        Work(storePath, 0);
    }

    private static MappedFileQueue Open(string path, long segmentSize) => new(new MappedFileQueueOptions
    {
        StorePath = path,
        SegmentSize = segmentSize,
    });
}
