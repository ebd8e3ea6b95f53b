using System.Text;
using MappedFileQueues.Format;

namespace MappedFileQueues.Tests.Log.Opening;

/// <summary>
/// A plain copy of a store in use. The segments were copied first; before the record of the log's start was, the store had
/// removed all of them. Opening the copy believed the record, deleted every message in it, and said nothing.
/// </summary>
public sealed class TornCopyTests : IDisposable
{
    private const int SegmentLength = 4096;

    private readonly TempStore _temp = new();

    private string Copy => _temp.StorePath + ".copy";

    public void Dispose()
    {
        _temp.Dispose();
        if (Directory.Exists(Copy))
            Directory.Delete(Copy, recursive: true);
    }

    /// <summary>The segment at the log's start is missing in the copy, or was copied while it was still empty.</summary>
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Open_RecordOfTheLogStartIsYoungerThanTheSegments_SetsTheMessagesAside(bool isEmptySegmentThere)
    {
        int count = 0;
        int copied;
        using (MappedFileQueue live = Open(_temp.StorePath))
        {
            long start = 0;
            while (start < 3 * SegmentLength)
                start = SegmentOf(Produce(live, count++));
            for (long at = 0; at <= start; at += SegmentLength)
                CopyFile(_temp.StorePath, StoreNames.Segment(at));
            copied = count;
            while (SegmentOf(Produce(live, count)) <= start)
                count++;
            long next = start + SegmentLength;
            if (isEmptySegmentThere)
                File.WriteAllBytes(Path.Combine(Copy, StoreNames.Segment(next)), new byte[SegmentLength]);
            Assert.Equal(next, live.Trim(next));
            foreach (string file in Directory.EnumerateFiles(_temp.StorePath, "*", SearchOption.AllDirectories))
            {
                string name = Path.GetRelativePath(_temp.StorePath, file);
                // The runtime refuses to read locked files; a copy does not need them.
                if (name.Split('/')[0] is not ("commitlog" or "locks"))
                    CopyFile(_temp.StorePath, name);
            }
        }

        Open(Copy).Dispose();

        string salvaged = string.Concat(
            Directory.EnumerateFiles(Path.Combine(Copy, "salvage")).Order(StringComparer.Ordinal)
                .Select(file => Encoding.Latin1.GetString(File.ReadAllBytes(file))));
        for (int i = 0; i < copied; i++)
            Assert.Contains(Text(i), salvaged, StringComparison.Ordinal);
    }

    private static string Text(int number) => $"<message {number} of the copy>";

    private static long SegmentOf(long offset) => offset - (offset % SegmentLength);

    private static long Produce(MappedFileQueue queue, int number) =>
        queue.Producer.Produce(Encoding.Latin1.GetBytes(Text(number).PadRight(400)));

    private static MappedFileQueue Open(string path) => new(new MappedFileQueueOptions
    {
        StorePath = path,
        SegmentSize = SegmentLength,
        Durability = DurabilityLevel.PageCache,
    });

    private void CopyFile(string from, string name)
    {
        string target = Path.Combine(Copy, name);
        Directory.CreateDirectory(Path.GetDirectoryName(target)!);
        File.Copy(Path.Combine(from, name), target);
    }
}
