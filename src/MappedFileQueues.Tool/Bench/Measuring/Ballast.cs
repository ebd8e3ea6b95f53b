namespace MappedFileQueues.Tool.Bench.Measuring;

/// <summary>
/// Memory that the host of a virtual machine took back is slow on its first touch, ten times as slow as any later one, and that
/// is nobody's: a file that was written and deleted just before leaves memory behind which the next file gets. The host
/// takes it again within seconds, so this comes before each measurement, not once.
/// </summary>
internal static class Ballast
{
    /// <summary>Writes and deletes a file of a quarter more than <paramref name="length"/> bytes.</summary>
    public static void Take(string path, long length)
    {
        byte[] block = new byte[1 << 20];
        using (FileStream ballast = new(path, FileMode.Create, FileAccess.Write, FileShare.None, bufferSize: 0))
        {
            for (long left = length * 5 / 4; left > 0; left -= block.Length)
                ballast.Write(block);
        }

        File.Delete(path);
    }
}
