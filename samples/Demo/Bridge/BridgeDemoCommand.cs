using System.CommandLine;
using System.Globalization;
using MappedFileQueues.Demo.Brokers;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Demo.Bridge;

/// <summary>`Demo bridge`: a cluster of its own, killed on the way, and the proof that nothing was lost or doubled.</summary>
internal static class BridgeDemoCommand
{
    private const long LengthMin = 24_000_000;

    public static Command Create()
    {
        Argument<string[]> files = new("FILE")
        {
            Description = "The text files whose lines are sent, repeatedly up to 24 MB; by default all text files below the "
                + "current directory.",
            Arity = ArgumentArity.ZeroOrMore,
        };
        Command command = new(
            "bridge",
            "Start three RabbitMQ nodes on loopback ports, send the lines of files from a store through a stream into another "
                + "store, kill forwarder, fetcher and nodes on the way, and compare. "
                + "Exit code 1 on any difference.") { files };
        command.SetAction(parsed =>
        {
            if (BrokerCluster.Obstacle is { } obstacle)
                throw new ToolException(obstacle);
            using Interruption interruption = new();
            string root = Directory.CreateTempSubdirectory("mfq-bridge-").FullName;
            try
            {
                string[] names = parsed.GetValue(files) ?? [];
                List<InputFile> input = names.Length > 0 ? InputFinder.FromNames(names) : InputFinder.Below(".", root);
                ErrorLine.Write("Three brokers start; that takes some 15 s.", ExitCodes.Success);
                using BrokerCluster cluster = BrokerCluster.Start(Path.Combine(root, "brokers"), 3);
                using BridgeDemoRun run = new(root, cluster, input, interruption.Token);
                BridgeDemoResult result = run.Execute(LengthMin);
                Print(result);
                return result.IsRight ? ExitCodes.Success : ExitCodes.Failure;
            }
            catch (OperationCanceledException)
            {
                return ErrorLine.Write("Interrupted.", interruption.ExitCode);
            }
            finally
            {
                Directory.Delete(root, recursive: true);
            }
        });
        return command;
    }

    private static void Print(BridgeDemoResult result)
    {
        Report deaths = new("Killed", "second", "who", "arrived in bytes");
        foreach (BridgeDeath death in result.Deaths)
            deaths.Add(death.Second.ToString("N1", CultureInfo.InvariantCulture), death.What, Report.Number(death.Arrived));
        deaths.Write();
        Report report = new("Store to stream to store", "", "sent", "arrived");
        report.Add("messages", Report.Number(result.Messages), Report.Number(result.ReceivedMessages));
        report.Add("SHA-256", result.SentDigest, result.ReceivedDigest);
        report.Write();
        string verdict = result.IsRight ? "Nothing was lost, doubled or reordered." : "The output differs from the input.";
        OutputLine.Write(string.Create(CultureInfo.InvariantCulture, $"{verdict} {result.Seconds:N1} s."));
    }
}
