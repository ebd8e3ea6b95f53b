using System.Diagnostics;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Platform.Choice;
using MappedFileQueues.Segments;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Inspection;

/// <summary>
/// The asynchronous waits of a reader that may write the control page: it raises the waiters' flag there as a consumer does, and
/// writes nothing else. The caller makes the waiter's steps 1 to 4 of <see cref="WakeSignal"/> itself, because only its thread
/// may use the reader; <see cref="WaitThread"/> then waits until the sequence moves.
/// <para>An opener that is alone rewrites the page under such a reader, which is not attached. That may take the flag away; the
/// wait ends after 100 ms at most, and the next one raises it again. A flag that was raised too late costs one wake.</para>
/// </summary>
internal sealed unsafe class ReaderWait : SignalWaits, IDisposable
{
    private readonly ControlPage _control;
    private readonly Completion _completion = new();
    private CancellationTokenRegistration _registration;
    private CancellationToken _token;
    private ulong _seen;
    private long _endsAt;
    private bool _isPending;
    private bool _disposed;

    private ReaderWait(OperatingSystemServices os, ControlPage control)
        : base(os, new WakeSignal(os, control)) => _control = control;

    /// <summary>Null where the page cannot be written, and where no process is woken: the reader polls there.</summary>
    public static ReaderWait? TryOpen(HeldDirectory directory)
    {
        OperatingSystemServices os = CurrentPlatform.Services;
        if (os.IsPortable)
            return null;
        try
        {
            return ControlPage.OpenForReading(directory, writable: true) is { } control ? new ReaderWait(os, control) : null;
        }
        catch (QueueDiskException)
        {
            // A read-only file system, or no right to write.
            return null;
        }
    }

    /// <summary>The waiter's steps 1 to 3. The caller looks again, then waits for what this gave.</summary>
    /// <param name="sequence">The sequence, for <see cref="WaitAsync"/>.</param>
    /// <returns>The longest time that the wait may last.</returns>
    public TimeSpan Prepare(out ulong sequence)
    {
        lock (Waits)
        {
            PublicNames.ThrowIfDisposed(_disposed, PublicNames.Reader);
            TimeSpan sleep = Signal.Prepare(out sequence);
            return sleep < WakeSignal.UnwokenSleepMax ? sleep : WakeSignal.UnwokenSleepMax;
        }
    }

    /// <summary>Completes with true once the sequence has moved, with false when the time is up.</summary>
    public ValueTask<bool> WaitAsync(ulong sequence, TimeSpan atMost, CancellationToken cancellationToken)
    {
        lock (Waits)
        {
            PublicNames.ThrowIfDisposed(_disposed, PublicNames.Reader);
            if (!_completion.IsFree)
                throw new InvalidOperationException(
                    "An asynchronous call of this reader is already waiting. Only one caller at a time may use a reader.");
            BeginWaiting();
            _completion.IsFree = false;
            _isPending = true;
            _seen = sequence;
            _endsAt = Stopwatch.GetTimestamp() + (long)(atMost.TotalSeconds * Stopwatch.Frequency);
            _token = cancellationToken;
            ValueTask<bool> task = _completion.Task;
            _registration = cancellationToken.UnsafeRegister(static (state, token) => ((ReaderWait)state!).Cancel(token), this);
            NoticeWait();
            return task;
        }
    }

    public void Dispose()
    {
        lock (Waits)
        {
            if (_disposed)
                return;
            _disposed = true;
            if (_isPending)
                End(false, new ObjectDisposedException(PublicNames.Reader));
            EndWaiting();
            // Under the lock: the thread looks at the words under it.
            _control.Dispose();
        }
    }

    /// <inheritdoc/>
    protected override TimeSpan? LookAtAll(TimeSpan sleepMax)
    {
        if (!_isPending)
            return null;
        long now = Stopwatch.GetTimestamp();
        // P10 acquire: a waker moved it; pairs with P10 full in WakeSignal.Wake.
        bool hasMoved = SharedWord.ReadAcquire(Signal.SequenceWord) != _seen;
        if (hasMoved || now >= _endsAt)
        {
            End(hasMoved);
            return null;
        }

        TimeSpan left = Stopwatch.GetElapsedTime(now, _endsAt);
        return left < sleepMax ? left : sleepMax;
    }

    private void End(bool hasMoved, Exception? error = null)
    {
        _isPending = false;
        // A callback that is under way waits for the lock and finds that this wait is over.
        _registration.Unregister();
        _registration = default;
        _completion.End(hasMoved, error);
    }

    /// <summary>A callback that comes late meets the next wait: that one is over too if it has the same token.</summary>
    private void Cancel(CancellationToken cancellationToken)
    {
        lock (Waits)
        {
            if (_isPending && _token == cancellationToken)
                End(false, new OperationCanceledException(cancellationToken));
        }
    }

    /// <summary>The class itself cannot be one: it is a <see cref="SignalWaits"/>.</summary>
    private sealed class Completion : ReusedCompletion<bool>
    {
        private volatile bool _isFree = true;

        public bool IsFree
        {
            get => _isFree;
            set => _isFree = value;
        }

        public void End(bool hasMoved, Exception? error) => CompleteOnPool(hasMoved, error);

        protected override void Free() => _isFree = true;
    }
}
