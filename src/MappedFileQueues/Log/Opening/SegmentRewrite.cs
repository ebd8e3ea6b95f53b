using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Opening;

/// <summary>
/// After a failed sync: gives what the page cache holds a second chance. The kernel marks pages that it failed to write as clean;
/// they read as ever, and another sync of them succeeds while the disk has nothing. Storing the same bytes there once more does
/// not help on blocks that were allocated and never written. So each segment from the checkpoint's on is copied into a new file,
/// synced, and renamed over the old one, before anybody looks for the tail: what the search then finds is what the disk has.
/// Until the recovery's end the poison stays, so a crash in between makes the next opener do it all again.
/// </summary>
internal sealed class SegmentRewrite(HeldDirectory directory, StoreMeta meta)
{
    /// <summary>Named "open", so that the next opener removes what a dead one left.</summary>
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
        // As many blocks as there were: recovery takes those up to the tail for granted, also where they hold zeros.
        copy.Allocate(0, Math.Min(length, (file.AllocatedLength + 4095) & ~4095L));
        file.CopyNonZero(copy, 0, length);
    }
}
