using System.Collections.Concurrent;
using MappedFileQueues.Files.Names;
using MappedFileQueues.Files.Rolling;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Files.Appending;

/// <summary>
/// Deletes closed files by number and by age. One that cannot be deleted is reported and tried again. The thread that has the
/// stream's draining role uses it; other members say when another thread may.
/// </summary>
/// <param name="directory">The folder.</param>
/// <param name="rolled">The closed files in it.</param>
/// <param name="options">The user's options.</param>
/// <param name="deleting">Told of each closed file before it is deleted or reused.</param>
/// <param name="errors">Told of what cannot be done; null when nobody listens.</param>
internal sealed class RolledFileRetention(
    HeldDirectory directory, RolledFiles rolled, AppendFileOptions options, Action<string> deleting, Notices<Exception>? errors)
{
    /// <summary>
    /// Closed files that are to go, and could not be deleted yet. The thread that makes the next file adds to them, too.
    /// </summary>
    private readonly ConcurrentQueue<string> _overdue = [];

    /// <summary>Closed files whose age cannot be asked for.</summary>
    private readonly HashSet<string> _ageless = new(StringComparer.Ordinal);
    private long _expiryTicks = long.MaxValue;

    /// <summary>When the oldest closed file has been kept long enough, in ticks of UTC; may be read by any thread.</summary>
    public long ExpiryTicks => Volatile.Read(ref _expiryTicks);

    /// <summary>
    /// Deletes the closed files that have been kept long enough; true when there were any. Each has its own time: a clock that
    /// was ahead may have left one from the future before others.
    /// </summary>
    public bool DeleteExpired()
    {
        if (options.RetainedAge is not { } age)
            return false;
        RetryDeletions();
        long now = options.TimeProvider.GetUtcNow().UtcTicks;
        long next = long.MaxValue;
        bool isAny = false;
        foreach (string name in rolled.Names)
        {
            long expiry = ExpiryOf(name, age);
            if (expiry > now)
            {
                next = Math.Min(next, expiry);
                continue;
            }

            rolled.Remove(name);
            deleting(name);
            Delete(name);
            isAny = true;
        }

        Volatile.Write(ref _expiryTicks, next);
        return isAny;
    }

    /// <summary>One more file has to be deleted some day, or some are at once. The caller flushes the folder's entries.</summary>
    public void NoteExpiry(string? closed)
    {
        if (options.RetainedAge is not { } age)
            return;
        if (closed is not null)
            Volatile.Write(ref _expiryTicks, Math.Min(_expiryTicks, ExpiryOf(closed, age)));
        if (_expiryTicks <= options.TimeProvider.GetUtcNow().UtcTicks)
            _ = DeleteExpired();
    }

    /// <summary>
    /// Deletes the oldest files beyond those to keep. The last of them may be reused instead. The caller flushes the folder's
    /// entries.
    /// </summary>
    public void RetainNewest(int countMin, ref string? spare)
    {
        RetryDeletions();
        while (rolled.Count > countMin && rolled.Count > options.RetainedFileCount)
        {
            // The youngest of them waits for its reuse: a process that dies meanwhile leaves no gap between the closed files.
            string? oldest = rolled.TakeOldest();
            deleting(oldest);
            if (options.ReuseOldFiles)
                (oldest, spare) = (spare, oldest);
            if (oldest is not null)
                Delete(oldest);
        }
    }

    /// <summary>The file goes at the next occasion. Any thread.</summary>
    public void DeleteLater(string closed) => _overdue.Enqueue(closed);

    /// <summary>Reports a file that may not be deleted (another user's, in a folder with the sticky bit).</summary>
    public bool TryDelete(string name, bool reports = true)
    {
        try
        {
            _ = directory.Delete(name);
            return true;
        }
        catch (QueueDiskException error)
        {
            if (reports)
                errors?.Add(error);
            return false;
        }
    }

    private void Delete(string closed)
    {
        if (!TryDelete(closed))
            DeleteLater(closed);
    }

    private void RetryDeletions()
    {
        for (int count = _overdue.Count; count > 0 && _overdue.TryDequeue(out string? name); count--)
        {
            if (!TryDelete(name, reports: false))
                DeleteLater(name);
        }
    }

    /// <summary>
    /// When a closed file has been kept long enough; at once if it is gone, and never if that cannot be found out.
    /// </summary>
    private long ExpiryOf(string name, TimeSpan age)
    {
        try
        {
            using PlatformFile? file = directory.Open(name, FileOpening.Read);
            long last = file?.LastWritten.UtcTicks ?? 0;
            return age.Ticks < long.MaxValue - last ? last + age.Ticks : long.MaxValue;
        }
        catch (QueueDiskException error)
        {
            if (_ageless.Add(name))
                errors?.Add(error);
            return long.MaxValue;
        }
    }
}
