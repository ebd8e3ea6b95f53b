using System.Diagnostics;
using System.Globalization;
using MappedFileQueues.Hosting;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using OpenTelemetry;
using OpenTelemetry.Exporter;
using OpenTelemetry.Trace;

// HostPeer STORE MODE: an application that consumes the queue of longs in STORE. Its handler writes `begin N` for each message,
// waits for a line on standard input when MODE is "step", and writes `end N`. It fails, and stops the application, when MODE is
// "fail". It writes `stopping` when its end has begun. The test stops it, or kills it. A third argument is the address of a
// collector that gets its traces. With MODE "group" it is three members of the group "workers", with "deadly" one, which kills
// itself at the message 13. HostPeer FILE log END logs two lines to the file, disposes nothing, and ends in the way END.
if (args[1] == "log")
    return Logging.LogAndEnd(args[0], args[2]);
HostApplicationBuilder builder = Host.CreateApplicationBuilder();
builder.Logging.ClearProviders();
builder.Services.AddSingleton(new PeerMode(Steps: args[1] == "step", Fails: args[1] == "fail", Dies: args[1] == "deadly"));
builder.Services
    .AddMappedFileQueue<long>("orders", options => options.StorePath = args[0])
    .AddMappedFileConsumer<long, PeerHandler>(
        "orders",
        options =>
        {
            if (args[1] is "group" or "deadly")
                (options.Group, options.Concurrency, options.AttemptsMax) = ("workers", args[1] == "group" ? 3 : 1, 3);
            else
                (options.OnFailure, options.AttemptsMax) = (HandlerFailureAction.StopApplication, 1);
        });
using TracerProvider? traces = args.Length < 3 ? null : Sdk.CreateTracerProviderBuilder().AddSource("MappedFileQueues")
    .AddOtlpExporter(exporter => (exporter.Endpoint, exporter.Protocol) = (new Uri(args[2]), OtlpExportProtocol.HttpProtobuf))
    .Build();
IHost host = builder.Build();
host.Services.GetRequiredService<IHostApplicationLifetime>().ApplicationStopping.Register(() => Console.WriteLine("stopping"));
host.Run();
return Environment.ExitCode;

internal sealed record PeerMode(bool Steps, bool Fails, bool Dies);

internal sealed class PeerHandler(PeerMode mode) : IMessageHandler<long>
{
    public async ValueTask HandleAsync(long message, ConsumeContext context, CancellationToken cancellationToken)
    {
        Write("begin", message);
        if (mode.Steps)
            await Task.Run(Console.In.ReadLine, CancellationToken.None);
        if (mode.Fails)
            throw new InvalidOperationException("Never.");
        if (mode.Dies && message == 13)
            Process.GetCurrentProcess().Kill();
        Write("end", message);
    }

    private static void Write(string what, long message) =>
        Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"{what} {message}"));
}

internal static class Logging
{
    public static int LogAndEnd(string path, string end)
    {
        ILogger logger = new MappedFileLoggerProvider(new MappedFileLoggerOptions { Path = path }).CreateLogger("Peer");
        AppDomain.CurrentDomain.UnhandledException += (_, _) => Log("handler");
        AppDomain.CurrentDomain.ProcessExit += (_, _) => Log("handler");
        Log("before");
        switch (end)
        {
            case "return":
                return 0;
            case "exit":
                Environment.Exit(0);
                return 1;
            default:
                Thread thrower = new(static () => throw new InvalidOperationException("Never caught."));
                thrower.Start();
                thrower.Join();
                return 1;
        }

        void Log(string line) => logger.Log(LogLevel.Information, default, line, null, static (line, _) => line);
    }
}
