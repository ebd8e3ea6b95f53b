using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Opening;

/// <summary>
/// Gives the content of the page cache a second chance after a failed sync. The kernel marks pages that it failed to write as
/// clean: they read as before, and another sync succeeds while the disk has nothing. Storing the same bytes again does not help
/// on blocks that were allocated and never written. So each segment from the checkpoint's on is copied into a new file, synced,
/// and renamed over the old one before the search for the tail: the search then finds what the disk has. The poison stays until
/// the end of the recovery, so after a crash in between the next opener does it all again.
/// </summary>
internal sealed class SegmentRewrite(HeldDirectory directory, StoreMeta meta)
{
    /// <summary>Named "open", so that the next opener removes the file of a dead one.</summary>
    private const string Suffix = ".open-rewrite" + WholeFile.TemporarySuffix;

    public void Apply(IEnumerable<long> segments)
    {
        foreach (long start in segments)
        {
            string name = StoreNames.Segment(start);
            using (PlatformFile file = directory.Open(name, FileOpening.Read)!)
                WholeFile.Write(directory, name, copy => Copy(file, copy), Suffix);
            directory.Rename(name + Suffix, name);
            ProtocolSteps.Reach(ProtocolStep.SegmentRewritten);
        }

        directory.FlushEntries(StoreNames.CommitLog);
    }

    private void Copy(PlatformFile file, PlatformFile copy)
    {
        long length = Math.Min(file.Length, meta.SegmentLength);
        copy.SetLength(length);
        // As many blocks as before: recovery relies on the blocks up to the tail, even where they hold zeros.
        copy.Allocate(0, Math.Min(length, (file.AllocatedLength + 4095) & ~4095L));
        file.CopyNonZero(copy, 0, length);
    }
}
