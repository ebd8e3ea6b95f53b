using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Reading;
using MappedFileQueues.Log.Retention;
using MappedFileQueues.Log.Store;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Log.Waiting;
using MappedFileQueues.Platform;
using MappedFileQueues.Threads;

namespace MappedFileQueues.Log.Groups;

/// <summary>A message on its way to the dead letters.</summary>
/// <param name="Group">The group.</param>
/// <param name="Offset">The message.</param>
/// <param name="Deliveries">How often it was handed out.</param>
/// <param name="ErrorType">Why: "Rejected", "DeliveriesMax", or what the caller says.</param>
/// <param name="Error">The reason in words.</param>
/// <param name="Headers">The message's headers; null without any.</param>
internal readonly record struct GroupLetter(
    string Group, long Offset, int Deliveries, string ErrorType, string Error, MessageHeaders? Headers);

/// <summary>Puts a message into the store of dead letters; it is on disk when the call returns.</summary>
internal delegate void LetterSink(in GroupLetter letter, ReadOnlySpan<byte> message);

/// <summary>What members of a group share with their queue.</summary>
/// <param name="store">The store.</param>
/// <param name="retention">The queue's retention.</param>
/// <param name="asyncWaits">Where asynchronous calls wait.</param>
/// <param name="corruption">What the member does where the log is damaged.</param>
/// <param name="saver">Saves the groups of the queue.</param>
/// <param name="letters">Takes its dead letters.</param>
/// <param name="reportDamage">Called for skipped damage, with the error, the damage's offset and the next offset.</param>
/// <param name="reportGap">Called for skipped messages, with the offset before and the one after.</param>
internal sealed class GroupSurroundings(
    LogStore store,
    RetentionThread retention,
    AsyncWaiter asyncWaits,
    CorruptionPolicy corruption,
    GroupSaver saver,
    LetterSink letters,
    Action<QueueCorruptException, long, long> reportDamage,
    Action<long, long> reportGap)
{
    public LogStore Store => store;

    public RetentionThread Retention => retention;

    public AsyncWaiter AsyncWaits => asyncWaits;

    public CorruptionPolicy Corruption => corruption;

    public GroupSaver Saver => saver;

    public void Send(in GroupLetter letter, ReadOnlySpan<byte> message) => letters(in letter, message);

    public void ReportDamage(QueueCorruptException damage, long from, long to) => reportDamage(damage, from, to);

    public void ReportGap(long from, long to) => reportGap(from, to);
}

/// <summary>
/// A member of a group of competing consumers: it takes messages, so that no other member gets them, and ends each of them or
/// gives it back. The public members are thin shells over it. One thread at a time may use it; <see cref="Dispose"/> may come
/// from any thread. The changes of the group's table are those of <see cref="GroupLeases"/>.
/// <para>It has two readers: one finds where messages are, reading headers only, before they are taken; the other one reads
/// and verifies them afterwards. That one also guards the calls.</para>
/// </summary>
internal sealed unsafe partial class GroupMember : IWaitingConsumer, IDisposable
{
    private readonly GroupSurroundings _around;
    private readonly LogStore _store;
    private readonly GroupFile _file;
    private readonly OwnerSlot _slot;
    private readonly GroupOptions _options;
    private readonly GroupClock _clock;
    private readonly GroupLeases _leases;
    private readonly LeasesInHand _inHand = new();
    private readonly LogReader _reader;
    private readonly LogReader _walker;
    private readonly WakeSignal _signal;
    private readonly GroupRead _asyncWait;
    private readonly List<Action> _notices = [];
    private readonly Lock _disposing = new();
    private ReusedWait<bool> _untilThere;
    private long _shownOffset = -1;
    private int _shownDeliveries;
    private long _call;
    private long _damageAt = -1;
    private bool _isDisposed;

    /// <summary>Takes over the group's file and the slot.</summary>
    public GroupMember(GroupSurroundings around, GroupFile file, OwnerSlot slot, GroupOptions options)
    {
        _around = around;
        _store = around.Store;
        _file = file;
        _slot = slot;
        _options = options;
        _clock = new GroupClock(_store.Settings.TimeProvider);
        _leases = new GroupLeases(file.Table, file.File, slot.Owner, _store, FindMessages);
        _signal = options.DurableOnly ? _store.FlushWake : _store.Wake;
        _reader = new LogReader(_store, retention: around.Retention);
        _walker = MakeWalker(options.DurableOnly ? _store.Control.Durable : null);
        _asyncWait = new GroupRead(this);
        _untilThere = new ReusedWait<bool>(this, (out isThere) => isThere = IsMessageThere());
        around.Saver.Add(this);
    }

    /// <summary>The guard of its calls, and the reader of its messages.</summary>
    public LogReader Reader => _reader;

    public string Group => _file.Name;

    public int Slot => _slot.Index;

    /// <summary>The message that a call returned last; -1 before the first.</summary>
    public long MessageOffset => _shownOffset;

    /// <summary>How often that message was handed out, this time included.</summary>
    public int DeliveryCount => _shownDeliveries;

    /// <summary>How many messages are in hand.</summary>
    public int UnacknowledgedCount => _inHand.Count;

    /// <summary>Saves the group in the background, when it has changed; false when that failed.</summary>
    public bool TrySave()
    {
        lock (_disposing)
        {
            if (_isDisposed || !_isChanged)
                return true;
            try
            {
                Save(GroupFile.SaveWaitMax);
                return true;
            }
            catch (MappedFileQueueException)
            {
                // Callers that need to know call Flush. Damage of the group's file is told by the calls that meet it.
                return false;
            }
        }
    }

    /// <summary>Saves what a power loss leaves of the group. Any thread.</summary>
    public void Flush()
    {
        lock (_disposing)
        {
            // As in Dispose.
            if (_isDisposed)
                _reader.ReleaseOrphan();
            PublicNames.ThrowIfDisposed(_isDisposed, PublicNames.GroupMember);
            Save(LockWait.Timeout);
            _store.ThrowIfReplaced();
        }
    }

    /// <summary>
    /// Ends waiting calls, waits for the call under way, gives back what is in hand, and releases the slot. If this thread holds
    /// a span, the span ends here; otherwise its mapping stays until the next call of the thread that holds it.
    /// </summary>
    public void Dispose()
    {
        // A second caller, for example the queue's own end, returns only after the first: afterwards the store is unmapped.
        lock (_disposing)
        {
            if (_isDisposed)
            {
                // It may be the thread that held the span, which the end on another thread has left to it.
                _reader.ReleaseOrphan();
                return;
            }

            _isDisposed = true;
            Close();
        }
    }

    private LogReader MakeWalker(long* confirmed)
    {
        DamageSkipper? skipper = _around.Corruption == CorruptionPolicy.Throw
            ? null
            : new DamageSkipper(_store, _around.Corruption, NoteDamage);
        return new LogReader(_store, confirmed, skipper, gaps: null, _around.Retention, readsHeaders: true);
    }

    private void EndCalls()
    {
        _reader.Close(InterruptSleep);
        lock (_interrupting)
            _isInterruptible = false;
        _around.AsyncWaits.Forget(_reader);
        _walker.ReleaseSegment();
        _reader.ReleaseOrphan();
    }

    private void Close()
    {
        Uninterrupted.Run(EndCalls);
        try
        {
            _around.Saver.Remove(this);
            GiveBackAll();
            _leases.GiveUpRange();
            if (_isChanged)
                Save(GroupFile.SaveWaitMax);
        }
        catch (MappedFileQueueException)
        {
            // What was saved before is there, and Flush is for whoever needs to know.
        }
        finally
        {
            // The slot last: until then nobody takes for a dead one's what this member still gives back.
            _slot.Dispose();
            _file.Dispose();
        }
    }

    /// <summary>After a change of the table; whoever saves takes the note away first, and then looks.</summary>
    private void NoteChange()
    {
        if (_isChanged)
            return;
        _isChanged = true;
        _around.Saver.Notice();
    }

    private void Save(TimeSpan timeout)
    {
        // The lock that the save takes comes between this and its look at the table, and is a barrier.
        _isChanged = false;
        try
        {
            GroupFile.Save(_store.Directory, _store.Meta.StoreId, _file.Name, _file.Table, _store.Control.Epoch, _clock, timeout,
                _store.Settings.LockWaits);
        }
        catch
        {
            _isChanged = true;
            throw;
        }
    }

    /// <summary>A walk that another member has overtaken meets the same damage again.</summary>
    private void NoteDamage(QueueCorruptException damage, long from, long to)
    {
        if (_damageAt == from)
            return;
        _damageAt = from;
        _notices.Add(() => _around.ReportDamage(damage, from, to));
    }

    private void NoteGap(long from, long to) => _notices.Add(() => _around.ReportGap(from, to));

    /// <summary>
    /// Raises the events of the last call, outside it: a handler may use the member, and may dispose it. When one throws, nobody
    /// hears of the messages that the call took, so they are given back.
    /// </summary>
    private void RaiseNotices()
    {
        if (_notices.Count != 0)
            RaiseNoticesNow();
    }

    private void RaiseNoticesNow()
    {
        Action[] notices = [.. _notices];
        _notices.Clear();
        try
        {
            foreach (Action notice in notices)
                notice();
        }
        catch
        {
            GiveBackLastCall();
            throw;
        }
    }

    private void GiveBackLastCall()
    {
        using LogReader.Call call = _reader.EnterCall();
        if (!_reader.IsBarred)
            GiveBackCall(_call);
    }

    private void ThrowIfBarred() => _reader.ThrowIfBarred(PublicNames.GroupMember);

    private GroupMemberFencedException Fenced(long offset) => new(
        $"The message was taken from this member: offset={offset}, group=\"{Group}\", slot={Slot}, path={_store.Path}. "
        + "Another member gets it; what this one did with it may be done again.");
}
