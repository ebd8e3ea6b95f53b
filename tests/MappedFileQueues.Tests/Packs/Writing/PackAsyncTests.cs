using System.Buffers;
using MappedFileQueues.Packs;

namespace MappedFileQueues.Tests.Packs.Writing;

/// <summary>Puts, deletes, gets and flushes that no thread waits for.</summary>
public sealed class PackAsyncTests : IDisposable
{
    private readonly TempStore _temp = new();

    public void Dispose() => _temp.Dispose();

    private static CancellationToken Cancellation => TestContext.Current.CancellationToken;

    [Fact]
    public async Task PutGetDeleteAsync_AnyLength_AsTheOthers()
    {
        await using (Closing closing = new(PackStore.Open(_temp.StorePath, new PackOptions { VolumeSize = 1 << 20 })))
        {
            PackStore pack = closing.Pack;
            foreach (int length in (int[])[0, 100, 16_000, 17_000, 3_000_000])
            {
                byte[] data = PackBytes.Make(length, length);
                await pack.PutAsync($"{length}", data, PackDurability.Group, Cancellation);
                using IMemoryOwner<byte>? got = await pack.GetAsync($"{length}", Cancellation);
                Assert.Equal(data, got!.Memory.ToArray());
            }

            Assert.Null(await pack.GetAsync("never", Cancellation));
            Assert.True(await pack.DeleteAsync("100", cancellationToken: Cancellation));
            Assert.False(await pack.DeleteAsync("100", PackDurability.Group, Cancellation));
            await pack.FlushAsync(Cancellation);
            using PackReader reader = PackStore.OpenReader(_temp.StorePath);
            using IMemoryOwner<byte>? read = await reader.GetAsync("17000", Cancellation);
            Assert.Equal(PackBytes.Make(17_000, 17_000), read!.Memory.ToArray());
            Assert.Null(await reader.GetAsync("100", Cancellation));
            await Assert.ThrowsAsync<ArgumentException>(async () => await pack.PutAsync(new byte[70_000], default));
        }
    }

    /// <summary>A thousand durable puts at once: a few syncs, and no thread for each.</summary>
    [Fact]
    public async Task PutAsync_ManyAtOnce_ShareSyncs()
    {
        const int Count = 1000;
        var disk = new FaultyDisk();
        int syncs = 0;
        using var mayEnd = new ManualResetEventSlim();
        using PackStore pack = PackStore.Open(_temp.StorePath);
        pack.Put("before", [0]);
        disk.Before = (call, name) =>
        {
            if (call != DiskCall.Sync)
                return;
            Interlocked.Increment(ref syncs);
            Assert.True(mayEnd.Wait(Eventually.DefaultDeadline));
        };
        Task[] puts = [.. Enumerable.Range(0, Count).Select(i =>
            pack.PutAsync($"{i}", PackBytes.Make(100, i), PackDurability.Group, Cancellation).AsTask())];
        Assert.Equal(Count + 1, pack.Count);
        Assert.DoesNotContain(puts, put => put.IsCompleted);
        mayEnd.Set();
        await Task.WhenAll(puts);
        Assert.InRange(syncs, 1, 3);
        disk.Before = null;
    }

    /// <summary>The one that is cancelled has put its object, and the others are told of the failed sync, all of them.</summary>
    [Fact]
    public async Task PutAsync_CancelledOrTheSyncFails_SaysSo()
    {
        var disk = new FaultyDisk();
        using var isInSync = new ManualResetEventSlim();
        using var mayEnd = new ManualResetEventSlim();
        using PackStore pack = PackStore.Open(_temp.StorePath);
        pack.Put("before", [0], PackDurability.Group);
        disk.Before = (call, name) =>
        {
            if (call != DiskCall.Sync)
                return;
            isInSync.Set();
            Assert.True(mayEnd.Wait(Eventually.DefaultDeadline));
            throw FaultyDisk.Broken(name);
        };
        using var cancellation = new CancellationTokenSource();
        Task cancelled = pack.PutAsync("cancelled", new byte[] { 1 }, PackDurability.Group, cancellation.Token).AsTask();
        Task failed = pack.PutAsync("failed", new byte[] { 2 }, PackDurability.Group, Cancellation).AsTask();
        isInSync.Wait(Cancellation);
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => cancelled);
        Assert.True(pack.Contains("cancelled"));
        mayEnd.Set();
        await Assert.ThrowsAnyAsync<MappedFileQueueException>(() => failed);
        await Assert.ThrowsAsync<PackPoisonedException>(
            async () => await pack.PutAsync("after", new byte[] { 3 }, PackDurability.Group, Cancellation));
        await Assert.ThrowsAnyAsync<OperationCanceledException>(
            async () => await pack.PutAsync("never", new byte[] { 3 }, null, new CancellationToken(canceled: true)));
        disk.Before = null;
    }

    private sealed class Closing(PackStore pack) : IAsyncDisposable
    {
        public PackStore Pack => pack;

        public ValueTask DisposeAsync()
        {
            pack.Dispose();
            return ValueTask.CompletedTask;
        }
    }
}
