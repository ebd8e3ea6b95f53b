namespace MappedFileQueues.Platform;

/// <summary>
/// A shared kernel lock on the meta page of a queue or a pack. Every process that writes holds it for life, beside its locks on
/// lock files.
/// <para>A lock file looks like litter: a cleaner of temporary files, or a person, may remove one that is held. The next process
/// makes the file anew, and holds a second lock of the same name. Nobody takes the meta page for litter, and without it there is
/// no store that a rival could open. So whoever believes to be alone has to get this lock exclusively as well.</para>
/// <para>Exclusively for a moment only: .NET takes a shared lock for every file that it opens, so a reader that has the portable
/// implementation could not read the page meanwhile. For the same reason such a reader, or a process that is just being killed,
/// may be in the way for a moment. On Windows a held file cannot be removed, so nothing is taken there.</para>
/// </summary>
internal static class MetaLock
{
    /// <summary>How long somebody may be in the way who does not stay.</summary>
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);

    /// <summary>Takes the lock, shared.</summary>
    /// <param name="directory">The queue or the pack.</param>
    /// <param name="meta">Its meta page.</param>
    /// <param name="isAlone">The caller's lock files say that nobody else is there; refuse if that is not true.</param>
    /// <returns>The lock; null on Windows.</returns>
    public static PlatformLock? Take(HeldDirectory directory, string meta, bool isAlone)
    {
        if (OperatingSystem.IsWindows())
            return null;
        var pause = new LockWait.Pause(s_patience);
        while (true)
        {
            if (directory.TryLock(meta, isAlone ? LockKind.Exclusive : LockKind.Shared, create: false) is { } taken)
            {
                if (isAlone)
                    taken.Downgrade();
                return taken;
            }

            if (directory.Identify(meta) is null)
                throw new QueueDeletedException(
                    $"The store was deleted while it was being opened: path={directory.Path}. Open it again.");
            if (pause.IsOver)
                throw CannotJoin(directory, meta);
            pause.Sleep();
        }
    }

    /// <summary>The error for a process that cannot join those whose lock files are gone.</summary>
    public static QueueInUseException CannotJoin(HeldDirectory directory, string meta) => directory.InUse(
        meta, "Lock files were removed while other processes have the store open, so no process can join them; or another "
            + $"program keeps {meta} locked",
        "Close it in every process, then open it again.");

    /// <summary>The error for a queue under which lock files were removed; it keeps what it holds.</summary>
    public static QueueDeletedException LocksRemoved(HeldDirectory directory) => new(
        $"Lock files were removed while the store was open: path={directory.Path}. Nothing is lost: close every queue on the "
        + "store, in all processes, then open it again.");
}
