using MappedFileQueues.Platform;

namespace MappedFileQueues.Testing;

/// <summary>A platform that forwards every call to another; a test overrides what it wants to see or to change.</summary>
internal abstract unsafe class ForwardingServices(OperatingSystemServices inner) : OperatingSystemServices
{
    public override bool IsPortable => inner.IsPortable;

    public override string? BootId => inner.BootId;

    public override ulong MemoryId => inner.MemoryId;

    public sealed override HeldDirectory? OpenDirectory(string path, bool create, UnixFileMode? mode, bool ownerOnly = true) =>
        inner.OpenDirectory(path, create, mode, ownerOnly) is { } directory ? Wrap(directory) : null;

    public override bool RegisterForBarrier() => inner.RegisterForBarrier();

    public override bool BarrierOtherProcesses() => inner.BarrierOtherProcesses();

    public override bool BarrierEverybody() => inner.BarrierEverybody();

    public override void WaitOnWord(uint* word, uint expected, TimeSpan timeout) => inner.WaitOnWord(word, expected, timeout);

    public override int WordsMax => inner.WordsMax;

    public override void WaitOnWords(ReadOnlySpan<WordWait> words, TimeSpan timeout) => inner.WaitOnWords(words, timeout);

    public override void WakeWord(uint* word, int countMax = int.MaxValue) => inner.WakeWord(word, countMax);

    public override long ProcessStartTime(int processId) => inner.ProcessStartTime(processId);

    protected abstract HeldDirectory Wrap(HeldDirectory directory);
}

/// <inheritdoc cref="ForwardingServices"/>
internal abstract class ForwardingDirectory(HeldDirectory inner) : HeldDirectory
{
    private HeldDirectory Inner => inner;

    public sealed override string Path => inner.Path;

    public sealed override string? UnsafeFileSystem => inner.UnsafeFileSystem;

    public override long FreeBytes => inner.FreeBytes;

    public sealed override bool IsStillInPlace => inner.IsStillInPlace;

    public sealed override FileOpening OpeningToSync => inner.OpeningToSync;

    public override PlatformFile? Open(string name, FileOpening opening) =>
        inner.Open(name, opening) is { } file ? Wrap(name, file) : null;

    public sealed override void AdoptModeOf(string name) => inner.AdoptModeOf(name);

    public sealed override void AdoptOwner() => inner.AdoptOwner();

    public override bool RenameWithoutReplacing(string from, string to) => inner.RenameWithoutReplacing(from, to);

    public override void Rename(string from, string to) => inner.Rename(from, to);

    public override bool TryLink(string name, HeldDirectory target, string targetName) =>
        inner.TryLink(name, target is ForwardingDirectory forwarding ? forwarding.Inner : target, targetName);

    public override bool Delete(string name) => inner.Delete(name);

    public sealed override bool CreateSubdirectory(string name) => inner.CreateSubdirectory(name);

    public sealed override void AvoidCopyOnWrite(string subdirectory) => inner.AvoidCopyOnWrite(subdirectory);

    public override IReadOnlyList<string> List(string subdirectory) => inner.List(subdirectory);

    public override void FlushEntries(string subdirectory) => inner.FlushEntries(subdirectory);

    public override void FlushFileSystem() => inner.FlushFileSystem();

    public override PlatformLock? TryLock(string name, LockKind kind, bool create = true) =>
        inner.TryLock(name, kind, create);

    public sealed override void KeepFromCleaners() => inner.KeepFromCleaners();

    public override RepeatedLock OpenRepeatedLock(string name) => inner.OpenRepeatedLock(name);

    public sealed override PlatformLock? Probe(string name, LockKind kind = LockKind.Shared) => inner.Probe(name, kind);

    public sealed override IReadOnlyList<int>[] LockHolders(params ReadOnlySpan<string> names) => inner.LockHolders(names);

    public override FileIdentity? Identify(string name) => inner.Identify(name);

    public sealed override void Dispose() => inner.Dispose();

    protected abstract PlatformFile Wrap(string name, PlatformFile file);
}

/// <inheritdoc cref="ForwardingServices"/>
internal abstract class ForwardingFile(PlatformFile inner) : PlatformFile
{
    private PlatformFile Inner => inner;

    public sealed override string Path => inner.Path;

    public sealed override void NoteName(string newPath) => inner.NoteName(newPath);

    public sealed override long Length => inner.Length;

    public sealed override long AllocatedLength => inner.AllocatedLength;

    public override DateTimeOffset? Birth => inner.Birth;

    public sealed override bool HasOtherNames => inner.HasOtherNames;

    public sealed override bool HasNoName => inner.HasNoName;

    public sealed override DateTimeOffset LastWritten => inner.LastWritten;

    public sealed override void NoteWritten() => inner.NoteWritten();

    public sealed override bool TryTakeAlone() => inner.TryTakeAlone();

    public override bool IsTakenAlone => inner.IsTakenAlone;

    public sealed override void EndAlone() => inner.EndAlone();

    public sealed override bool TryUse() => inner.TryUse();

    public sealed override bool TryTakeUnused() => inner.TryTakeUnused();

    public sealed override void EndUse() => inner.EndUse();

    public sealed override FileIdentity Identity => inner.Identity;

    public override void SetLength(long length) => inner.SetLength(length);

    public override bool TryAllocate(long offset, long length) => inner.TryAllocate(offset, length);

    public override void Allocate(long offset, long length) => inner.Allocate(offset, length);

    public override bool TryReserve(long offset, long length) => inner.TryReserve(offset, length);

    public sealed override bool TryZeroRange(long offset, long length) => inner.TryZeroRange(offset, length);

    public sealed override bool TryClone(PlatformFile source) =>
        inner.TryClone(source is ForwardingFile forwarding ? forwarding.Inner : source);

    public override int ReadAt(Span<byte> destination, long position) => inner.ReadAt(destination, position);

    public override void WriteAt(ReadOnlySpan<byte> source, long position) => inner.WriteAt(source, position);

    public override void StartWriteBack(long offset, long length) => inner.StartWriteBack(offset, length);

    public override void AwaitWriteBack(long offset, long length, Action? failed) => inner.AwaitWriteBack(offset, length, failed);

    public sealed override void AdviseWillNeed(long offset, long length) => inner.AdviseWillNeed(offset, length);

    public override void FlushData() => inner.FlushData();

    public sealed override MappedView Map(long length, bool writable) => inner.Map(length, writable);

    public sealed override void Dispose() => inner.Dispose();
}
