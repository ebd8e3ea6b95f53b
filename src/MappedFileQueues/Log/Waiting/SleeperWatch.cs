using System.Runtime.InteropServices;
using MappedFileQueues.Format;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Waiting;

/// <summary>
/// Watches the sleeping consumers of this process ten times a second, on one thread for all of them. An unwatched sleep must end
/// after 100 ms, because a producer may have died between its publish and its wake. But in a program that is otherwise idle, a
/// thread that wakes up to look costs 25 to 45 us of CPU (measured; a bare C loop costs the same). Three idle queues would use
/// more than a thousandth of a CPU for nothing, and thirty queues a hundredth.
/// <para>The thread starts with the first sleeper and rests, without a timer, while there is none. A sleeper's words stay mapped
/// until it has left the watch, and it leaves under the lock.</para>
/// </summary>
internal sealed unsafe class SleeperWatch
{
    /// <summary>How often the sleepers are checked.</summary>
    public static readonly TimeSpan Interval = TimeSpan.FromMilliseconds(100);

    private readonly Lock _lock = new();
    private readonly AutoResetEvent _entered = new(false);
    private readonly uint* _never = (uint*)NativeMemory.AllocZeroed(sizeof(uint));
    private Sleeper[] _sleepers = new Sleeper[16];
    private int _count;
    private bool _rests;
    private Thread? _thread;

    /// <summary>The instance of this process.</summary>
    public static SleeperWatch Instance { get; } = new();

    /// <summary>Sleeps on a sequence word under watch; returns when it was woken, or when the time is up.</summary>
    /// <param name="os">The platform of the word.</param>
    /// <param name="sleeper">What the sleeper waits for.</param>
    /// <param name="atMost">How long. If the system gives no thread for the watch, the sleep lasts at most
    /// <see cref="WakeSignal.SleepMax"/>.</param>
    public void Sleep(OperatingSystemServices os, in Sleeper sleeper, TimeSpan atMost)
    {
        if (!TryAdd(os, sleeper, out int place))
        {
            os.WaitOnWord((uint*)sleeper.SequenceWord, (uint)sleeper.Sequence, WakeSignal.SleepMax);
            return;
        }
        try
        {
            os.WaitOnWord((uint*)sleeper.SequenceWord, (uint)sleeper.Sequence, atMost);
        }
        finally
        {
            Remove(place);
        }
    }

    /// <summary>False when no thread can watch the sleeper.</summary>
    private bool TryAdd(OperatingSystemServices os, in Sleeper sleeper, out int place)
    {
        lock (_lock)
        {
            place = 0;
            if (!TryStart(os))
                return false;
            while (place < _count && _sleepers[place].IsThere)
                place++;
            if (place == _sleepers.Length)
                Array.Resize(ref _sleepers, 2 * place);
            _count = Math.Max(_count, place + 1);
            _sleepers[place] = sleeper;
            if (_rests)
            {
                _rests = false;
                _entered.Set();
            }

            return true;
        }
    }

    /// <summary>Call it under the lock, which the thread takes before it checks any sleeper.</summary>
    private bool TryStart(OperatingSystemServices os)
    {
        if (_thread is not null)
            return true;
        try
        {
            _thread = BackgroundThread.Start(() => Run(os), "watch");
            return true;
        }
        catch (MappedFileQueueException)
        {
            return false;
        }
    }

    private void Remove(int place)
    {
        lock (_lock)
        {
            _sleepers[place] = default;
            while (_count > 0 && !_sleepers[_count - 1].IsThere)
                _count--;
        }
    }

    private void Run(OperatingSystemServices os)
    {
        while (true)
        {
            // One system call; Thread.Sleep takes a lock and makes two.
            os.WaitOnWord(_never, 0, Interval);
            if (!LookAfterAll())
                _entered.WaitOne();
        }
    }

    /// <returns>False when there is no sleeper, so the thread may rest.</returns>
    private bool LookAfterAll()
    {
        lock (_lock)
        {
            foreach (ref readonly Sleeper sleeper in _sleepers.AsSpan(0, _count))
            {
                if (sleeper.IsThere && sleeper.HasReason)
                    sleeper.Signal!.Interrupt();
            }

            _rests = _count == 0;
            return !_rests;
        }
    }

    /// <summary>A waiter that sleeps, and the words that tell whether it still should.</summary>
    /// <param name="signal">The signal of its store.</param>
    /// <param name="sequence">The sequence's value on which it sleeps.</param>
    /// <param name="header">The free header at which it looked.</param>
    internal readonly struct Sleeper(WakeSignal signal, ulong sequence, ulong* header)
    {
        public WakeSignal? Signal { get; } = signal;

        public ulong Sequence { get; } = sequence;

        public ulong* SequenceWord => Signal!.SequenceWord;

        public bool IsThere => Signal is not null;

        /// <summary>Something was published, the waker died halfway, or a flush has failed.</summary>
        public bool HasReason =>
            // P10 acquire: a waker moved it and may be dead; pairs with P10 full in WakeSignal.
            SharedWord.ReadAcquire(SequenceWord) != Sequence
            // P1 acquire: a dead producer's message; pairs with P1 release in ExclusiveAppender and P3 full in SharedAppender.
            || SharedWord.ReadAcquire(header) != 0
            || Signal!.IsPoisoned;
    }
}
