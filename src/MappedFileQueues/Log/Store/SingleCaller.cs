using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Log.Store;

/// <summary>
/// Guards the calls of an object that only one thread may use at a time: an Exclusive producer's lane, a reader. It marks them,
/// so that a Dispose can wait for the call under way, and refuses a thread that calls while another one is in a call. Threads
/// may take turns; the object belongs to the last caller.
/// <code>
/// a call of the owner                           another thread takes the object over, under the lock
/// 1 the stack is the owner's                    1 announce the own mark
/// 2 mark: in call                               2 a barrier for all threads of the process
/// 3 check that no other thread is announced     3 the owner's mark says "in call": announce the owner again, refuse
/// 4 the call itself                             4 become the owner, mark: in call
/// 5 mark: not in call
/// </code>
/// The barrier makes one of two things true: step 3 of the new thread sees the mark, or step 3 of the owner sees the
/// announcement. Interlocked operations on both sides would cost 5 ns a message. A plain check of one common mark would let two
/// threads through that come within the same few nanoseconds, and acknowledged messages would be lost. Each thread has its own
/// mark: a thread that comes too late would clear a common one under the other thread's call.
/// <para>A thread is known by its stack, because asking the runtime costs a call: two addresses of one stack belong to one
/// thread, or the earlier thread has ended.</para>
/// <para>A call may be barred: by the end of the object, or by a wait that owns it. Then no thread is announced, and every call
/// takes the slow path, where it finds the bars.</para>
/// <para>A base class and not a member: so the marks are at fixed distances from the object that a call has in hand.</para>
/// </summary>
internal abstract unsafe class SingleCaller
{
    private static readonly CallMark s_nobody = new(thread: null);

    private readonly Lock _taking = new();
    private int _bars;
    private CallMark _owner = new(thread: null);
    private CallMark _announced;

    /// <summary>
    /// The marks of calling threads, by thread number. The runtime reuses the numbers: a thread that comes again allocates
    /// nothing.
    /// </summary>
    private Dictionary<int, CallMark>? _marks;

    protected SingleCaller() => _announced = _owner;

    /// <summary>Whether a bar is set: calls are to be refused.</summary>
    public bool IsBarred => Volatile.Read(ref _bars) != 0; // P7 acquire: pairs with P7 full in ChangeBar.

    /// <summary>The mark of the last caller; in a call, this thread's.</summary>
    public CallMark Owner => _owner;

    /// <summary>Whether a call of this thread is under way.</summary>
    /// <param name="stack">As in <see cref="TryBegin"/>.</param>
    public bool IsOwnCallUnderWay(byte* stack) => _owner.IsOf(stack) && _owner.InCall != 0;

    /// <summary>
    /// Whether a call is under way. For a thread that has refused further calls and has sent all threads a barrier.
    /// </summary>
    public bool IsInCall
    {
        get
        {
            lock (_taking)
                // P7 acquire: its last use is over; pairs with P7 release in SingleCaller.
                return Volatile.Read(ref _owner.InCall) != 0;
        }
    }

    /// <summary>Marks a call; false when this thread must <see cref="Take"/> the object first.</summary>
    /// <param name="stack">The address of a local variable.</param>
    /// <param name="mark">By it the call ends.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool TryBegin(byte* stack, out CallMark mark)
    {
        mark = _owner;
        if (!mark.HasStack(stack))
            return false;
        // P7 release: before the announcement and the bound are read; pairs with P7 full in SingleCaller and LaneDrain.
        Volatile.Write(ref mark.InCall, 1);
        return Volatile.Read(in _announced) == mark; // P7 acquire: after the mark; pairs with P7 full in SingleCaller.
    }

    /// <summary>Marks a call of an object that always belongs to one thread: no check for other threads.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void BeginAsOnlyThread() =>
        Volatile.Write(ref _owner.InCall, 1); // P7 release: before the bound is read; pairs with P7 full in LaneDrain.

    /// <summary>The call is over.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void EndCall() => _owner.End();

    /// <summary>As <see cref="EndCall"/>, where the call may be over already and another thread may have come.</summary>
    /// <param name="stack">As in <see cref="TryBegin"/>.</param>
    public void EndIfBegun(byte* stack)
    {
        if (IsOwnCallUnderWay(stack))
            EndCall();
    }

    /// <summary>Whether this bar is set.</summary>
    protected bool HasBar(int bar) => (Volatile.Read(ref _bars) & bar) != 0; // P7 acquire: pairs with P7 full in ChangeBar.

    /// <summary>Sets or takes away a bar. A call that is under way continues.</summary>
    protected void ChangeBar(int bar, bool isSet)
    {
        lock (_taking)
        {
            // P7 full: before the bound goes; pairs with P7 acquire in IsBarred.
            _ = isSet ? Interlocked.Or(ref _bars, bar) : Interlocked.And(ref _bars, ~bar);
            Announce(_owner);
        }
    }

    /// <summary>Takes the object over for this thread and marks its call.</summary>
    /// <param name="stack">As in <see cref="TryBegin"/>.</param>
    /// <returns>False when a call of another thread is under way.</returns>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public bool Take(byte* stack)
    {
        Thread thread = Thread.CurrentThread;
        lock (_taking)
        {
            // This thread's own mark from TryBegin: the stack is that of an ended thread.
            if (_owner.Thread != thread && _owner.HasStack(stack))
                _owner.InCall = 0;
            if (_owner.Thread != thread && !TryTakeFromOther(thread))
                return false;
            _owner.SetStack(stack);
            Volatile.Write(ref _owner.InCall, 1); // P7 release: before the bound is read; pairs with P7 full in LaneDrain.
            return true;
        }
    }

    /// <summary>
    /// In a call: makes the mark this thread's own when it belongs to an ended thread whose stack this one got. Code that
    /// outlives the call, or goes deeper in the stack, needs to know the thread.
    /// </summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void TakeFromEnded()
    {
        if (_owner.Thread != Thread.CurrentThread)
            TakeFromEndedRarely();
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void TakeFromEndedRarely()
    {
        lock (_taking)
        {
            CallMark ended = _owner;
            CallMark mine = MarkOf(Thread.CurrentThread);
            mine.StackStart = ended.StackStart;
            mine.InCall = 1;
            Announce(mine);
            _owner = mine;
            ended.InCall = 0;
        }
    }

    private void Announce(CallMark mark) =>
        // P7 release: before the barrier; pairs with P7 acquire in SingleCaller.
        Volatile.Write(ref _announced, _bars == 0 ? mark : s_nobody);

    private CallMark MarkOf(Thread thread)
    {
        ref CallMark? mark = ref CollectionsMarshal.GetValueRefOrAddDefault(_marks ??= [], thread.ManagedThreadId, out _);
        // The mark of an ended thread may be in use by a thread that got its stack.
        if (mark?.Thread != thread)
            mark = new CallMark(thread);
        return mark;
    }

    private bool TryTakeFromOther(Thread thread)
    {
        CallMark mine = MarkOf(thread);
        // This thread marked a call in TryBegin too late: that is not a call.
        mine.InCall = 0;
        Announce(mine);
        Interlocked.MemoryBarrierProcessWide(); // P7 full: announced before the load; pairs with P7 release in SingleCaller.
        if (Volatile.Read(ref _owner.InCall) != 0) // P7 acquire: pairs with P7 release in SingleCaller.
        {
            Announce(_owner);
            return false;
        }

        _owner = mine;
        return true;
    }
}

/// <summary>
/// One thread's mark. Only that thread writes it while its object belongs to it, each time a message is produced or read, so it
/// shares its cache line with no other object.
/// </summary>
[StructLayout(LayoutKind.Explicit, Size = 192)]
internal sealed unsafe class CallMark
{
    /// <summary>
    /// This much of the stack below a call certainly belongs to the thread: the runtime has checked that 64 KiB are left. Less
    /// than what is between the calls of two threads: the guard page of one, and the first frames of the other (9 KiB together
    /// on Linux). So the stack of an ended thread, which the system may divide among new ones, makes one of them its successor.
    /// </summary>
    public const nuint StackLength = 8 * 1024;

    /// <summary>1 while the thread is in a call or has an open claim.</summary>
    [FieldOffset(80)]
    public int InCall;

    /// <summary>The lowest stack address at which a call certainly belongs to the thread; null while there is none.</summary>
    [FieldOffset(88)]
    public byte* StackStart;

    /// <summary>The thread; null: none yet.</summary>
    [FieldOffset(96)]
    public readonly Thread? Thread;

    public CallMark(Thread? thread) => Thread = thread;

    /// <summary>The call is over.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void End() =>
        // P7 release: nothing of the mapping is used after it; pairs with P7 acquire in SingleCaller.
        Volatile.Write(ref InCall, 0);

    /// <summary>Remembers the calling thread's stack below an address.</summary>
    /// <param name="stack">The address of a local variable.</param>
    public void SetStack(byte* stack) =>
        StackStart = RuntimeHelpers.TryEnsureSufficientExecutionStack() ? stack - StackLength : null;

    /// <summary>Whether the address is in the part of the stack that is known to belong to the thread.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool HasStack(byte* stack) => (nuint)(stack - StackStart) <= StackLength;

    /// <summary>Whether the calling thread owns the mark, or has the stack of the owner because that one has ended.</summary>
    /// <param name="stack">The address of a local variable.</param>
    public bool IsOf(byte* stack) => HasStack(stack) || Thread == System.Threading.Thread.CurrentThread;
}
