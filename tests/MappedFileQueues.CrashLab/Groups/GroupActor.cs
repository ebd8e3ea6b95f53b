using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Groups;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.CrashLab.Groups;

/// <summary>
/// A simulated process: it appends with and without an id, takes messages, ends them, gives them back, saves, trims, looks at the
/// floor and fences others, in an order that the seed says.
/// </summary>
internal sealed unsafe class GroupActor(
    SimServices os, GroupModel model, StageClock clock, Random random, int place, int operations, List<GroupActor> all)
{
    private const int InHandMax = 60;
    private const int PlainProducers = 100;

    private readonly List<GroupMessage> _inHand = [];
    private StoreEngine _engine = null!;
    private Face? _face;
    private MappedFileProducer? _producer;
    private MappedFileIdempotentProducer? _numbered;
    private bool _isTaking;
    private bool _wasFencedInCall;
    private int _fencesUnderWay;
    private List<GroupMessage> _ending = [];
    private List<GroupMessage> _lettered = [];

    public SimServices Os => os;

    public bool IsDead => os.IsDead;

    public override string ToString() => $"process {place}/{all.IndexOf(this)}";

    /// <summary>The whole life of the process.</summary>
    public void Live()
    {
        CurrentPlatform.Services = os;
        using (_engine = new StoreEngine(model.Plan.Options(clock), StoreKind.Messages, 0, 0))
        {
            if (model.Plan.Trims)
                GroupStage.Whole(() => _engine.SetRetention(model.Plan.Retention));
            for (int i = 0; i < operations; i++)
                Operate();
            CloseMember();
            CloseNumbered();
            GroupStage.Whole(() => _engine.Dispose());
        }
    }

    /// <summary>It was killed: what it had in hand comes back; what it was about to end has ended, or has not.</summary>
    public void Died()
    {
        foreach (GroupMessage message in _inHand.Concat(_ending))
        {
            if (message.Holder != this)
                continue;
            message.ReturnsMax++;
            if (!message.IsFenced && !_ending.Contains(message))
                message.ReturnsMin++;
            message.Holder = null;
        }

        if (_isTaking)
            model.Slack++;
    }

    private void Operate()
    {
        int choice = random.Next(100);
        switch (model.Plan.Habit)
        {
            case GroupHabit.EndAndTrim when choice is >= 70 and < 88:
                Acknowledge(_inHand.Count);
                Trim();
                return;
            case GroupHabit.DropHalf when choice is >= 24 and < 40:
                Produce();
                return;
            case GroupHabit.DropHalf when choice is >= 70 and < 92:
                if (choice < 74)
                    Trim();
                else
                    Acknowledge(random.Next(1, (_inHand.Count / 2) + 2));
                return;
            case GroupHabit.TakeAndEnd when choice >= 30:
                Take();
                Acknowledge(_inHand.Count);
                return;
            case GroupHabit.RejectAll when choice >= 40:
                if (_inHand.Count == 0)
                    Take();
                Reject();
                return;
            default:
                OperateMixed(choice);
                return;
        }
    }

    private void OperateMixed(int choice)
    {
        switch (choice)
        {
            case < 14:
                Produce();
                break;
            case < 24:
                ProduceNumbered();
                break;
            case < 28:
                GroupStage.Whole(Flush);
                break;
            case < 52:
                Take();
                break;
            case < 76:
                Acknowledge();
                break;
            case < 83:
                Reject();
                break;
            case < 86:
                Save();
                break;
            case < 88:
                CloseMember();
                break;
            case < 92:
                LookAtFloor();
                break;
            case < 93:
                Fence();
                break;
            case < 96:
                Trim();
                break;
            case < 97:
                clock.Advance(TimeSpan.FromMilliseconds(random.Next(200)));
                break;
            case < 99:
                lock (os.Disk.Gate)
                    os.Disk.WriteBackSome(random);
                break;
            default:
                CloseNumbered();
                break;
        }
    }

    private void Flush()
    {
        List<GroupMessage> appended = [.. model.Messages.Where(message => message.Offset >= 0)];
        _engine.Flush();
        foreach (GroupMessage message in appended)
            message.IsDurable = true;
    }

    private int NextLength() => LabMessage.HeadLength + random.Next(model.Plan.LengthMax);

    private void Produce()
    {
        for (int i = random.Next(1, 12); i > 0; i--)
        {
            int producer = PlainProducers + place;
            GroupMessage message = model.Add(producer, model.LastNumber(producer) + 1, NextLength());
            GroupStage.Whole(() =>
            {
                _producer ??= _engine.Open(() => new MappedFileProducer(_engine));
                message.Offset = _producer.Produce(model.BytesOf(message));
            });
        }
    }

    private void ProduceNumbered()
    {
        if (_numbered is null)
            OpenNumbered();
        if (_numbered is null)
            return;
        ulong last = _numbered.LastSequence;
        if (last > 0 && random.Next(4) == 0 && _numbered.TryProduce([], 1 + (ulong)random.NextInt64((long)last)))
            throw new LabViolation($"Producer {place} repeats a message, and it is appended");
        for (int i = random.Next(1, 12); i > 0; i--)
        {
            GroupMessage message = model.Add(place, (long)_numbered.LastSequence + 1, NextLength());
            GroupStage.Whole(() =>
            {
                message.Offset = _numbered.Produce(model.BytesOf(message));
            });
        }
    }

    private void OpenNumbered()
    {
        try
        {
            _numbered = _engine.Open(() => new MappedFileIdempotentProducer(_engine, Id(place)));
        }
        catch (QueueInUseException) when (model.Plan.Trims)
        {
            // A removal has the id for a moment.
            return;
        }

        long last = (long)_numbered.LastSequence;
        if (last != model.LastNumber(place))
            throw new LabViolation($"Producer {place} has appended {model.LastNumber(place)} messages, and knows of {last}");
    }

    public static string Id(int place) => $"p{place}";

    private void CloseNumbered()
    {
        _numbered?.Dispose();
        _numbered = null;
    }

    private GroupMember Member()
    {
        _face ??= _engine.OpenGroupMember(
            GroupPlan.Group, model.Plan.MemberOptions, TakeLetter, static member => new Face(member));
        return _face.Member;
    }

    private void Take()
    {
        GroupMember member = Member();
        if (_inHand.Count >= InHandMax)
            return;
        _isTaking = true;
        _wasFencedInCall = _fencesUnderWay > 0;
        if (model.Plan.Habit != GroupHabit.DropHalf && random.Next(2) == 0)
        {
            if (member.TryTake(TimeSpan.Zero, CancellationToken.None, out byte* payload, out int length))
                Got(member, payload, length);
        }
        else
        {
            BatchPlace batch = member.BeginBatch();
            int countMax = random.Next(1, model.Plan.BatchMax + 1);
            for (int i = 0; i < countMax; i++)
            {
                if (!member.TryTakeNext(
                    ref batch, timeout: null, countMax - i, CancellationToken.None, out byte* payload, out int length))
                    break;
                Got(member, payload, length);
            }

            member.GiveBackUnshown(in batch);
        }

        _isTaking = false;
        EndLettered();
    }

    private void Got(GroupMember member, byte* payload, int length)
    {
        GroupMessage message = model.Find(new ReadOnlySpan<byte>(payload, length), member.MessageOffset);
        model.Deliver(message, this, member.DeliveryCount, _wasFencedInCall);
        _inHand.Add(message);
    }

    private void TakeLetter(in GroupLetter letter, ReadOnlySpan<byte> bytes)
    {
        GroupMessage message = model.Find(bytes, letter.Offset);
        if (message.Ended == Ending.Yes && !_wasFencedInCall && !model.Plan.Drops)
            throw new LabViolation($"{message} becomes a dead letter after its end");
        if (letter.ErrorType == "DeliveriesMax" && letter.Deliveries < model.Plan.DeliveriesMax)
            throw new LabViolation($"{message} becomes a dead letter after {letter.Deliveries} deliveries");
        message.Letters++;
        message.Ended = Ending.Maybe;
        _lettered.Add(message);
    }

    /// <summary>The call has returned: what went to the dead letters in it has ended.</summary>
    private void EndLettered()
    {
        foreach (GroupMessage message in _lettered.Where(message => !message.IsFenced && !_wasFencedInCall))
            message.Ended = Ending.Yes;
        _lettered = [];
    }

    private List<GroupMessage> Choose()
    {
        int count = random.Next(3) == 0 ? _inHand.Count : random.Next(1, _inHand.Count + 1);
        int from = random.Next(_inHand.Count - count + 1);
        return _inHand.GetRange(from, count);
    }

    private void Acknowledge()
    {
        if (_inHand.Count > 0)
            Acknowledge(Choose());
    }

    /// <summary>The oldest ones in hand.</summary>
    private void Acknowledge(int countMax)
    {
        if (_inHand.Count > 0)
            Acknowledge(_inHand.GetRange(0, Math.Min(countMax, _inHand.Count)));
    }

    private void Acknowledge(List<GroupMessage> chosen)
    {
        _ending = chosen;
        foreach (GroupMessage message in chosen)
            NoteMaybe(message);
        _inHand.RemoveAll(chosen.Contains);
        try
        {
            _face!.Member.Acknowledge([.. chosen.Select(message => message.Offset)]);
            foreach (GroupMessage message in chosen)
                End(message);
        }
        catch (GroupMemberFencedException) when (chosen.Exists(message => message.IsFenced || message.Holder != this))
        {
            // All that is left of the same record is gone, too.
            _inHand.RemoveAll(message => message.IsFenced || message.Holder != this);
        }

        LetGo(chosen);
    }

    private void NoteMaybe(GroupMessage message)
    {
        if (message.Holder == this)
            message.Ended = Ending.Maybe;
    }

    private void End(GroupMessage message)
    {
        if (message.Holder != this)
            throw new LabViolation($"{this} has ended {message}, which another one has got");
        message.Ended = Ending.Yes;
    }

    private void LetGo(List<GroupMessage> messages)
    {
        foreach (GroupMessage message in messages.Where(message => message.Holder == this))
            message.Holder = null;
        _ending = [];
    }

    private void Reject()
    {
        if (_inHand.Count == 0)
            return;
        GroupMessage message = _inHand[random.Next(_inHand.Count)];
        // The letter of a message that is removed cannot be written; it stays in hand.
        bool rejectsAll = model.Plan.Habit == GroupHabit.RejectAll;
        bool isLetter = !rejectsAll && random.Next(2) == 0 && !model.Plan.Drops;
        TimeSpan delay = !rejectsAll && random.Next(3) == 0 ? TimeSpan.FromMilliseconds(random.Next(1, 100)) : TimeSpan.Zero;
        _wasFencedInCall = _fencesUnderWay > 0;
        _inHand.Remove(message);
        bool wasMine = message.Holder == this;
        if (!isLetter && wasMine)
        {
            // From its first step on somebody else may get it.
            message.ReturnsMax++;
            message.Holder = null;
        }
        else if (isLetter)
        {
            _ending = [message];
            NoteMaybe(message);
        }

        try
        {
            _face!.Member.Reject(message.Offset, delay, isLetter, "");
            if (isLetter)
                End(message);
            else if (wasMine && !message.IsFenced)
                message.ReturnsMin++;
        }
        catch (GroupMemberFencedException) when (!wasMine || message.IsFenced || message.Holder != this)
        {
            _inHand.RemoveAll(other => other.IsFenced || other.Holder != this);
        }

        EndLettered();
        LetGo(_ending);
    }

    private void Save()
    {
        GroupMember member = Member();
        List<GroupMessage> ended = Ended(_ => true);
        member.Flush();
        NoteDurable(ended);
    }

    private List<GroupMessage> Ended(Func<GroupMessage, bool> which) =>
        [.. model.Messages.Where(message => message.Ended == Ending.Yes && which(message))];

    private static void NoteDurable(List<GroupMessage> ended)
    {
        foreach (GroupMessage message in ended.Where(message => message.Ended == Ending.Yes))
            message.IsEndDurable = true;
    }

    private void CloseMember()
    {
        if (_face is not { } face)
            return;
        // Given back without a count; from its first step on somebody else may get it.
        foreach (GroupMessage message in _inHand.Where(message => message.Holder == this))
        {
            message.Holder = null;
            message.ReturnsMax++;
        }

        _inHand.Clear();
        face.Dispose();
        _engine.Remove(face);
        _face = null;
    }

    private void LookAtFloor()
    {
        long before = model.Floor;
        if (!GroupFile.Exists(_engine.Store.Directory, GroupPlan.Group))
            return;
        StoredCursor cursor = StoreCursors.ReadGroup(_engine.Store.Directory, _engine.Store.Meta.StoreId, GroupPlan.Group);
        if (cursor.Offset is not { } floor)
            throw new LabViolation($"The group cannot be read: {cursor.Error}");
        model.CheckFloor(floor, before);
    }

    private void Fence()
    {
        if (!model.Plan.Fences)
            return;
        GroupActor other = all[random.Next(all.Count)];
        if (other == this || other.IsDead || other._face is not { } face)
            return;
        other._fencesUnderWay++;
        other.FenceBegins();
        _engine.FenceGroupMember(GroupPlan.Group, face.Member.Slot);
        other.FenceBegins();
        other._fencesUnderWay--;
    }

    private void FenceBegins()
    {
        _wasFencedInCall = true;
        if (_isTaking)
            model.Slack++;
        foreach (GroupMessage message in _inHand.Concat(_ending).Where(message => message.Holder == this && !message.IsFenced))
        {
            message.IsFenced = true;
            message.ReturnsMax++;
        }
    }

    private void Trim()
    {
        if (!model.Plan.Trims)
            return;
        bool isLittle = model.Plan.Habit == GroupHabit.DropHalf;
        long logStart = _engine.Trim(isLittle ? model.LogStart + random.Next(3 * GroupPlan.SegmentSize) : long.MaxValue);
        model.CheckRemoved(logStart);
    }

    /// <summary>What the queue knows of a member.</summary>
    public sealed record Face(GroupMember Member) : IDisposable
    {
        public void Dispose() => Member.Dispose();
    }
}
