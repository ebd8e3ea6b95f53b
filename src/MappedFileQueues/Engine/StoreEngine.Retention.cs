using MappedFileQueues.Format;
using MappedFileQueues.Log.Retention;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Engine;

/// <summary>The calls that remove what the policy no longer keeps.</summary>
internal sealed partial class StoreEngine
{
    /// <summary>Removes whole segments before an offset, as far as consumers allow it; returns the log start.</summary>
    public long Trim(long beforeOffset)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(beforeOffset);
        using CallGate.Call call = BeginCall();
        Store.ThrowIfReplaced();
        return Retention.Trim(beforeOffset);
    }

    /// <summary>The log start that <see cref="Trim"/> would leave.</summary>
    public long FindKept(long before)
    {
        using CallGate.Call call = BeginCall();
        return Retention.FindKept(before);
    }

    /// <summary>The start of the first segment that was written to at a time or later.</summary>
    public long FindWrittenSince(DateTimeOffset time)
    {
        using CallGate.Call call = BeginCall();
        return Retention.FindWrittenSince(time);
    }

    /// <summary>Makes a policy the store's, for every process.</summary>
    public void SetRetention(RetentionOptions policy)
    {
        ArgumentNullException.ThrowIfNull(policy);
        policy.ThrowIfInvalid();
        using CallGate.Call call = BeginCall();
        Store.ThrowIfReplaced();
        try
        {
            WriteRetention(policy);
        }
        catch (QueueDiskException error) when (DiskErrors.IsFull(error.Errno))
        {
            // The new policy may be the remedy: what it removes makes room for itself.
            Retention.MakeRoom(policy);
            WriteRetention(policy);
        }

        RetentionThread.Notice();
    }

    private void WriteRetention(RetentionOptions policy)
    {
        using (Store.TakeOpenLock())
            RetentionFile.Write(Store.Directory, Store.Meta.StoreId, policy);
    }

    /// <summary>Applies the store's policy now, for a program that does not have the store open for long.</summary>
    public void ApplyRetention()
    {
        using CallGate.Call call = BeginCall();
        Retention.Apply();
    }

    /// <summary>Sets the policy of the options before anything is removed, or begins with the one that the store has.</summary>
    private void BeginRetention(RetentionOptions? policy)
    {
        // Setting it is the remedy for a damaged one.
        if (policy is not null && policy != RetentionFile.TryRead(Store.Directory, Store.Meta.StoreId, out _))
        {
            SetRetention(policy);
            return;
        }

        // Whoever wrote it may have died before its name survived a power loss.
        if (policy is not null)
            Store.Directory.FlushEntries("");
        if (Store.Directory.Identify(StoreNames.Retention) is not null)
            RetentionThread.Notice();
    }
}
