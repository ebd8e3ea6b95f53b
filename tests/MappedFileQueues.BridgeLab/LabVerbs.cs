using System.Globalization;
using System.Text;
using MappedFileQueues.RabbitMQ;
using MappedFileQueues.RabbitMQ.Diagnostics;
using Microsoft.Extensions.Logging;

namespace MappedFileQueues.BridgeLab;

/// <summary>What the child processes do, until their input ends.</summary>
internal static class LabVerbs
{
    public const long SegmentSize = 4 * 1024 * 1024;

    private static readonly TimeSpan s_diskPause = TimeSpan.FromMilliseconds(50);

    public static int? Run(string[] arguments) => arguments switch
    {
        ["produce", var store, var perSecond] => Produce(store, int.Parse(perSecond, CultureInfo.InvariantCulture)),
        ["forward", var store, var brokers, var consumer, var kind, var fault] =>
            Bridge(fault, new StreamForwarder(
                ForwarderOptions(store, brokers, consumer, kind), new Words<StreamForwarder>()).RunAsync),
        ["fetch", var store, var brokers, var fault] =>
            Bridge(fault, new StreamFetcher(FetcherOptions(store, brokers), new Words<StreamFetcher>()).RunAsync),
        _ => null,
    };

    private static StreamForwarderOptions ForwarderOptions(string store, string brokers, string consumer, string kind) =>
        Fill(
            new StreamForwarderOptions
            {
                ConsumerName = consumer,
                Lock = Enum.Parse<StreamLockKind>(kind),
                PackLength = 2048,
                // The other forwarder's consumer may have been where the stream is not yet.
                OnSourceChange = SourceChangePolicy.Continue,
            },
            store, brokers);

    private static StreamFetcherOptions FetcherOptions(string store, string brokers) =>
        Fill(
            new StreamFetcherOptions { PositionInterval = TimeSpan.FromMilliseconds(100), SegmentSize = SegmentSize },
            store, brokers);

    private static T Fill<T>(T options, string store, string brokers)
        where T : BridgeOptions
    {
        (options.StorePath, options.Brokers, options.Stream) = (store, brokers, Laboratory.Stream);
        options.RequestTimeout = TimeSpan.FromSeconds(5);
        options.Heartbeat = TimeSpan.FromSeconds(2);
        options.BackOffMax = TimeSpan.FromSeconds(1);
        return options;
    }

    /// <summary>A message tells its process and its number there, so that a look at a wrong place says much.</summary>
    private static int Produce(string store, int perSecond)
    {
        using CancellationTokenSource end = EndOfInput();
        int number = 0;
        while (!end.IsCancellationRequested)
        {
            try
            {
                using MappedFileQueue queue = new(
                    new MappedFileQueueOptions { StorePath = store, SegmentSize = SegmentSize });
                Produce(queue, perSecond, ref number, end.Token);
            }
            catch (QueueDiskException)
            {
                // The disk is full for a while.
                end.Token.WaitHandle.WaitOne(s_diskPause);
            }
        }

        return 0;
    }

    private static void Produce(MappedFileQueue queue, int perSecond, ref int number, CancellationToken end)
    {
        while (!end.IsCancellationRequested)
        {
            for (int index = 0; index < Math.Max(1, perSecond / 100); index++)
            {
                string text = string.Create(CultureInfo.InvariantCulture, $"{Environment.ProcessId}:{number}");
                queue.Producer.Produce(Encoding.UTF8.GetBytes(text.PadRight(16 + (number % 100), '.')));
                number++;
            }

            end.WaitHandle.WaitOne(10);
        }
    }

    private static int Bridge(string fault, Func<CancellationToken, Task> run)
    {
        PlantedFaults.Active = Enum.Parse<PlantedFault>(fault);
        using CancellationTokenSource end = EndOfInput();
        try
        {
            run(end.Token).GetAwaiter().GetResult();
        }
        catch (OperationCanceledException) when (end.IsCancellationRequested)
        {
            return 0;
        }
        catch (Exception error)
        {
            Console.Error.WriteLine(error);
            return 1;
        }

        return 0;
    }

    private static CancellationTokenSource EndOfInput()
    {
        CancellationTokenSource end = new();
        new Thread(() =>
        {
            _ = Console.In.ReadToEnd();
            end.Cancel();
        })
        {
            IsBackground = true,
        }.Start();
        return end;
    }

    private sealed class Words<T> : ILogger<T>
    {
        public IDisposable? BeginScope<TState>(TState state)
            where TState : notnull => null;

        public bool IsEnabled(LogLevel logLevel) => true;

        public void Log<TState>(
            LogLevel logLevel, EventId eventId, TState state, Exception? exception, Func<TState, Exception?, string> formatter) =>
            Console.Error.WriteLine(formatter(state, exception));
    }
}
