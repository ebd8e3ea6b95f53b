namespace MappedFileQueues.CrashLab.Groups;

/// <summary>What the processes do most.</summary>
internal enum GroupHabit
{
    Mixed,

    /// <summary>They end what they have and remove it, and save nothing themselves.</summary>
    EndAndTrim,

    /// <summary>They take much at once, and end the beginning of it; segments go below the rest.</summary>
    DropHalf,

    /// <summary>They take messages one by one, and end them at once.</summary>
    TakeAndEnd,

    /// <summary>They reject what they take, until it goes to the dead letters.</summary>
    RejectAll,
}

/// <summary>What kind of store a seed makes, and how its group is used.</summary>
internal sealed record GroupPlan
{
    public const string Group = "g";
    public const int SegmentSize = 4096;

    private const int HabitEvery = 6;

    /// <param name="seed">The run's.</param>
    /// <param name="random">Of this seed.</param>
    public GroupPlan(int seed, Random random)
    {
        PlaceCount = random.Next(2, 5);
        LengthMax = random.Next(3) switch { 0 => 40, 1 => 200, _ => 500 };
        DeliveriesMax = random.Next(3) == 0 ? random.Next(1, 4) : 0;
        Drops = random.Next(4) == 0;
        Trims = Drops || random.Next(2) == 0;
        BatchMax = random.Next(3) switch { 0 => 1, 1 => 4, _ => 40 };
        HasFence = random.Next(2) == 0;
        Fences = random.Next(4) == 0;
        Habit = (seed % HabitEvery) switch
        {
            1 => GroupHabit.EndAndTrim,
            3 => GroupHabit.DropHalf,
            4 => GroupHabit.RejectAll,
            5 => GroupHabit.TakeAndEnd,
            _ => GroupHabit.Mixed,
        };
        if (Habit != GroupHabit.Mixed)
            (Fences, DeliveriesMax, Drops, Trims) = (false, 0, Habit == GroupHabit.DropHalf, Habit != GroupHabit.TakeAndEnd);
        if (Habit == GroupHabit.DropHalf)
            (BatchMax, LengthMax) = (40, 500);
        if (Habit == GroupHabit.TakeAndEnd)
            (PlaceCount, BatchMax) = (4, 1);
        if (Habit == GroupHabit.RejectAll)
            (PlaceCount, Trims, DeliveriesMax) = (4, false, random.Next(1, 3));
        byte[] id = new byte[16];
        random.NextBytes(id);
        StoreId = new Guid(id);
    }

    public GroupHabit Habit { get; }

    /// <summary>Names of files begin with it, and their order is the seed's too.</summary>
    public Guid StoreId { get; }

    /// <summary>Processes that live at the same time.</summary>
    public int PlaceCount { get; }

    public int LengthMax { get; }

    /// <summary>As the option of that name.</summary>
    public int DeliveriesMax { get; }

    /// <summary>Retention removes what the group has not ended.</summary>
    public bool Drops { get; }

    public bool Trims { get; }

    public int BatchMax { get; }

    public bool HasFence { get; }

    /// <summary>Operators fence members that live.</summary>
    public bool Fences { get; }

    public GroupOptions MemberOptions => new()
    {
        DeliveriesMax = DeliveriesMax,
        OnOutOfRange = Drops ? OutOfRangePolicy.Earliest : OutOfRangePolicy.Throw,
    };

    public RetentionOptions Retention => new() { KeepUnconsumed = !Drops };

    public override string ToString() => $"{Habit}, places={PlaceCount}, lengths={LengthMax}, "
        + $"deliveries={DeliveriesMax}, drops={Drops}, trims={Trims}, batch={BatchMax}, fence={HasFence}, fences={Fences}";

    public MappedFileQueueOptions Options(TimeProvider time) => new()
    {
        StorePath = Sim.SimDisk.Root,
        SegmentSize = SegmentSize,
        ConsumerSpinWaitDuration = TimeSpan.Zero,
        FlushInterval = TimeSpan.FromHours(1),
        StoreId = StoreId,
        TimeProvider = time,
    };
}

/// <summary>A clock that stands still until somebody moves it; all processes of a boot have the same.</summary>
internal sealed class StageClock(long ticks) : TimeProvider
{
    private static readonly DateTimeOffset s_began = new(2026, 1, 1, 0, 0, 0, TimeSpan.Zero);

    public long Ticks { get; private set; } = ticks;

    public override long TimestampFrequency => TimeSpan.TicksPerSecond;

    public void Advance(TimeSpan time) => Ticks += time.Ticks;

    public override long GetTimestamp() => Ticks;

    public override DateTimeOffset GetUtcNow() => s_began.AddTicks(Ticks);
}
