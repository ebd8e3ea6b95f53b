using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Http.Json;
using MappedFileQueues.Tests.Platform;
using MappedFileQueues.Tests.Tool;

namespace MappedFileQueues.Tests.Hosting.Consumers;

/// <summary>
/// The web API of the samples under real requests, killed in the middle of them again and again: every order that it accepted is
/// in the queue, and its effect is there once.
/// </summary>
[Trait("Category", "Slow")]
[Trait("Category", "Laboratory")]
public sealed class WebSampleTests : IDisposable
{
    private const string Listening = "Now listening on: ";
    private const int Kills = 4;
    private const int ClientCount = 4;
    private const int AnswersBeforeKill = 40;

    private readonly TempStore _folder = new(createStoreFolder: true);
    private readonly ConcurrentDictionary<long, long> _accepted = [];
    private long _id;

    public void Dispose() => _folder.Dispose();

    [Fact]
    public async Task Kill_UnderRequests_EveryAcceptedOrderIsHandledOnce()
    {
        string program = BuiltSample.Of("minimal-api");
        for (int i = 0; i < Kills; i++)
        {
            using ChildProcess server = Start(program);
            Task clients = RunClientsAsync(AddressOf(server));
            int before = _accepted.Count;
            Eventually.True(() => _accepted.Count >= before + AnswersBeforeKill, "orders are accepted");
            server.KillAndWait();
            await clients;
        }

        using (ChildProcess last = Start(program))
        {
            using HttpClient client = new() { BaseAddress = AddressOf(last) };
            Assert.True(await TryOrderAsync(client));
            Assert.Equal("Healthy", await client.GetStringAsync("health", TestContext.Current.CancellationToken));
            Eventually.Equal(Orders().Count, () => Ledger().Count);
            last.KillAndWait();
        }

        AssertEachOnce();

        // Everything is handed out once more, as after a crash of a process that had committed nothing.
        using (MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = OrdersPath }))
            queue.ResetConsumer("", QueueStart.Earliest);
        using (ChildProcess again = Start(program))
        {
            AddressOf(again);
            Eventually.Equal(0, Lag);
            again.KillAndWait();
        }

        AssertEachOnce();
    }

    /// <summary>
    /// A newcomer's container: the default segments of 64 MiB and the health check's limit of 256 MiB free took the sample for a
    /// disk that was nearly full, before its first order.
    /// </summary>
    [Fact]
    public void Run_DiskOf256MiB_HandlesTheOrdersAndIsHealthy()
    {
        string program = BuiltSample.Of("minimal-api");
        using MountedFileSystem disk = MountedFileSystem.Make("ext4", _folder.StorePath, lengthMiB: 256);
        ProcessStartInfo start = new("dotnet", ["exec", program]);
        start.Environment["TMPDIR"] = disk.Path;

        ToolRun run = ToolRun.Start(start, []);

        Assert.True(run.ExitCode == 0, run.Text + run.Error);
        Assert.Equal("100 orders handled, health Healthy", run.Lines[^1]);
    }

    private string OrdersPath => _folder.PathOf("orders");

    private ChildProcess Start(string program) =>
        ChildProcess.Start(program, ["--store", _folder.StorePath, "--urls", "http://127.0.0.1:0"]);

    private static Uri AddressOf(ChildProcess server)
    {
        string line = server.WaitForLine(line => line.Contains(Listening, StringComparison.Ordinal));
        return new Uri(line[(line.IndexOf(Listening, StringComparison.Ordinal) + Listening.Length)..]);
    }

    /// <summary>Clients that send one order after the other until nobody answers.</summary>
    private Task RunClientsAsync(Uri address) => Task.WhenAll(Enumerable.Range(0, ClientCount).Select(_ => Task.Run(async () =>
    {
        using HttpClient client = new() { BaseAddress = address };
        while (await TryOrderAsync(client))
        {
        }
    })));

    /// <summary>Sends an order that nobody has sent; false when the server is gone, and then nobody knows of the order.</summary>
    private async Task<bool> TryOrderAsync(HttpClient client)
    {
        long id = Interlocked.Increment(ref _id);
        try
        {
            using HttpResponseMessage response = await client.PostAsJsonAsync(
                "orders", new { id, amount = 19.9m }, TestContext.Current.CancellationToken);
            Assert.Equal(HttpStatusCode.Accepted, response.StatusCode);
            Receipt? receipt = await response.Content.ReadFromJsonAsync<Receipt>(TestContext.Current.CancellationToken);
            _accepted[id] = receipt!.Offset;
            return true;
        }
        catch (Exception error) when (error is HttpRequestException or IOException)
        {
            return false;
        }
    }

    private void AssertEachOnce()
    {
        List<(long Offset, long Id)> orders = Orders();
        List<(long Offset, long Id)> ledger = Ledger();
        Assert.Equal(orders, ledger);
        Assert.Equal(ledger.Count, ledger.Select(entry => entry.Id).Distinct().Count());
        Dictionary<long, long> offsets = ledger.ToDictionary(entry => entry.Id, entry => entry.Offset);
        Assert.True(_accepted.Count > Kills * AnswersBeforeKill);
        Assert.All(_accepted, order => Assert.Equal(order.Value, offsets[order.Key]));
    }

    private List<(long Offset, long Id)> Orders()
    {
        using MappedFileReader reader = MappedFileReader.Open(OrdersPath);
        List<(long, long)> orders = [];
        while (reader.TryRead(out ReadOnlySpan<byte> message))
            orders.Add((reader.MessageOffset, System.Text.Json.JsonElement.Parse(message).GetProperty("Id").GetInt64()));
        return orders;
    }

    private List<(long Offset, long Id)> Ledger() =>
    [
        .. File.ReadAllLines(_folder.PathOf("ledger")).Select(line => line.Split(' '))
            .Select(fields => (Number(fields[0]), Number(fields[1]))),
    ];

    private long Lag()
    {
        using MappedFileQueue queue = new(new MappedFileQueueOptions { StorePath = OrdersPath });
        return queue.GetInfo().Consumers.Single().Lag;
    }

    private static long Number(string text) => long.Parse(text, CultureInfo.InvariantCulture);

    private sealed record Receipt(long Offset);
}
