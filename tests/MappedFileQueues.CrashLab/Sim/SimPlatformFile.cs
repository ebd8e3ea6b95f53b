using MappedFileQueues.Platform;

namespace MappedFileQueues.CrashLab.Sim;

/// <summary>A descriptor of a simulated file.</summary>
internal sealed class SimPlatformFile : PlatformFile
{
    private readonly SimServices _os;
    private readonly SimFile _file;
    private readonly string _name;
    private int _reportedErrors;
    private bool _isClosed;
    private bool _isTaker;
    private int _viewCount;

    public SimPlatformFile(SimServices os, SimFile file, string name)
    {
        _os = os;
        _file = file;
        _name = name;
        _reportedErrors = file.ErrorCount;
        Interlocked.Increment(ref os.OpenCount);
    }

    public override string Path => $"{SimDisk.Root}/{_name}";

    public override long Length => _file.Length;

    public override long AllocatedLength => (long)_file.BlockCount * SimFile.Page;

    public override FileIdentity Identity => new(1, (ulong)_file.Id);

    /// <summary>Tells files apart, as their ids do; no id is given twice.</summary>
    public override DateTimeOffset? Birth => new DateTimeOffset(1 + (long)_file.Id, TimeSpan.Zero);

    public override DateTimeOffset LastWritten => default;

    private SimDisk Disk => _os.Disk;

    public override bool HasOtherNames => _file.Shared is not null;

    /// <summary>
    /// As on Linux, a mapping alone takes nothing: the mark decides, which lives as long as the open or its views.
    /// </summary>
    public override bool TryUse()
    {
        lock (Disk.Gate)
        {
            if (_os.IsDead || _file.Users.Any(other => other != this && other._isTaker))
                return _os.IsDead;
            Mark(isTaker: false);
            return true;
        }
    }

    public override bool TryTakeUnused()
    {
        lock (Disk.Gate)
        {
            if (_os.IsDead || _file.Users.Any(other => other != this))
                return false;
            Mark(isTaker: true);
            return true;
        }
    }

    public override void EndUse()
    {
        lock (Disk.Gate)
        {
            _file.Users.Remove(this);
            _os.Marked.Remove(this);
            _isTaker = false;
        }
    }

    public override bool TryTakeAlone()
    {
        lock (Disk.Gate)
        {
            if (_file.AloneBy is { } other && other != this && !other._os.IsDead)
                return false;
            _file.AloneBy = this;
            return true;
        }
    }

    public override void EndAlone()
    {
        lock (Disk.Gate)
            _file.AloneBy = _file.AloneBy == this ? null : _file.AloneBy;
    }

    public override void SetLength(long length)
    {
        lock (Disk.Gate)
            _file.SetLength((int)length);
        Disk.Point?.Invoke($"length of {_name}");
    }

    public override void Allocate(long offset, long length)
    {
        lock (Disk.Gate)
            TakeBlocks((int)offset, (int)length);
        Disk.Point?.Invoke($"allocated {_name}");
    }

    public override bool TryAllocate(long offset, long length)
    {
        Allocate(offset, length);
        return true;
    }

    public override int ReadAt(Span<byte> destination, long position)
    {
        lock (Disk.Gate)
        {
            int count = (int)Math.Clamp(_file.Length - position, 0, destination.Length);
            _file.Content.Slice(count == 0 ? 0 : (int)position, count).CopyTo(destination);
            Disk.BytesRead += count;
            return count;
        }
    }

    public override void WriteAt(ReadOnlySpan<byte> source, long position)
    {
        Disk.Point?.Invoke($"writing {_name}");
        lock (Disk.Gate)
        {
            if (Disk.Faults?.FailsWrite?.Invoke(_name) == true)
                throw Disk.Error($"Cannot write at {position}", _name, DiskErrors.EIO, "Input/output error");
            WriteWhatFits(source, (int)position);
        }

        Disk.Point?.Invoke($"wrote {_name}");
    }

    public override void FlushData()
    {
        Disk.Point?.Invoke($"flushing {_name}");
        lock (Disk.Gate)
        {
            if (Disk.Faults?.FailsSync?.Invoke(_name) == true)
                _file.FailWriteBack();
            else
                _file.Sync();
            if (_reportedErrors < _file.ErrorCount)
            {
                _reportedErrors = _file.ErrorCount;
                throw Disk.Error("Cannot flush the file to the disk", _name, DiskErrors.EIO, "Input/output error");
            }
        }

        Disk.Point?.Invoke($"flushed {_name}");
    }

    public override MappedView Map(long length, bool writable)
    {
        lock (Disk.Gate)
        {
            if (_file.Length < length)
                throw ZeroFill.TooShort(Path, _file.Length, length);
            return new SimView(this, length);
        }
    }

    public override void Dispose()
    {
        if (!_isClosed)
            Interlocked.Decrement(ref _os.OpenCount);
        _isClosed = true;
        EndAlone();
        EndUseIfUnmapped();
    }

    /// <summary>The process was killed.</summary>
    public void Forget()
    {
        EndUse();
        EndAlone();
    }

    private void Mark(bool isTaker)
    {
        _isTaker = isTaker;
        if (_file.Users.Contains(this))
            return;
        _file.Users.Add(this);
        _os.Marked.Add(this);
    }

    private void EndUseIfUnmapped()
    {
        if (_isClosed && _viewCount == 0)
            EndUse();
    }

    /// <summary>A disk that fills in the middle of a write takes the first part: a short write, then ENOSPC.</summary>
    private void WriteWhatFits(ReadOnlySpan<byte> source, int position)
    {
        while (source.Length > 0)
        {
            int count = Math.Min(source.Length, SimFile.Page - (position % SimFile.Page));
            TakeBlocks(position, count);
            _file.Write(source[..count], position);
            source = source[count..];
            position += count;
        }
    }

    private void TakeBlocks(int position, int length)
    {
        if (length == 0)
            return;
        int[] missing =
        [
            .. Enumerable.Range(position / SimFile.Page, ((position + length - 1) / SimFile.Page) - (position / SimFile.Page) + 1)
                .Where(page => !_file.HasBlock(page)),
        ];
        if (Disk.Faults is { } faults && faults.BlocksLeft != int.MaxValue)
        {
            if (faults.BlocksLeft < missing.Length)
                throw Disk.Error("Cannot allocate", _name, DiskErrors.ENOSPC, "No space left on device");
            faults.BlocksLeft -= missing.Length;
        }

        foreach (int page in missing)
            _file.AddBlock(page);
    }

    private sealed unsafe class SimView : MappedView
    {
        private readonly SimPlatformFile _open;
        private readonly SimFile _mapped;
        private bool _isGone;

        public SimView(SimPlatformFile open, long length)
        {
            _open = open;
            _mapped = open._file;
            Length = length;
            _mapped.MapCount++;
            open._viewCount++;
            Interlocked.Increment(ref open._os.OpenCount);
        }

        public override byte* Pointer => _mapped.Pointer;

        public override long Length { get; }

        public override void Touch(long position, long length)
        {
        }

        public override bool TellsWhatIsThere => true;

        public override bool TryTouchForReading(long position, long length) => position + length <= Length;

        public override bool TryTouchForWriting(long position, long length) => position + length <= Length;

        public override long CachedTo(long position, long end) => Math.Min(end, Length);

        public override void Dispose()
        {
            lock (_open.Disk.Gate)
            {
                if (_isGone)
                    return;
                _isGone = true;
                _mapped.MapCount--;
                _open._viewCount--;
                _open.EndUseIfUnmapped();
            }

            Interlocked.Decrement(ref _open._os.OpenCount);
        }
    }
}
