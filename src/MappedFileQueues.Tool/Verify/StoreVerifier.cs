using MappedFileQueues.Log.Frames;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Segments;

namespace MappedFileQueues.Tool.Verify;

/// <summary>
/// Reads every frame of a store, and its other files, beside the processes that use it, and leaves no trace. A header that looks
/// damaged is read again before it is reported: a producer may have written it meanwhile, retention may have removed the segment,
/// a recovery may have cut the log. The check ends with the last segment that existed when it began, so that it never chases a
/// fast producer.
/// </summary>
internal sealed class StoreVerifier : IDisposable
{
    /// <summary>How many bytes are read between two looks for a signal.</summary>
    private const long ProgressStep = 4 << 20;

    private readonly ReadOnlyStore _store;
    private readonly StoreVerification _result;
    private readonly CursorPlaces _cursors;
    private readonly Action<long, long>? _progress;
    private readonly CancellationToken _stopped;
    private readonly SegmentStarts _segments;
    private readonly long _total;
    private long _nextProgress;
    private long _batchStart = -1;
    private long _firstClaim = long.MaxValue;

    /// <summary>Opens the store; the progress is the bytes that are done, and all bytes.</summary>
    public StoreVerifier(string storePath, Action<long, long>? progress, CancellationToken stopped)
    {
        (_progress, _stopped) = (progress, stopped);
        _store = ReadOnlyStore.Open(SystemPath.Full(storePath), verifiesChecksum: true);
        _result = new StoreVerification { StorePath = _store.Path, StoreId = _store.Meta.StoreId };
        _cursors = new CursorPlaces(_store);
        _segments = LogStartSearch.List(_store.Directory, _store.Meta);
        _result.FirstOffset = _store.LogStart;
        _total = Math.Max(_store.PassedTo, _segments.Count == 0 ? 0 : _segments.Max) - _result.FirstOffset;
    }

    private long SegmentLength => _store.Meta.SegmentLength;

    /// <summary>Checks everything. To be called once.</summary>
    public StoreVerification Verify()
    {
        long offset = _result.FirstOffset;
        while (CheckSegment(ref offset))
        {
        }

        _result.EndOffset = offset;
        _result.SafeOffset = Math.Min(Math.Min(offset, _firstClaim), _batchStart < 0 ? offset : _batchStart);
        if (_batchStart >= 0 && _result.UnrecoveredFrom is null)
            Add(new DamagedRange(_batchStart, offset, FileOf(_batchStart), "batch", "A batch has no end."));
        _result.Findings.AddRange(new FileChecks(_store, _result).Run(_cursors));
        return _result;
    }

    /// <summary>Closes the store.</summary>
    public void Dispose() => _store.Dispose();

    /// <summary>
    /// Checks the rest of the segment at an offset, and moves the offset on; false at the end of what can be checked.
    /// </summary>
    private bool CheckSegment(ref long offset)
    {
        long start = _store.Window.StartOf(offset);
        SegmentMapping? segment = _store.Window.TryAcquire(start);
        if (segment is null)
            return TryContinueAfter(ref offset, null, null);
        try
        {
            if (IsAfterAll(start))
                return false;
            _result.SegmentCount++;
            var scanner = new SegmentScanner(segment.File, start, SegmentLength, _store.Checksum);
            while (_store.Window.StartOf(offset) == start)
            {
                Report(offset);
                if (Judge(scanner, segment, offset - start, out ulong header) is not null)
                {
                    if (!TryContinueAfter(ref offset, segment, scanner))
                        return false;
                    continue;
                }

                Count(header, offset);
                offset += LengthOf(header);
            }

            return true;
        }
        finally
        {
            _store.Window.Release(segment);
        }
    }

    /// <summary>The segment was made after the check began.</summary>
    private bool IsAfterAll(long start) => _segments.Count == 0 || start > _segments.Max;

    /// <summary>What is wrong with the frame at a position; null for a whole one. Free places are wrong too.</summary>
    private Fault? Judge(SegmentScanner scanner, SegmentMapping segment, long position, out ulong header)
    {
        header = 0;
        long offset = scanner.Start + position;
        try
        {
            if (!scanner.Reaches(position + FrameHeader.Size))
                return new Fault("short", "The file is too short.");
            header = scanner.HeaderAt(position);
            if (header == 0)
                return new Fault("zeros", "The header is zero, and the log continues after it.", IsFree: true);
            if (!FrameHeader.IsPlausible(header, SegmentLength - position))
                return new Fault("header", "No frame begins with this header.");
            FrameState state = FrameHeader.State(header);
            int length = FrameHeader.Length(header);
            if (!scanner.Reaches(position + LengthOf(header)))
                return new Fault("short", "The file ends inside the frame.");
            if (state == FrameState.Claimed)
                return JudgeClaim(segment, header, position);
            int block = 0;
            bool hasBlock = FrameHeader.IsExtended(header);
            bool isBlock = true;
            if (hasBlock)
            {
                isBlock = scanner.TryReadHeaders(header, position, out MessageHeadersView headers);
                block = headers.Block.Length;
            }

            if (isBlock && FrameHeader.IsMessage(state) && _store.FixedLength >= 0 && length - block != _store.FixedLength)
                return new Fault("length", $"A message of {length - block} bytes among structs of {_store.FixedLength}.");
            return !scanner.IsWhole(header, position) ? new Fault("checksum", "The checksum does not fit.")
                : isBlock ? null
                : new Fault("block", "Its headers do not fit into it.");
        }
        catch (QueueDiskException error)
        {
            return new Fault("unreadable", $"The disk cannot give it: errno={error.Errno}, offset={offset}.");
        }
    }

    private unsafe Fault? JudgeClaim(SegmentMapping segment, ulong header, long position)
    {
        if (position + FrameHeader.Size > segment.Usable)
            return new Fault("short", "The file is too short.");
        long offset = segment.Start + position;
        // The machine was started since: its owner is dead, and the next opener ends the log here.
        return !_store.IsOfThisBoot || _store.IsDamage(segment.HeaderAt(position), header, offset)
            ? new Fault("claim", "It looks like a claim that no producer made.")
            : null;
    }

    /// <summary>
    /// Something other than a frame is at the offset: finds out what, notes it, and continues after it; false where nothing
    /// continues.
    /// </summary>
    private bool TryContinueAfter(ref long offset, SegmentMapping? segment, SegmentScanner? scanner)
    {
        // First: what was there before the tail continued is looked at again afterwards.
        long passed = _store.PassedTo;
        Fault? fault = null;
        if (segment is not null)
        {
            fault = Judge(Renew(scanner!), segment, offset - segment.Start, out _);
            if (fault is null)
                return true;
        }

        if (_store.WasCut)
            throw new ToolException($"The store was recovered meanwhile: path={_store.Path}. Run the command again.");
        long logStart = _store.LogStart;
        if (offset < logStart)
        {
            _batchStart = -1;
            offset = logStart;
            return true;
        }

        if (!_store.IsOfThisBoot && offset >= passed)
        {
            _result.UnrecoveredFrom = _batchStart >= 0 ? _batchStart : offset;
            return false;
        }

        long next = FindWayOn(offset, segment, scanner, passed);
        if (offset >= passed && next < 0 && (segment is null || fault!.IsFree))
            return false;
        // A producer may have appended there, or made the file, since the first look.
        if (segment is null ? IsThere(offset) : Judge(Renew(scanner!), segment, offset - segment.Start, out _) is null)
            return segment is not null || !IsAfterAll(_store.Window.StartOf(offset));
        fault ??= new Fault("missing", "The segment's file is missing.");
        Add(new DamagedRange(offset, next < 0 ? null : next, FileOf(offset), fault.Kind, fault.Reason));
        if (next < 0)
            return false;
        _batchStart = -1;
        _cursors.PassDamage(next);
        offset = next;
        return true;
    }

    private bool IsThere(long offset) => _store.Directory.Identify(FileOf(offset)) is not null;

    private static SegmentScanner Renew(SegmentScanner scanner)
    {
        scanner.Invalidate();
        return scanner;
    }

    private long FindWayOn(long offset, SegmentMapping? segment, SegmentScanner? scanner, long passed)
    {
        try
        {
            return new DamageSkipper(_store, CorruptionPolicy.SkipMessage, null).FindWayOn(offset, segment, long.MaxValue);
        }
        catch (QueueDiskException)
        {
            return FindLanding(offset, scanner, passed);
        }
    }

    /// <summary>Where the disk cannot be searched: after this frame if a whole one follows, or the next segment.</summary>
    private long FindLanding(long offset, SegmentScanner? scanner, long passed)
    {
        long next = _store.Window.StartOf(offset) + SegmentLength;
        try
        {
            if (scanner is not null && scanner.TryReadHeader(offset - scanner.Start, out ulong header))
            {
                long landing = offset - scanner.Start + FrameHeader.FrameLength(FrameHeader.Length(header));
                if (scanner.TryReadHeader(landing, out ulong after) && FrameHeader.State(after) != FrameState.Claimed
                    && scanner.IsWhole(after, landing))
                    return scanner.Start + landing;
            }
        }
        catch (QueueDiskException)
        {
            // That place cannot be read either.
        }

        return next <= passed ? next : -1;
    }

    /// <summary>Notes damage; two stretches that touch, of the same kind, are one.</summary>
    private void Add(DamagedRange damage)
    {
        if (_result.Damages is [.., { } last] && last.NextOffset == damage.Offset && last.Kind == damage.Kind
            && damage.Kind == "missing")
        {
            _result.Damages[^1] = last with { NextOffset = damage.NextOffset };
            return;
        }

        _result.Damages.Add(damage);
    }

    private static long LengthOf(ulong header) => FrameHeader.FrameLength(FrameHeader.Length(header));

    private void Count(ulong header, long offset)
    {
        FrameState state = FrameHeader.State(header);
        _cursors.Pass(offset);
        if (state == FrameState.Claimed)
            _firstClaim = Math.Min(_firstClaim, offset);
        if (FrameHeader.IsMessage(state))
        {
            _result.MessageCount++;
            _result.MessageBytes += FrameHeader.Length(header);
        }
        else if (state == FrameState.Padding)
            _result.PaddingCount++;
        else if (_store.OwnerOf(header) == ClaimOwner.Living)
            _result.OpenClaimCount++;
        else
            _result.DeadClaimCount++;

        if (state != FrameState.PublishedInBatch)
            _batchStart = -1;
        else if (_batchStart < 0)
            _batchStart = offset;
    }

    private void Report(long offset)
    {
        long done = offset - _result.FirstOffset;
        if (done < _nextProgress)
            return;
        _nextProgress = done + ProgressStep;
        _stopped.ThrowIfCancellationRequested();
        _progress?.Invoke(done, _total);
    }

    private string FileOf(long offset) => StoreNames.Segment(_store.Window.StartOf(offset));

    /// <summary>Why a place is no frame. A free one is the end of the log, unless the log continues.</summary>
    private sealed record Fault(string Kind, string Reason, bool IsFree = false);
}
