using System.Globalization;
using System.Reflection;
using FsCheck;
using FsCheck.Fluent;
using MappedFileQueues.Engine;
using MappedFileQueues.Format;
using MappedFileQueues.Format.Groups;
using MappedFileQueues.Log.GroupFiles;
using MappedFileQueues.Log.Groups;
using MappedFileQueues.Log.StoreFiles;
using MappedFileQueues.Platform;
using MappedFileQueues.Tests.Contract;
using MappedFileQueues.Tests.Randomized;

namespace MappedFileQueues.Tests.Groups;

/// <summary>
/// Random work of several members against a dictionary that says what each message is: new, in whose hands, waiting, or done.
/// A death is locks that are let go of without a word. Nothing is lost, nothing is in two hands, nothing that is done comes back,
/// and each delivery is counted by deaths and rejects alone.
/// </summary>
public sealed class GroupRandomTests : IDisposable
{
    private const int MembersMax = 4;

    private int _runs;
    private readonly TempStore _store = TempStore.InMemory();

    public void Dispose() => _store.Dispose();

    /// <summary>A seed in MFQ_GROUP_SEED runs alone.</summary>
    public static TheoryData<int> Seeds => Environment.GetEnvironmentVariable("MFQ_GROUP_SEED") is { } seed
        ? new TheoryData<int>(int.Parse(seed, CultureInfo.InvariantCulture))
        : new TheoryData<int>(Enumerable.Range(1, 4));

    [Theory]
    [MemberData(nameof(Seeds))]
    public void Members_RandomWork_AgreesWithTheDictionary(int seed)
    {
        var random = new Random(seed);
        new Run(_store.StorePath).Go(Enumerable.Range(0, 1500).Select(_ => (random.Next(100), random.Next())));
    }

    /// <summary>Fewer steps at a time, and a failure is shrunk to those that matter.</summary>
    [Fact]
    public void Members_AnySteps_AgreeWithTheDictionary()
    {
        Gen<(int What, int Seed)> step =
            from what in Gen.Choose(0, 99)
            from seed in Gen.Choose(0, 1000)
            select (what, seed);
        RandomSteps.Check(step, 30, steps =>
        {
            string path = Path.Combine(_store.Root, $"any-{_runs++}");
            new Run(path).Go(steps);
            Directory.Delete(path, recursive: true);
        });
    }

    private sealed class Message
    {
        public long Offset { get; init; }

        /// <summary>How often it was taken back from somebody: by a death or a reject.</summary>
        public int Returns { get; set; }

        public bool IsDone { get; set; }

        public Hand? Hand { get; set; }

        /// <summary>It was given back, or its hand is dead: it may come again.</summary>
        public bool MayReturn { get; set; }
    }

    /// <summary>What the queue knows of a member.</summary>
    private sealed record Face(GroupMember Member) : IDisposable
    {
        public void Dispose() => Member.Dispose();
    }

    private sealed class Hand(Face face)
    {
        private static readonly FieldInfo s_slot = FieldOf<GroupMember>("_slot");
        private static readonly FieldInfo s_file = FieldOf<GroupMember>("_file");
        private static readonly FieldInfo s_name = typeof(GroupFile)
            .GetFields(BindingFlags.Instance | BindingFlags.NonPublic).Single(field => field.FieldType == typeof(PlatformLock));

        public Face Face => face;

        public GroupMember Member => face.Member;

        public List<long> Numbers { get; } = [];

        /// <summary>As a process that is killed: the lock of the slot tells that the member lives.</summary>
        public void LoseLocks()
        {
            ((OwnerSlot)s_slot.GetValue(face.Member)!).Dispose();
            ((PlatformLock)s_name.GetValue(s_file.GetValue(face.Member))!).Dispose();
        }

        private static FieldInfo FieldOf<T>(string name) =>
            typeof(T).GetField(name, BindingFlags.Instance | BindingFlags.NonPublic)!;
    }

    private sealed class Run(string path)
    {
        /// <summary>For the choices inside a step.</summary>
        private Random _random = new(0);
        private readonly Dictionary<long, Message> _messages = [];
        private readonly List<Hand> _hands = [];
        private MappedFileQueue _queue = null!;
        private StoreEngine _engine = null!;

        public void Go(IEnumerable<(int What, int Seed)> steps)
        {
            Open();
            try
            {
                foreach ((int what, int seed) in steps)
                {
                    _random = new Random(seed);
                    Step(what);
                }

                Settle();
            }
            finally
            {
                Close();
            }
        }

        private void Open()
        {
            var options = new MappedFileQueueOptions
            {
                StorePath = path,
                SegmentSize = 16 * 1024,
                Durability = DurabilityLevel.PageCache,
            };
            _queue = new MappedFileQueue(options);
            _engine = new StoreEngine(options, StoreKind.Messages, 0, 0);
        }

        private void Close()
        {
            foreach (Hand hand in _hands.ToList())
                End(hand);
            _engine.Dispose();
            _queue.Dispose();
        }

        private void Step(int what)
        {
            if (what < 25)
                Produce(_random.Next(1, 20));
            else if (_hands.Count == 0 || (what < 30 && _hands.Count < MembersMax))
                _hands.Add(OpenMember());
            else if (what < 60)
                Take(Pick());
            else if (what < 80)
                Acknowledge(Pick());
            else if (what < 92)
                Reject(Pick());
            else if (what < 95)
                End(Pick());
            else if (what < 98)
                Kill(Pick());
            else if (what == 98)
                CheckFloor();
            else if (_random.Next(4) == 0)
                Reopen();
        }

        private Hand Pick() => _hands[_random.Next(_hands.Count)];

        private void Produce(int count)
        {
            for (int i = 0; i < count; i++)
            {
                long number = _messages.Count;
                _messages.Add(number, new Message { Offset = _queue.Producer.Produce(Payload.Make(0, number)) });
            }
        }

        private Hand OpenMember()
        {
            GroupOptions options = new() { DeliveriesMax = 0 };
            return new Hand(_engine.OpenGroupMember(
                "workers", options, static (in _, _) => Assert.Fail("a letter"), member => new Face(member)));
        }

        private unsafe void Take(Hand hand)
        {
            if (hand.Member.UnacknowledgedCount > 200)
                return;
            BatchPlace place = hand.Member.BeginBatch();
            int countMax = _random.Next(1, 40);
            int count = 0;
            // Without a wait: the first may find nothing.
            while (count < countMax && hand.Member.TryTakeNext(
                ref place, count == 0 ? TimeSpan.Zero : null, countMax - count, default, out byte* payload, out int length))
            {
                long number = Payload.Verify(new ReadOnlySpan<byte>(payload, length)).Number;
                Message message = _messages[number];
                Assert.Equal(message.Offset, hand.Member.MessageOffset);
                Assert.False(message.IsDone, $"{number} is done");
                Assert.True(message.Hand is null || message.MayReturn, $"{number} is in other hands");
                Assert.Equal(message.Returns + 1, hand.Member.DeliveryCount);
                (message.Hand, message.MayReturn) = (hand, false);
                hand.Numbers.Add(number);
                count++;
                if (_random.Next(3) == 0)
                    break;
            }

            hand.Member.GiveBackUnshown(in place);
            Assert.Equal(hand.Numbers.Count, hand.Member.UnacknowledgedCount);
        }

        private void Acknowledge(Hand hand)
        {
            if (hand.Numbers.Count == 0)
                return;
            long[] numbers = [.. hand.Numbers.Where(_ => _random.Next(3) != 0).OrderBy(_ => _random.Next())];
            hand.Member.Acknowledge(numbers.Select(number => _messages[number].Offset).ToArray());
            foreach (long number in numbers)
            {
                hand.Numbers.Remove(number);
                (_messages[number].IsDone, _messages[number].Hand) = (true, null);
            }
        }

        private void Reject(Hand hand)
        {
            if (hand.Numbers.Count == 0)
                return;
            long number = hand.Numbers[_random.Next(hand.Numbers.Count)];
            Message message = _messages[number];
            if (message.Returns >= LeaseState.DeliveriesMax - 2)
                return;
            hand.Member.Reject(
                message.Offset, _random.Next(3) == 0 ? TimeSpan.FromMilliseconds(_random.Next(30)) : default, false, null);
            hand.Numbers.Remove(number);
            message.Hand = null;
            message.Returns++;
        }

        /// <summary>In an orderly way: that is no delivery.</summary>
        private void End(Hand hand)
        {
            _hands.Remove(hand);
            _engine.Remove(hand.Face);
            hand.Member.Dispose();
            foreach (long number in hand.Numbers)
                _messages[number].Hand = null;
        }

        /// <summary>The queue forgets it, so that nobody gives back what it has; its mapping stays.</summary>
        private void Kill(Hand hand)
        {
            if (hand.Numbers.Any(number => _messages[number].Returns >= LeaseState.DeliveriesMax - 2))
                return;
            _hands.Remove(hand);
            _engine.Remove(hand.Face);
            hand.LoseLocks();
            foreach (long number in hand.Numbers)
            {
                _messages[number].MayReturn = true;
                _messages[number].Returns++;
            }
        }

        private void CheckFloor()
        {
            long floor = _queue.GetInfo().Groups.Single().FloorOffset;
            Assert.All(_messages.Values, message => Assert.True(message.IsDone || message.Offset >= floor));
            if (_messages.Values.All(message => message.IsDone))
                Assert.Equal(_queue.GetInfo().Groups.Single().NextOffset, floor);
        }

        /// <summary>All processes end, and one comes back alone.</summary>
        private void Reopen()
        {
            if (_queue.GetInfo().Groups.Count == 0)
                return;
            Close();
            Open();
        }

        private void Settle()
        {
            if (_hands.Count == 0)
                _hands.Add(OpenMember());
            Eventually.True(
                () =>
                {
                    foreach (Hand hand in _hands)
                    {
                        Take(hand);
                        AcknowledgeAll(hand);
                    }

                    return _messages.Values.All(message => message.IsDone);
                },
                "everything is done in the end");
            CheckFloor();
        }

        private void AcknowledgeAll(Hand hand)
        {
            hand.Member.Acknowledge(hand.Numbers.Select(number => _messages[number].Offset).ToArray());
            foreach (long number in hand.Numbers)
                (_messages[number].IsDone, _messages[number].Hand) = (true, null);
            hand.Numbers.Clear();
        }
    }
}
