using MappedFileQueues.CrashLab.Sim;
using MappedFileQueues.CrashLab.Work;
using MappedFileQueues.Format;

namespace MappedFileQueues.CrashLab.Groups;

/// <summary>
/// Plays several simulated processes, each on a thread of its own, of which one runs at a time: at each of their points the
/// seed says who continues, who stands still for a while, and who dies there. So every order of steps can come, and a seed
/// makes the same one again.
/// </summary>
/// <param name="random">Chooses.</param>
/// <param name="disk">What they share.</param>
/// <param name="killsMax">So many of them die at most.</param>
internal sealed class GroupStage(Random random, SimDisk disk, int killsMax)
{
    private const int StackLength = 512 * 1024;

    /// <summary>One point of so many lets another one continue.</summary>
    private const int SwitchEvery = 5;

    private const int StopEvery = 6;
    private const int StoppedMax = 60;
    private const int KillEvery = 400;
    private const int KillAtGroupStepEvery = 40;

    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(60);

    [ThreadStatic]
    private static Player? t_player;

    private readonly List<Player> _players = [];
    private readonly List<Player> _dead = [];
    private readonly ManualResetEventSlim _isOver = new(false);
    private int _turn;
    private int _kills;
    private volatile bool _isUnwinding;

    /// <summary>Called at each point, before anybody else continues.</summary>
    public Action<string>? Point { get; set; }

    /// <summary>Called when a process has died.</summary>
    public Action<GroupActor>? Died { get; set; }

    /// <summary>Makes the process that comes after one that has ended; null: none comes.</summary>
    public Func<int, GroupActor?>? Next { get; set; }

    /// <summary>The first promise that was broken.</summary>
    public Exception? Failure { get; private set; }

    public int Kills => _kills;

    /// <summary>Plays them until all have ended.</summary>
    /// <param name="places">So many live at the same time.</param>
    /// <param name="atEnd">Called then; what the dead ones leave is not touched yet.</param>
    public void Run(int places, Action atEnd)
    {
        disk.Refused = OnRefused;
        disk.Point = OnPoint;
        try
        {
            for (int place = 0; place < places; place++)
                Start(place);
            PassOn();
            if (!_isOver.Wait(s_patience))
                Failure ??= new LabViolation("The processes wait for each other");
            disk.Point = null;
            atEnd();
        }
        finally
        {
            disk.Point = null;
            disk.Refused = null;
            Unwind();
        }
    }

    /// <summary>What is not to be interrupted: another part of the laboratory does that.</summary>
    public static void Whole(Action work)
    {
        Player? player = t_player;
        if (player is not null)
            player.Whole++;
        try
        {
            work();
        }
        finally
        {
            if (player is not null)
                player.Whole--;
        }
    }

    private void Start(int place)
    {
        if (Failure is not null || Next!(place) is not { } actor)
            return;
        var player = new Player(actor, place);
        actor.Os.Sleeping = () => LetOthers(player);
        _players.Add(player);
        player.Thread = new Thread(() => Play(player), StackLength) { IsBackground = true };
        player.Thread.Start();
    }

    private void Play(Player player)
    {
        t_player = player;
        LabThread.Point = OnPoint;
        LabThread.Background.Clear();
        player.Turn.Wait();
        try
        {
            if (!_isUnwinding)
                player.Actor.Live();
        }
        catch (Killed)
        {
            return;
        }
        catch (Exception error)
        {
            if (player.IsDead)
                return;
            Failure ??= error;
        }

        if (player.IsDead || _isUnwinding)
            return;
        player.Actor.Os.Kill();
        _players.Remove(player);
        Start(player.Place);
        PassOn();
    }

    private void OnPoint(string where)
    {
        if (t_player is not { } player || player.IsDead || _isUnwinding)
            return;
        Point?.Invoke(where);
        if (player.Whole > 0)
            return;
        bool isGroups = where.StartsWith("Group", StringComparison.Ordinal);
        if (_kills < killsMax && random.Next(isGroups ? KillAtGroupStepEvery : KillEvery) == 0)
        {
            Player[] mortal = [.. _players.Where(other => other.Whole == 0)];
            Kill(random.Next(3) == 0 ? mortal[random.Next(mortal.Length)] : player);
            if (player.IsDead)
            {
                PassOn();
                Park(player);
            }
        }

        // A process that has just read what the next hand-out begins with may have read what is old by then.
        bool isLate = where is nameof(Memory.ProtocolStep.GroupNextRead) or nameof(Memory.ProtocolStep.GroupNextScanned)
            or nameof(Memory.ProtocolStep.GroupRangesScanned);
        if (random.Next(isLate ? 2 : SwitchEvery) == 0)
        {
            if (random.Next(StopEvery) == 0)
                player.StoppedUntil = _turn + random.Next(StoppedMax);
            LetOthers(player);
        }
    }

    /// <summary>Others continue until nobody else has the lock, or nobody else can continue.</summary>
    private void OnRefused(string name)
    {
        bool isAwaited = name == StoreNames.OpenLock || name.StartsWith(StoreNames.SavedGroupLock(""), StringComparison.Ordinal);
        if (t_player is not { } player || player.IsDead || _isUnwinding || !isAwaited)
            return;
        player.StoppedUntil = 0;
        for (int i = 0; i < 1000 && _players.Count > 1 && IsHeldByOthers(name, player); i++)
            LetOthers(player);
    }

    /// <summary>Who opens a store asks for its own lock once more, to see that the locks work.</summary>
    private bool IsHeldByOthers(string name, Player player)
    {
        lock (disk.Gate)
            return disk.Locks.Holders(name).Any() && !disk.Locks.Holders(name).Contains(player.Actor.Os);
    }

    private void LetOthers(Player player)
    {
        if (_players.Count < 2 || player.IsDead || _isUnwinding)
            return;
        PassOn(player);
        if (player.IsDead || _isUnwinding)
            Park(player);
    }

    /// <summary>Chooses who continues; the one that is given waits until it is its turn again.</summary>
    private void PassOn(Player? from = null)
    {
        _turn++;
        if (_players.Count == 0)
        {
            _isOver.Set();
            return;
        }

        List<Player> able = [.. _players.Where(player => player.StoppedUntil <= _turn && player != from)];
        if (able.Count == 0)
            able = [.. _players.Where(player => player != from)];
        Player next = able.Count == 0 ? from! : able[random.Next(able.Count)];
        if (next == from)
            return;
        next.Turn.Release();
        from?.Turn.Wait();
    }

    private void Kill(Player player)
    {
        _kills++;
        player.IsDead = true;
        player.Actor.Os.Kill();
        _players.Remove(player);
        _dead.Add(player);
        Died?.Invoke(player.Actor);
        Start(player.Place);
    }

    /// <summary>What it would have put in order on its way out stays as it is, until nobody looks any more.</summary>
    private void Park(Player player)
    {
        if (!_isUnwinding)
            player.Turn.Wait();
        throw new Killed();
    }

    private void Unwind()
    {
        _isUnwinding = true;
        foreach (Player player in _dead.Concat(_players))
        {
            player.IsDead = true;
            player.Actor.Os.Kill();
            player.Turn.Release();
            player.Thread!.Join(TimeSpan.FromSeconds(5));
        }
    }

    private sealed class Player(GroupActor actor, int place)
    {
        public GroupActor Actor => actor;

        public int Place => place;

        public SemaphoreSlim Turn { get; } = new(0);

        public Thread? Thread { get; set; }

        public bool IsDead { get; set; }

        public int StoppedUntil { get; set; }

        /// <summary>How many works it is in that are not to be interrupted.</summary>
        public int Whole { get; set; }
    }

    private sealed class Killed : Exception;
}
