using System.Collections.Concurrent;
using System.Globalization;
using System.Runtime.InteropServices;

namespace MappedFileQueues.Demo;

/// <summary>A command of the parent to a child: a number that the answer repeats, a verb, and its values.</summary>
/// <param name="Serial">The number.</param>
/// <param name="Verb">What to do.</param>
/// <param name="Values">The values for it.</param>
internal readonly record struct ParentCommand(long Serial, string Verb, long[] Values);

/// <summary>
/// A child's side of the link to the demo: commands come in on standard input, one per line, and reports go out on standard
/// output. When the input ends, the parent is gone, and the child ends at once.
/// </summary>
internal sealed class ParentLink : IDisposable
{
    private const int ExitOrphaned = 3;

    private readonly BlockingCollection<ParentCommand> _commands = [];

    /// <summary>Kept here because a registration ends when nothing references it.</summary>
    private readonly PosixSignalRegistration _interrupt;

    /// <summary>Starts to listen.</summary>
    public ParentLink()
    {
        // Ctrl-C reaches every process of the terminal's foreground group; the parent decides what it means and ends the input.
        _interrupt = PosixSignalRegistration.Create(PosixSignal.SIGINT, context => context.Cancel = true);
        new Thread(Listen) { IsBackground = true, Name = "commands" }.Start();
    }

    /// <summary>True if a command waits; a burst ends when the parent sends another command.</summary>
    public bool HasCommand => _commands.Count > 0;

    /// <summary>Waits for the next command.</summary>
    public ParentCommand Take() => _commands.Take();

    /// <summary>Takes a command if there is one.</summary>
    public bool TryTake(out ParentCommand command) => _commands.TryTake(out command);

    /// <summary>Tells the parent how far this child has come.</summary>
    public void ReportProgress(DemoProgress progress) =>
        Send(string.Create(CultureInfo.InvariantCulture, $"at {progress.Messages} {progress.Bytes}"));

    /// <summary>Tells the parent that a command is done, and its result.</summary>
    public void Answer(long serial, DemoProgress progress, string text = "") =>
        Send(string.Create(CultureInfo.InvariantCulture, $"done {progress.Messages} {progress.Bytes} {serial} {text}"));

    /// <summary>Stops holding Ctrl-C back. The listener ends with the process.</summary>
    public void Dispose() => _interrupt.Dispose();

    private static void Send(string line) => Console.Out.WriteLine(line);

    private void Listen()
    {
        while (Console.In.ReadLine() is { } line)
        {
            string[] words = line.Split(' ');
            long[] values = [.. words.Skip(2).Select(word => long.Parse(word, CultureInfo.InvariantCulture))];
            _commands.Add(new ParentCommand(long.Parse(words[0], CultureInfo.InvariantCulture), words[1], values));
        }

        Environment.Exit(ExitOrphaned);
    }
}
