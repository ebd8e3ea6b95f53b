using System.Diagnostics;
using System.Runtime.CompilerServices;
using MappedFileQueues.Memory;
using MappedFileQueues.Platform;

namespace MappedFileQueues.Log.Flushing;

/// <summary>
/// How the threads of this process share flushes: who is woken after one, and who is waited for before one.
/// <para>Threads that wait while another one leads join groups, one for each flush in turn, and each group sleeps on its own
/// word (models/followers.pml). The end of a flush wakes the group that it served, and one thread of the next group, which leads
/// next. While that leader's disk is busy, the served threads come back with their next messages. With one word for all, each
/// flush would wake all threads for one message each (docs/LOG.md, `durable_64`).</para>
/// <code>
/// follower, its message published                   leader
/// 1 group = the open one; word = that group's       1 takes the lead
/// 2 raise the mark "asleep" to the group (full)     2 closes the open group (full), then walks, syncs, raises durable
/// 3 look again: confirmed, lead taken, not served   3 marks the group as served
/// 4 sleep while the word is unchanged               4 releases the lead (full)
///                                                   5 "asleep" at or above the open group: its word + 1, wake one
///                                                   6 "asleep" at or above the served group: its word + 1, wake all
/// </code>
/// A thread that wakes in a group that was not served may be the one that was called to lead. If it leaves without having led
/// (its message is durable, or its time is up) and no thread leads, it calls the next one. A leader always calls the next one,
/// whether or not its flush succeeded. All these words belong to this process alone; leaders of other processes sleep on words of
/// the control page.
/// <para>Callers that a flush has freed come back at once with their next message. Without <see cref="Gather"/> the first of them
/// would lead a flush for itself alone, and all others would wake twice for each message. So a leader yields its processor until
/// as many callers have come as the last flush served, for at most half the time of that flush, and never longer than the limit.
/// A caller that is always alone never waits.</para>
/// </summary>
internal sealed unsafe class GroupCommitGate
{
    /// <summary>
    /// At any time two groups have sleepers: the closed one and the open one. The other words keep a slow leader's last step from
    /// waking threads that came much later.
    /// </summary>
    private const int WordCount = 4;

    /// <summary>The distance between words, so that no two words share a cache line.</summary>
    private const int Stride = 16;

    private readonly OperatingSystemServices _os;
    private readonly TimeSpan _gatheringMax;
    private readonly uint[] _pinned = GC.AllocateArray<uint>(WordCount * Stride, pinned: true);
    private readonly uint* _words;
    private long _open = 1;
    private long _served;
    private long _asleep;
    private int _came;
    private int _cameBefore;
    private int _expected;
    private TimeSpan _gathering;

    /// <param name="os">The system.</param>
    /// <param name="gatheringMax">How long a leader waits for callers at most.</param>
    public GroupCommitGate(OperatingSystemServices os, TimeSpan gatheringMax)
    {
        (_os, _gatheringMax) = (os, gatheringMax);
        _words = (uint*)Unsafe.AsPointer(ref _pinned[0]);
    }

    /// <summary>From now on a caller waits for a flush. Any thread.</summary>
    public void Come() => Interlocked.Increment(ref _came); // P25 relaxed: a hint; pairs with P25 relaxed in Gather.

    /// <summary>Waits for the expected callers. Only the leader may call it.</summary>
    /// <returns>How many callers have come since the last time.</returns>
    public int Gather()
    {
        int came = CameSince();
        if (came < _expected)
        {
            long began = Stopwatch.GetTimestamp();
            do
            {
                Thread.Yield();
                came = CameSince();
            }
            while (came < _expected && Stopwatch.GetElapsedTime(began) < _gathering);
        }

        _cameBefore += came;
        return _expected = came;
    }

    /// <summary>Records how long a flush for several callers took. Only the leader may call it.</summary>
    public void NoteFlush(TimeSpan time) => _gathering = time / 2 < _gatheringMax ? time / 2 : _gatheringMax;

    /// <summary>Follower's steps 1 and 2.</summary>
    /// <param name="word">The word's value, for <see cref="Sleep"/>.</param>
    /// <returns>The group.</returns>
    public long Prepare(out uint word)
    {
        // P26 acquire: a group that is not closed has its flush before it; pairs with P26 full in Close.
        long group = Volatile.Read(ref _open);
        // P27 acquire: read before the look; pairs with P27 full in Wake.
        word = SharedWord.ReadAcquire(WordOf(group));
        // P28 full: raised before the look; a mark that is high enough needs no store; pairs with P28 acquire in IsAsleep.
        SharedWord.RaiseTo(ref _asleep, group);
        return group;
    }

    /// <summary>True once a flush has ended that began after every thread of the group had published.</summary>
    // P29 acquire: after the word was read; pairs with P29 release in EndServing.
    public bool IsServed(long group) => Volatile.Read(ref _served) >= group;

    /// <summary>Follower's step 4; may return early.</summary>
    public void Sleep(long group, uint word, TimeSpan atMost)
    {
        if (atMost > TimeSpan.Zero)
            _os.WaitOnWord(WordOf(group), word, atMost);
    }

    /// <summary>Leader's step 2, before its walk.</summary>
    // P26 full: closed before the walk; pairs with P26 acquire in Prepare.
    public void Close() => Interlocked.Increment(ref _open);

    /// <summary>Leader's step 3.</summary>
    /// <returns>The last group that was closed, for <see cref="WakeServed"/>.</returns>
    public long EndServing()
    {
        // P26 acquire: only leaders close groups; pairs with P26 full in Close.
        long closed = Volatile.Read(ref _open) - 1;
        // P29 release: the outcome of the flush was stored before it; pairs with P29 acquire in IsServed.
        Volatile.Write(ref _served, closed);
        return closed;
    }

    /// <summary>
    /// Leader's step 5, and the duty of a follower that was called to lead and did not. Call it after a full barrier.
    /// </summary>
    public void CallNext()
    {
        // P26 acquire: a group that was closed since then has a leader; pairs with P26 full in Close.
        long open = Volatile.Read(ref _open);
        if (IsAsleep(open))
            Wake(open, countMax: 1);
    }

    /// <summary>Leader's step 6. Call it after a full barrier.</summary>
    public void WakeServed(long group)
    {
        if (IsAsleep(group))
            Wake(group, int.MaxValue);
    }

    /// <summary>Makes all followers look again: cancellation, Dispose.</summary>
    public void Interrupt()
    {
        for (int group = 0; group < WordCount; group++)
            Wake(group, int.MaxValue);
    }

    // P28 acquire: after the barrier that follows the sleepers' condition; pairs with P28 full in Prepare.
    private bool IsAsleep(long group) => Volatile.Read(ref _asleep) >= group;

    private void Wake(long group, int countMax)
    {
        uint* word = WordOf(group);
        // P27 full: the sleepers' condition was stored before; pairs with P27 acquire in Prepare.
        Interlocked.Increment(ref *word);
        _os.WakeWord(word, countMax);
    }

    private uint* WordOf(long group) => _words + (group % WordCount * Stride);

    // P25 relaxed: a hint; pairs with P25 relaxed in Come.
    private int CameSince() => Volatile.Read(ref _came) - _cameBefore;
}
