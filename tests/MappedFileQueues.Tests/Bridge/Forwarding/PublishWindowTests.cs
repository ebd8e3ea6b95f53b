using MappedFileQueues.RabbitMQ.Forwarding;

namespace MappedFileQueues.Tests.Bridge.Forwarding;

/// <summary>When a publisher whose window is full goes on.</summary>
public sealed class PublishWindowTests
{
    private const int Capacity = 8;

    private static readonly TimeSpan s_long = TimeSpan.FromMinutes(1);

    private static CancellationToken Token => TestContext.Current.CancellationToken;

    /// <summary>It woke for each confirm, published one message, and slept again.</summary>
    [Fact]
    public async Task WaitForRoomAsync_WindowIsFull_WaitsForAQuarter()
    {
        PublishWindow window = Full();
        Task waiting = window.WaitForRoomAsync(s_long, Token);

        window.Confirm(1, multiple: false);
        Assert.False(waiting.IsCompleted);
        Assert.False(window.IsFull);
        window.Confirm(2, multiple: false);

        await waiting.WaitAsync(s_long, Token);
    }

    /// <summary>Messages after one that is not confirmed hold their places.</summary>
    [Fact]
    public async Task WaitForRoomAsync_OldestIsConfirmedLast_WaitsForIt()
    {
        PublishWindow window = Full();
        Task waiting = window.WaitForRoomAsync(s_long, Token);

        for (ulong number = 2; number <= Capacity; number++)
            window.Confirm(number, multiple: false);
        Assert.True(window.IsFull);
        Assert.False(waiting.IsCompleted);
        window.Confirm(1, multiple: false);

        await waiting.WaitAsync(s_long, Token);
        Assert.True(window.IsEmpty);
    }

    [Fact]
    public async Task WaitForRoomAsync_RoomIsThereOrTimeIsOver_Returns()
    {
        PublishWindow window = Full();
        window.Confirm(2, multiple: true);
        Assert.True(window.WaitForRoomAsync(s_long, Token).IsCompletedSuccessfully);

        await Full().WaitForRoomAsync(TimeSpan.FromMilliseconds(1), Token);
    }

    /// <summary>A wait for any confirm is woken by each, also after a wait for room whose time was over.</summary>
    [Fact]
    public async Task WaitAsync_AfterAWaitForRoom_IsWokenByOneConfirm()
    {
        PublishWindow window = Full();
        await window.WaitForRoomAsync(TimeSpan.FromMilliseconds(1), Token);
        Task waiting = window.WaitAsync(s_long, Token);

        window.Confirm(1, multiple: false);

        await waiting.WaitAsync(s_long, Token);
    }

    /// <summary>One place is a window too.</summary>
    [Fact]
    public async Task WaitForRoomAsync_WindowOfOne_WaitsForItsConfirm()
    {
        PublishWindow window = new(1);
        window.Add(8, 1, 1, 0);
        Task waiting = window.WaitForRoomAsync(s_long, Token);
        Assert.False(waiting.IsCompleted);

        window.Confirm(1, multiple: false);

        await waiting.WaitAsync(s_long, Token);
    }

    private static PublishWindow Full()
    {
        PublishWindow window = new(Capacity);
        for (int number = 1; number <= Capacity; number++)
            window.Add(number * 8, 1, 1, 0);
        Assert.True(window.IsFull);
        return window;
    }
}
