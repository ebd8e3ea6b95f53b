using MappedFileQueues.RabbitMQ;
using MappedFileQueues.RabbitMQ.Connections;
using MappedFileQueues.RabbitMQ.Diagnostics;
using Microsoft.Extensions.Logging.Abstractions;

namespace MappedFileQueues.Tests.Bridge.Connections;

/// <summary>How long a bridge pauses between its attempts. No broker is needed: the attempts are a script.</summary>
public sealed class PauseTests
{
    private static readonly TimeSpan s_pauseMin = TimeSpan.FromMilliseconds(10);

    private static readonly TimeSpan s_pauseMax = TimeSpan.FromSeconds(10);

    private readonly PauseClock _clock = new();

    /// <summary>
    /// Failures of weeks ago counted on: a connection on which no message came in between ended, and the first pause after it
    /// was as long as those after ten failures in a row.
    /// </summary>
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Run_ConnectionLastedAndFails_PausesAreShortAgain(bool isStandby)
    {
        ScriptedLoop loop = new(Options(), (self, attempt) =>
        {
            if (attempt == 11)
                self.Hold(isStandby, () => _clock.Pass(TimeSpan.FromDays(20)));
            if (attempt < 12)
                throw new BrokerException("The broker has gone.");
        });
        await loop.RunAsync(once: false, CancellationToken.None);

        Assert.Equal(11, _clock.Pauses.Count);
        Assert.InRange(_clock.Pauses[9], s_pauseMin * 64, s_pauseMax);
        Assert.InRange(_clock.Pauses[10], TimeSpan.Zero, s_pauseMin);
    }

    /// <summary>A broker that takes the connection and ends it at once is no better than one that refuses it.</summary>
    [Fact]
    public async Task Run_ConnectionsEndAtOnce_PausesGrow()
    {
        ScriptedLoop loop = new(Options(), (self, attempt) =>
        {
            self.Hold(isStandby: false, () => _clock.Pass(TimeSpan.FromMilliseconds(1)));
            if (attempt < 10)
                throw new BrokerException("The broker has gone.");
        });
        await loop.RunAsync(once: false, CancellationToken.None);

        Assert.InRange(_clock.Pauses[8], s_pauseMin * 64, s_pauseMax);
    }

    /// <summary>
    /// A forwarder that stood by looked six times a second whether the lock was free, and each look is a connection: the broker
    /// opened and closed half a million of them a day.
    /// </summary>
    [Fact]
    public async Task Run_AnotherHasTheLock_LooksAboutOnceASecond()
    {
        ScriptedLoop loop = new(Options(), static (_, attempt) =>
        {
            if (attempt < 20)
                throw new LockHeldException("lock");
        });
        await loop.RunAsync(once: false, CancellationToken.None);

        Assert.Equal(19, _clock.Pauses.Count);
        Assert.All(_clock.Pauses, pause => Assert.InRange(pause, TimeSpan.FromSeconds(1), TimeSpan.FromSeconds(2)));
    }

    /// <summary>
    /// With a longest pause of a second or less each standby looked after exactly that time: those that lost one lock together
    /// came together ever after.
    /// </summary>
    [Fact]
    public async Task Run_AnotherHasTheLockAndPausesAreShort_LooksAtRandomTimes()
    {
        StreamForwarderOptions options = Options();
        options.BackOffMax = TimeSpan.FromSeconds(1);
        ScriptedLoop loop = new(options, static (_, attempt) =>
        {
            if (attempt < 20)
                throw new LockHeldException("lock");
        });
        await loop.RunAsync(once: false, CancellationToken.None);

        Assert.All(_clock.Pauses, pause => Assert.InRange(pause, options.BackOffMax / 2, options.BackOffMax));
        Assert.InRange(_clock.Pauses.Distinct().Count(), 10, 19);
    }

    private StreamForwarderOptions Options() => new()
    {
        StorePath = "store",
        Stream = "stream",
        Brokers = "amqp://127.0.0.1:1",
        BackOffMin = s_pauseMin,
        BackOffMax = s_pauseMax,
        TimeProvider = _clock,
    };

    private sealed class ScriptedLoop(BridgeOptions options, Action<ScriptedLoop, int> attempt)
        : BridgeLoop(options, "Forward", NullLogger.Instance)
    {
        private int _attempts;

        public void Hold(bool isStandby, Action wait)
        {
            if (isStandby)
                Standby("Another one has the lock.");
            else
                Running(0);
            wait();
        }

        protected override Task AttemptAsync(bool once, CancellationToken cancellationToken)
        {
            Connecting();
            attempt(this, ++_attempts);
            return Task.CompletedTask;
        }

        protected override void Close()
        {
        }
    }

    /// <summary>A clock on which a pause takes no time, and is noted.</summary>
    private sealed class PauseClock : TimeProvider
    {
        private DateTimeOffset _now = DateTimeOffset.UnixEpoch;

        public List<TimeSpan> Pauses { get; } = [];

        public override long TimestampFrequency => TimeSpan.TicksPerSecond;

        public void Pass(TimeSpan time) => _now += time;

        public override DateTimeOffset GetUtcNow() => _now;

        public override long GetTimestamp() => _now.UtcTicks;

        public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period)
        {
            Pauses.Add(dueTime);
            _now += dueTime;
            return System.CreateTimer(callback, state, TimeSpan.Zero, period);
        }
    }
}
