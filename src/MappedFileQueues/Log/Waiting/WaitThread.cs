using System.Diagnostics;
using System.Runtime.InteropServices;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Waiting;

/// <summary>
/// A thread that waits on the signals of many queues. A round: raise the flags (steps 1 and 2 of the waiter), send producers a
/// barrier once for all of them (3), look (4), then sleep on all sequences and on a word of its own, by which others interrupt
/// it (5). Continuations never run on it.
/// <para>A queue's words stay mapped while the thread looks, because it looks under the queue's lock. They may be unmapped while
/// it sleeps: only the kernel reads them then, and whoever unmaps interrupts the thread first.</para>
/// </summary>
internal sealed unsafe class WaitThread(OperatingSystemServices os)
{
    /// <summary>A thread without waits stays for the next one so long. A start costs more than a wake.</summary>
    private static readonly TimeSpan RestMax = TimeSpan.FromSeconds(5);

    /// <summary>One word is its own, where it can sleep on several.</summary>
    private readonly int _waitsMax = Math.Max(1, os.WordsMax - 1);

    private readonly Lock _lock = new();
    private readonly List<SignalWaits> _waits = [];
    private readonly List<SignalWaits> _round = [];
    private readonly List<WordWait> _words = [];
    private readonly ulong* _interrupts = (ulong*)NativeMemory.AllocZeroed(sizeof(ulong));
    private int _sleeps;

    public OperatingSystemServices Os => os;

    public bool IsEmpty
    {
        get
        {
            lock (_lock)
                return _waits.Count == 0;
        }
    }

    /// <summary>Starts with the first waits.</summary>
    /// <exception cref="MappedFileQueueException">The system gives no thread.</exception>
    public void Start(SignalWaits waits)
    {
        _waits.Add(waits);
        try
        {
            _ = BackgroundThread.Start(Run, "async waits");
        }
        catch
        {
            NativeMemory.Free(_interrupts);
            throw;
        }
    }

    /// <summary>False when it has no room, or belongs to another platform.</summary>
    public bool TryAdd(SignalWaits waits)
    {
        lock (_lock)
        {
            if (waits.Os != os || _waits.Count >= _waitsMax)
                return false;
            _waits.Add(waits);
            return true;
        }
    }

    /// <summary>
    /// Takes waits away whose words may be unmapped afterwards. A round under way may still hold them, and meets their lock; the
    /// thread may sleep on their word.
    /// </summary>
    public void Remove(SignalWaits waits)
    {
        // Under the lock: once it is free the thread may find that it has nothing to do, and end.
        lock (_lock)
        {
            _waits.Remove(waits);
            Interrupt(waits);
        }
    }

    /// <summary>The thread itself found that there is nothing to wait for.</summary>
    public void Forget(SignalWaits waits)
    {
        lock (_lock)
            _waits.Remove(waits);
    }

    /// <summary>Begins a new round, in which the thread sees what its caller has changed.</summary>
    /// <param name="cause">Waits of this thread.</param>
    public void Interrupt(SignalWaits cause)
    {
        // P40 full: the change comes before the word, and the word before the look at the sleeper; pairs with P40 full in Sleep.
        SharedWord.Add(_interrupts, 1);
        // P40 acquire: pairs with P40 full in Sleep.
        if (Volatile.Read(ref _sleeps) == 0)
            return;
        os.WakeWord((uint*)_interrupts);
        // It sleeps on that word alone.
        if (os.WordsMax == 1)
            cause.Signal.Interrupt();
    }

    private void Run()
    {
        while (true)
        {
            // P40 acquire: what was changed before it is seen in this round; pairs with P40 full in Interrupt.
            ulong interrupts = SharedWord.ReadAcquire(_interrupts);
            lock (_lock)
                _round.AddRange(_waits);
            if (_round.Count == 0)
            {
                if (Rest(interrupts))
                    continue;
                NativeMemory.Free(_interrupts);
                return;
            }

            TimeSpan sleep = Look(interrupts);
            _round.Clear();
            Sleep(sleep);
        }
    }

    /// <summary>Returns how long to sleep.</summary>
    private TimeSpan Look(ulong interrupts)
    {
        long now = Stopwatch.GetTimestamp();
        bool needsBarrier = false;
        foreach (SignalWaits waits in _round)
            needsBarrier |= waits.BeginLook(now);
        bool isOrdered = !needsBarrier || os.BarrierOtherProcesses();
        _words.Clear();
        _words.Add(new WordWait((uint*)_interrupts, (uint)interrupts));
        long lookAt = long.MaxValue;
        foreach (SignalWaits waits in _round)
        {
            if (!waits.EndLook(isOrdered, out WordWait wait, out long dueAt))
                continue;
            _words.Add(wait);
            lookAt = Math.Min(lookAt, dueAt);
        }

        return _words.Count == 1 ? TimeSpan.Zero : Stopwatch.GetElapsedTime(Stopwatch.GetTimestamp(), lookAt);
    }

    private void Sleep(TimeSpan atMost)
    {
        if (atMost <= TimeSpan.Zero)
            return;
        // P40 full: says so before the kernel compares the word; pairs with P40 acquire in Interrupt.
        Interlocked.Exchange(ref _sleeps, 1);
        // Where it can sleep on one word only, the kernel does not compare this one.
        // P40 acquire: the look after saying so; pairs with P40 full in Interrupt.
        if ((uint)SharedWord.ReadAcquire(_interrupts) == _words[0].Expected)
            os.WaitOnWords(CollectionsMarshal.AsSpan(_words), atMost);
        Volatile.Write(ref _sleeps, 0); // P40 release: pairs with P40 acquire in Interrupt.
    }

    /// <summary>Waits for the next wait; false when none has come.</summary>
    private bool Rest(ulong interrupts)
    {
        long began = Stopwatch.GetTimestamp();
        while (IsEmpty)
        {
            TimeSpan left = RestMax - Stopwatch.GetElapsedTime(began);
            if (left <= TimeSpan.Zero)
                return !WaitThreads.TryEnd(this);
            _words.Clear();
            _words.Add(new WordWait((uint*)_interrupts, (uint)interrupts));
            Sleep(left);
        }

        return true;
    }
}
