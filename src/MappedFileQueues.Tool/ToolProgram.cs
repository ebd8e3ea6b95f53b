using System.Runtime.InteropServices;

namespace MappedFileQueues.Tool;

/// <summary>What a program of this project does around its commands: platform, errors, exit codes.</summary>
internal static class ToolProgram
{
    /// <summary>Precedes every other argument and selects the portable platform.</summary>
    public const string PortableArgument = "--portable";

    public const string PortableSwitch = "MappedFileQueues.UsePortablePlatform";

    /// <summary>
    /// Errors and signals are handled here and by the commands. The library's own handlers would print a stack trace, and take
    /// the signals from the commands that end in an orderly way.
    /// </summary>
    private static InvocationConfiguration Invocation => new()
    {
        EnableDefaultExceptionHandler = false,
        ProcessTerminationTimeout = null,
        Output = ToolConsole.Out,
        Error = ToolConsole.Error,
    };

    /// <summary>Until the process ends: the runtime hears of a signal a moment after the write that it belongs to.</summary>
    private static PosixSignalRegistration? s_fileLimit;

    /// <summary>The library takes @NAME for a file with further arguments; the name of a store may begin so.</summary>
    private static readonly ParserConfiguration s_parsing = new() { ResponseFileTokenReplacer = null };

    /// <summary>Runs a command line; returns the exit code.</summary>
    /// <param name="runChild">Does the work of a child process; null if the arguments are not those of one.</param>
    public static int Run(string[] arguments, Func<RootCommand> createRoot, Func<string[], int?>? runChild = null)
    {
        // The core chooses its platform at first use, so this comes before everything else.
        if (arguments is [PortableArgument, ..])
        {
            AppContext.SetSwitch(PortableSwitch, true);
            arguments = arguments[1..];
        }

        s_fileLimit ??= KeepErrorOfFileLimit();
        bool isSuggestion = arguments is [var first, ..] && first.StartsWith("[suggest", StringComparison.Ordinal);
        ParseResult? parsed = null;
        try
        {
            if (runChild?.Invoke(arguments) is { } exitCode)
                return exitCode;
            parsed = createRoot().Parse(arguments, s_parsing);
            // A shell asks what may follow the line that it has so far, which is no usage yet.
            if (isSuggestion)
                return parsed.Invoke(Invocation);
            if (!StandardDescriptors.IsGiven(StandardDescriptors.Error))
                Console.SetError(TextWriter.Null);
            if (!StandardDescriptors.IsGiven(StandardDescriptors.Output))
                throw new ToolException("Standard output is closed. Redirect it, also to /dev/null. Nothing was done.");
            TerminalWidth.Correct(parsed);
            IReadOnlyList<string> mistyped = MistypedOptions.Find(parsed, arguments);
            return parsed.Errors.Count + mistyped.Count > 0
                ? UsageErrors.Write(parsed, mistyped)
                : parsed.Invoke(Invocation);
        }
        catch (Exception exception) when (isSuggestion && (exception is InvalidOperationException or ArgumentException))
        {
            // An option lacks its value, or the place is outside of the line: there is nothing to suggest.
            return ExitCodes.Success;
        }
        catch (Exception exception)
        {
            return ErrorLine.Write(MessageOf(exception, PlaceOf(exception)), UsageErrors.FailureOf(parsed));
        }
    }

    private static string MessageOf(Exception exception, string place) => exception switch
    {
        // The system names no file for standard output.
        IOException when place.StartsWith("at System.ConsolePal.", StringComparison.Ordinal) =>
            $"Standard output cannot be written: {exception.Message}. Make room, or redirect it elsewhere.",
        IOException or UnauthorizedAccessException or ToolException => exception.Message,
        // What .NET makes of EFBIG.
        ArgumentOutOfRangeException { ParamName: "value" } when place.StartsWith("at System.", StringComparison.Ordinal) =>
            "A file would become longer than the limit of file sizes (ulimit -f) or the file system allows.",
        // The library refuses a value that only it can judge, such as one that does not fit the pack.
        ArgumentException { ParamName: var name } when IsOfTheLibrary(place) =>
            exception.Message.Replace($" (Parameter '{name}')", "", StringComparison.Ordinal),
        _ => $"This is an error of mfq itself, please report it: {exception.GetType().Name}: {exception.Message} {place}",
    };

    /// <summary>A write beyond `ulimit -f` shall fail; SIGXFSZ would end the process before that.</summary>
    private static PosixSignalRegistration? KeepErrorOfFileLimit()
    {
        const PosixSignal SigXfsz = (PosixSignal)25;
        return OperatingSystem.IsWindows()
            ? null
            : PosixSignalRegistration.Create(SigXfsz, static context => context.Cancel = true);
    }

    private static string PlaceOf(Exception exception) => exception.StackTrace?.TrimStart().Split('\n')[0] ?? "";

    /// <summary>Goes by the trace: in native code an exception has no source.</summary>
    private static bool IsOfTheLibrary(string place) =>
        place.StartsWith($"at {nameof(MappedFileQueues)}.", StringComparison.Ordinal)
        && !place.StartsWith($"at {typeof(ToolProgram).Namespace}.", StringComparison.Ordinal);
}
