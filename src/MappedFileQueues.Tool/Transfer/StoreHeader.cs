namespace MappedFileQueues.Tool.Transfer;

/// <summary>
/// What an export says about its store, so that an import can make one that holds the same: the version of the form, the store,
/// the size (0 for messages of any length) and fingerprint of its structs, and the length of its segments.
/// </summary>
internal sealed record StoreHeader(int Export, Guid StoreId, int StructSize, ulong Layout, long SegmentSize)
{
    public const int Version = 1;

    /// <summary>That of a store.</summary>
    public static StoreHeader Of(StoreMeta meta) => meta.Kind == StoreKind.Struct
        ? new(Version, meta.StoreId, meta.StructSize, meta.LayoutFingerprint, meta.SegmentLength)
        : new(Version, meta.StoreId, 0, 0, meta.SegmentLength);
}

/// <summary>The end of an export, with the number of messages before it: without it, a part is missing.</summary>
internal sealed record StoreTrailer(long End);

/// <summary>The result of `mfq export`, `mfq import` and `mfq replay`.</summary>
internal sealed record TransferResult(long Messages, long Bytes, bool IsComplete)
{
    /// <summary>Writes what was done, such as "Imported"; returns the exit code.</summary>
    public int Write(ParseResult parsed, string done, Interruption interruption) => Result.Write(
        parsed, this, ToolJson.Lines.TransferResult,
        $"{(IsComplete ? "" : "Interrupted. ")}{done} {Report.Count(Messages, "message")}, {Report.Bytes(Bytes)}.",
        IsComplete ? ExitCodes.Success : interruption.ExitCode);
}
