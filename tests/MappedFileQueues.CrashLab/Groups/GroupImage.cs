using System.Runtime.InteropServices;
using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Groups;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform.Choice;

namespace MappedFileQueues.CrashLab.Groups;

/// <summary>
/// Opens a store that a crash has left, perhaps crashes it again before anybody has taken a message, and works through its group
/// to the end. Nothing is lost that had not ended, nothing comes again whose end was kept, and what is appended after the crash
/// comes too.
/// </summary>
/// <param name="model">Of the run.</param>
/// <param name="picture">What was known at the moment of the crash.</param>
/// <param name="random">For what is done to the store.</param>
/// <param name="newBoot">Names a boot.</param>
internal sealed unsafe class GroupImage(GroupModel model, GroupPicture picture, Random random, Func<string> newBoot)
{
    private const int NewProducer = 1000;
    private const int NewMax = 40;

    private readonly StageClock _clock = new(TimeSpan.FromDays(40).Ticks);
    private readonly Dictionary<(int Producer, long Number), long> _there = [];
    private readonly Dictionary<int, long> _known = [];
    private readonly HashSet<long> _new = [];
    private readonly List<long> _inHand = [];
    private readonly int _newSeed = random.Next();
    private bool _isCut;
    private int _newCount;

    /// <summary>Where each message is that was read back.</summary>
    public IReadOnlyDictionary<(int Producer, long Number), long> There => _there;

    public long LogStart { get; private set; }

    /// <summary>What each producer with an id knows to be its last message, by its place.</summary>
    public IReadOnlyDictionary<int, long> Known => _known;

    /// <summary>Opens the store, and reads it.</summary>
    public void Read(SimDisk disk, string boot, bool isCut)
    {
        _isCut = isCut;
        using StoreEngine engine = Open(disk, boot);
        ReadLog(engine);
        CheckProducers(engine);
    }

    /// <summary>Throws <see cref="LabViolation"/>; any other exception is one as well.</summary>
    /// <param name="disk">The image.</param>
    /// <param name="boot">The boot in which it is opened.</param>
    /// <param name="isCut">A power loss made it; otherwise everybody was killed.</param>
    /// <param name="crashes">How often it crashes again before the group is worked through.</param>
    public void Check(SimDisk disk, string boot, bool isCut, int crashes)
    {
        _isCut |= isCut;
        HashSet<long> newBefore = [.. _new];
        DiskPicture? under = null;
        DiskPicture? after = null;
        if (crashes > 0)
            disk.Point = LabThread.Point = _ => under = random.Next(8) == 0 ? new DiskPicture(disk) : under;
        bool isWornOut = crashes == 0 && !_isCut && random.Next(2) == 0;
        uint owner = isWornOut ? WearOut(disk) : 0;
        using (StoreEngine engine = Open(disk, boot))
        {
            disk.Point = LabThread.Point = null;
            ReadLog(engine);
            CheckProducers(engine);
            Append(engine);
            // The producers have let go of their slots.
            if (owner != 0)
                ComeAgain(disk, owner);
            if (crashes > 0)
            {
                after = new DiskPicture(disk);
            }
            else
            {
                Drop(disk, engine);
                Drain(engine);
            }
        }

        if (crashes == 0)
            return;
        if (random.Next(4) == 0 && under is not null)
        {
            _new.IntersectWith(newBefore);
            after = under;
        }

        using SimDisk again = CutImage.OfCut(after!, random, tracksMedium: true);
        Check(again, newBoot(), isCut: true, crashes - 1);
    }

    private StoreEngine Open(SimDisk disk, string boot)
    {
        CurrentPlatform.Services = new SimServices(disk, boot, model.Plan.HasFence);
        LabThread.Background.Clear();
        return new StoreEngine(model.Plan.Options(_clock), StoreKind.Messages, 0, 0);
    }

    private void ReadLog(StoreEngine engine)
    {
        _there.Clear();
        LogStart = engine.Store.LogStart;
        using MappedFileReader reader = MappedFileReader.Open(SimDisk.Root);
        while (reader.TryRead(out ReadOnlySpan<byte> bytes))
        {
            (int producer, long number) = LabMessage.Head(bytes);
            if (producer == NewProducer)
                continue;
            if (!_there.TryAdd((producer, number), reader.MessageOffset))
                throw new LabViolation($"Message {number} of producer {producer} is in the log twice");
        }

        foreach (MessagePicture seen in picture.Messages)
        {
            bool isPromised = seen.Offset >= LogStart && (!_isCut || seen.IsDurable);
            if (isPromised && !_there.ContainsKey((seen.Message.Producer, seen.Message.Number)))
                throw new LabViolation($"{seen.Message} is not in the log any more, which begins at {LogStart}");
        }
    }

    /// <summary>Each knows all of its messages that are in the log, or were before their removal, and no others.</summary>
    private void CheckProducers(StoreEngine engine)
    {
        for (int place = 0; place < model.Plan.PlaceCount; place++)
        {
            long present = _there.Keys.Where(key => key.Producer == place).Select(key => key.Number).DefaultIfEmpty().Max();
            MessagePicture[] removed = [.. picture.Messages.Where(
                seen => seen.Message.Producer == place && seen.Offset >= 0 && seen.Offset < LogStart)];
            long most = Math.Max(present, removed.Select(seen => seen.Message.Number).DefaultIfEmpty().Max());
            long least = Math.Max(present, removed.Where(seen => !_isCut || seen.IsDurable)
                .Select(seen => seen.Message.Number).DefaultIfEmpty().Max());
            using MappedFileIdempotentProducer producer =
                engine.Open(() => new MappedFileIdempotentProducer(engine, GroupActor.Id(place)));
            long known = _known[place] = (long)producer.LastSequence;
            if (known < least || known > most)
                throw new LabViolation(
                    $"Producer {place} has {least} to {most} messages in the log or removed, and knows of {known}");
        }
    }

    private void Append(StoreEngine engine)
    {
        using MappedFileProducer producer = engine.Open(() => new MappedFileProducer(engine));
        for (int i = random.Next(1, NewMax); i > 0; i--)
        {
            int length = LabMessage.HeadLength + random.Next(model.Plan.LengthMax);
            _new.Add(producer.Produce(LabMessage.Make(_newSeed, NewProducer, _newCount++, length)));
        }

        engine.Flush();
    }

    /// <summary>
    /// Removes some of the log. Where a dead member has ended a part of a range, the removal ends inside of it: its bits then
    /// mean other messages.
    /// </summary>
    private void Drop(SimDisk disk, StoreEngine engine)
    {
        if (!model.Plan.Drops)
            return;
        List<(long Start, long End)> chosen = [(LogStart, _new.Min())];
        if (disk.Find(StoreNames.Group(GroupPlan.Group)) is { Length: >= GroupLayout.FileLength } file)
            chosen.AddRange(HalfDone(file.Content).Where(range => range.Start >= LogStart && range.End <= _new.Min()));
        (long from, long to) = chosen[random.Next(chosen.Count)];
        LogStart = engine.Trim(random.NextInt64(from, to));
    }

    private static List<(long Start, long End)> HalfDone(ReadOnlySpan<byte> content)
    {
        List<(long Start, long End)> ranges = [];
        for (int range = 0; range < GroupLayout.RangeCount; range++)
        {
            ReadOnlySpan<byte> record = content.Slice(GroupLayout.RecordAt(range), GroupLayout.RecordLength);
            var state = new LeaseState(MemoryMarshal.Read<ulong>(record[GroupLayout.StateIn..]));
            var bits = new LeaseBits(MemoryMarshal.Read<ulong>(record[GroupLayout.BitsIn..]));
            long start = MemoryMarshal.Read<long>(record[GroupLayout.StartIn..]);
            long end = MemoryMarshal.Read<long>(record[GroupLayout.EndIn..]);
            if (state.Kind == LeaseKind.Held && bits.Done != 0)
                ranges.Add((start, end));
        }

        return ranges;
    }

    private void Drain(StoreEngine engine)
    {
        HashSet<long> got = [];
        GroupOptions options = model.Plan.MemberOptions with { DeliveriesMax = 0 };
        using (GroupActor.Face face = engine.OpenGroupMember(
            GroupPlan.Group, options, static (in _, _) => throw new LabViolation("A letter"),
            static member => new GroupActor.Face(member)))
        {
            GroupMember member = face.Member;
            for (int misses = 0; misses < 3;)
            {
                if (member.TryTake(TimeSpan.Zero, CancellationToken.None, out byte* payload, out int length))
                    Take(member, new ReadOnlySpan<byte>(payload, length), got);
                else
                    misses++;
                if (misses > 0 || model.Plan.Drops || random.Next(3) == 0)
                    member.Acknowledge([.. _inHand]);
                if (misses > 0 || member.UnacknowledgedCount == 0)
                    _inHand.Clear();
            }
        }

        CheckNothingLost(got);
        CheckFloor(engine);
    }

    private void Take(GroupMember member, ReadOnlySpan<byte> bytes, HashSet<long> got)
    {
        long offset = member.MessageOffset;
        _inHand.Add(offset);
        (int producer, long number) = LabMessage.Head(bytes);
        // Where a part of a range was removed nobody knows which of its bits means which message.
        if (!got.Add(offset) && !model.Plan.Drops)
            throw new LabViolation($"After the crash message {number} of producer {producer} at {offset} comes twice");
        if (producer == NewProducer)
        {
            if (!_new.Contains(offset))
                throw new LabViolation($"After the crash a message comes from {offset}, where none was appended");
            return;
        }

        GroupMessage message = model.Find(bytes, offset);
        MessagePicture seen = picture.Messages.FirstOrDefault(seen => seen.Message == message);
        if (seen.Message is null || !_there.ContainsKey((producer, number)))
            throw new LabViolation($"After the crash {message} comes, which is not in the log");
        if (seen.Ended == Ending.Yes && (!_isCut || seen.IsEndDurable) && !model.Plan.Drops)
            throw new LabViolation($"After the crash {message} comes again, whose end was {(_isCut ? "saved" : "known")}");
        if (member.DeliveryCount > 2 + seen.ReturnsMax + picture.Slack)
            throw new LabViolation($"After the crash {message} is delivered for the {member.DeliveryCount}. time");
    }

    private void CheckNothingLost(HashSet<long> got)
    {
        foreach (MessagePicture seen in picture.Messages)
        {
            if (seen.Ended == Ending.No && _there.TryGetValue((seen.Message.Producer, seen.Message.Number), out long offset)
                && offset >= Math.Max(LogStart, picture.DropsBefore) && !got.Contains(offset))
                throw new LabViolation($"After the crash {seen.Message} does not come, and it had not ended");
        }

        foreach (long offset in _new)
        {
            if (!got.Contains(offset))
                throw new LabViolation($"The message at {offset}, which was appended after the crash, does not come");
        }
    }

    private void CheckFloor(StoreEngine engine)
    {
        StoredCursor cursor = StoreCursors.ReadGroup(engine.Store.Directory, engine.Store.Meta.StoreId, GroupPlan.Group);
        long last = _there.Values.Concat(_new).DefaultIfEmpty(-1).Max();
        if (cursor.Offset is not { } floor || floor <= last)
            throw new LabViolation($"All has ended, the last message is at {last}, and the floor is {cursor.Offset}");
    }

    /// <summary>
    /// All slots are worn out, as after a million processes. Chooses an owner whose generation comes again afterwards; 0: there
    /// is none.
    /// </summary>
    private uint WearOut(SimDisk disk)
    {
        if (disk.Find(StoreNames.Group(GroupPlan.Group)) is not { Length: >= GroupLayout.FileLength } file
            || disk.Find(StoreNames.Slots) is not { Length: >= SlotLayout.FileLength } slots)
            return 0;
        List<uint> owners = [];
        ReadOnlySpan<byte> content = file.Content;
        for (int record = 0; record < GroupLayout.RangeCount + GroupLayout.SingleCount; record++)
        {
            var state = new LeaseState(MemoryMarshal.Read<ulong>(content[GroupLayout.RecordAt(record)..]));
            if (state.Kind is LeaseKind.Held && state.Owner != 0)
                owners.Add(state.Owner);
        }

        if (owners.Count == 0)
            return 0;
        for (int slot = 0; slot < SlotLayout.SlotCount; slot++)
            MemoryMarshal.Write(slots.Content[SlotLayout.EntryAt(slot)..], SlotLayout.GenerationMax);
        return owners[random.Next(owners.Count)];
    }

    /// <summary>The next member gets this slot, in this generation.</summary>
    private static void ComeAgain(SimDisk disk, uint owner)
    {
        Span<byte> slots = disk.Find(StoreNames.Slots)!.Content;
        for (int slot = 0; slot < SlotLayout.Slot(owner); slot++)
            MemoryMarshal.Write(slots[SlotLayout.EntryAt(slot)..], SlotLayout.GenerationMax);
        MemoryMarshal.Write(slots[SlotLayout.EntryAt(SlotLayout.Slot(owner))..], SlotLayout.Generation(owner) - 1);
    }
}
