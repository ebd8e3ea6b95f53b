using MappedFileQueues.Format;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.StoreFiles;

/// <summary>
/// `retention`: how much of its past the store keeps. Replaced as a whole. A store without the file keeps everything.
/// </summary>
internal static class RetentionFile
{
    /// <summary>The store's policy; null when it has none.</summary>
    /// <exception cref="QueueFormatException">The file is damaged, or of a later version.</exception>
    public static RetentionOptions? Read(HeldDirectory directory, Guid storeId)
    {
        using PlatformFile? file = directory.Open(StoreNames.Retention, FileOpening.Read);
        if (file is null)
            return null;
        Span<byte> bytes = stackalloc byte[RetentionRecord.Length + 1];
        int read = file.ReadAt(bytes, 0);
        return RetentionRecord.Parse(bytes[..read], storeId) ?? throw new QueueFormatException(
            $"The retention policy is damaged or of a later version, so nothing is deleted: file={file.Path}. Set it again.");
    }

    /// <summary>The store's policy; null also where it is damaged.</summary>
    public static RetentionOptions? TryRead(HeldDirectory directory, Guid storeId, out bool isDamaged)
    {
        isDamaged = false;
        try
        {
            return Read(directory, storeId);
        }
        catch (QueueFormatException)
        {
            isDamaged = true;
            return null;
        }
    }

    /// <summary>Makes a policy the store's. Survives a power loss when it returns.</summary>
    public static void Write(HeldDirectory directory, Guid storeId, RetentionOptions policy) => WholeFile.Replace(
        directory, StoreNames.Retention, file => file.WriteAt(RetentionRecord.ToBytes(policy, storeId), 0));
}
