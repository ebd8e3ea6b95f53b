// Request and reply over two queues: clients append requests, a server appends replies with the same id. The server is killed in
// the middle; each request is answered exactly once all the same, because the request's offset is the reply's sequence.
// Run it with: dotnet run samples/request-reply.cs
#:project ../src/MappedFileQueues/MappedFileQueues.csproj
using System.Collections.Concurrent;
using System.Diagnostics;
using MappedFileQueues;

const int Count = 20_000;
if (args is ["serve", string serverFolder])
    return Serve(serverFolder);

string folder = Directory.CreateTempSubdirectory("mfq-sample-").FullName;
try
{
    using var requests = Open<Request>(folder, "requests");
    using var replies = Open<Reply>(folder, "replies");
    var waiting = new ConcurrentDictionary<long, TaskCompletionSource<long>>();
    using var stop = new CancellationTokenSource();
    Task<int> receiver = Task.Run(() => Receive(replies, waiting, stop.Token));

    Process server = StartThisProgram("serve", folder);
    List<Task<long>> calls = [];
    for (long id = 0; id < Count; id++)
    {
        calls.Add(Ask(id, id * 3));
        if (id != Count / 2)
            continue;
        await calls[100];       // it serves
        server.Kill();          // SIGKILL
        server.WaitForExit();
        server = StartThisProgram("serve", folder);
    }

    long[] answers = await Task.WhenAll(calls);
    server.Kill();
    server.WaitForExit();
    await stop.CancelAsync();
    int received = await receiver;
    Console.WriteLine($"{Count} requests, one server killed, {received} replies");
    return received == Count && answers.Select((answer, id) => answer == id * 3 + 1).All(isRight => isRight) ? 0 : 1;

    Task<long> Ask(long id, long question)
    {
        var answer = new TaskCompletionSource<long>(TaskCreationOptions.RunContinuationsAsynchronously);
        waiting[id] = answer;   // before the reply can come
        requests.Producer.Produce(new Request(id, question));
        return answer.Task;
    }
}
finally
{
    Directory.Delete(folder, recursive: true);
}

static async Task<int> Receive(
    MappedFileQueue<Reply> replies, ConcurrentDictionary<long, TaskCompletionSource<long>> waiting, CancellationToken stop)
{
    using MappedFileConsumer<Reply> consumer = replies.OpenConsumer("client");
    int count = 0;
    try
    {
        while (await consumer.WaitToConsumeAsync(stop))
        {
            consumer.TryConsume(out Reply reply);
            if (waiting.TryRemove(reply.Id, out TaskCompletionSource<long>? answer))
                answer.SetResult(reply.Answer);
            consumer.Commit();
            count++;
        }
    }
    catch (OperationCanceledException)
    {
        // The end.
    }

    return count;
}

static int Serve(string folder)
{
    using var requests = Open<Request>(folder, "requests");
    using var replies = Open<Reply>(folder, "replies");
    using MappedFileConsumer<Request> consumer = requests.OpenConsumer("server");
    using MappedFileIdempotentProducer<Reply> producer = replies.OpenProducer("server");
    while (true)
    {
        consumer.Consume(out Request request);
        // False: a server that died before its commit has answered already. Sequences begin with 1, offsets with 0.
        producer.TryProduce(new Reply(request.Id, request.Question + 1), (ulong)consumer.MessageOffset + 1);
        consumer.Commit();
    }
}

static MappedFileQueue<T> Open<T>(string folder, string name)
    where T : unmanaged => new(new MappedFileQueueOptions
    {
        StorePath = Path.Combine(folder, name),
        LockTimeout = TimeSpan.FromSeconds(10),   // the names of a server that was killed are free a moment later
    });

static Process StartThisProgram(params string[] arguments)
{
    string program = Environment.ProcessPath!;
    string[] self = Path.GetFileNameWithoutExtension(program) == "dotnet" ? ["exec", Environment.GetCommandLineArgs()[0]] : [];
    return Process.Start(new ProcessStartInfo(program, [.. self, .. arguments]))!;
}

internal readonly record struct Request(long Id, long Question);

internal readonly record struct Reply(long Id, long Answer);
