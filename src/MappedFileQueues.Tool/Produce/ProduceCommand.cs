using System.CommandLine;
using System.CommandLine.Parsing;
using System.Diagnostics;
using System.Globalization;

namespace MappedFileQueues.Tool.Produce;

/// <summary>`mfq produce`: lines, or made-up messages, into a store, which is made when it is missing.</summary>
internal static class ProduceCommand
{
    /// <summary>No frame is longer, whatever the segment length; a store with shorter segments says so itself.</summary>
    private const int MessageLengthMax = 1 << 28;

    private const int SizeDefault = 64;

    public static Command Create()
    {
        Argument<string> store = new("STORE") { Description = "The store's directory; made when it is missing." };
        Option<string?> lines = new("--lines")
        {
            Description = "A message for each line of the file, without its newline; - is standard input, and the default.",
            HelpName = "FILE|-",
        };
        Option<long?> messages = new("--messages") { Description = "This many made-up messages instead.", HelpName = "N" };
        Option<int> size = new("--size")
        {
            Description = "The length of each made-up message in bytes.",
            HelpName = "B",
            DefaultValueFactory = _ => SizeDefault,
        };
        messages.Validators.Add(result => RequireAtLeast(result, 1));
        size.Validators.Add(result => RequireAtLeast(result, 0));

        Command command = new("produce", "Append messages to a store.") { store, lines, messages, size };
        command.Validators.Add(result =>
        {
            if (result.GetResult(lines) is not null && result.GetResult(messages) is not null)
                result.AddError("--lines and --messages exclude each other.");
            if (result.GetResult(size) is { Implicit: false } && result.GetResult(messages) is null)
                result.AddError("--size needs --messages.");
        });
        command.SetAction(parsed => parsed.GetValue(messages) is { } count
            ? ProduceMadeUp(parsed.GetRequiredValue(store), count, parsed.GetValue(size))
            : ProduceLines(parsed.GetRequiredValue(store), parsed.GetValue(lines) ?? "-"));
        return command;
    }

    private static void RequireAtLeast(OptionResult result, long minimum)
    {
        foreach (Token token in result.Tokens)
        {
            if (long.TryParse(token.Value, CultureInfo.InvariantCulture, out long value) && value < minimum)
                result.AddError($"{result.Option.Name} must be at least {minimum}: {value}.");
        }
    }

    private static int ProduceLines(string storePath, string file)
    {
        // The input is opened first, so that a wrong name leaves no new store behind.
        using Stream input = file == "-" ? Console.OpenStandardInput() : File.OpenRead(file);
        LineReader lines = new(input, file == "-" ? "standard input" : file, MessageLengthMax);
        using MappedFileQueue queue = Open(storePath);
        Summary summary = new();
        while (lines.TryRead(out ReadOnlySpan<byte> line))
            summary.Add(queue.Producer, line);
        return summary.Print();
    }

    private static int ProduceMadeUp(string storePath, long count, int size)
    {
        byte[] message = new byte[size];
        for (int index = 0; index < size; index++)
            message[index] = (byte)('a' + index % 26);

        using MappedFileQueue queue = Open(storePath);
        Summary summary = new();
        Span<byte> number = stackalloc byte[20];
        for (long index = 0; index < count; index++)
        {
            // Each begins with its number, twenty digits as far as they fit, so that a reader can see what is missing.
            index.TryFormat(number, out _, "D20", CultureInfo.InvariantCulture);
            number[^Math.Min(number.Length, size)..].CopyTo(message);
            summary.Add(queue.Producer, message);
        }

        return summary.Print();
    }

    private static MappedFileQueue Open(string storePath) => new(new MappedFileQueueOptions { StorePath = storePath });

    /// <summary>What was appended so far, where, and since when.</summary>
    private sealed class Summary
    {
        private readonly long _start = Stopwatch.GetTimestamp();
        private long _count;
        private long _length;
        private long _firstOffset;
        private long _lastOffset;

        public void Add(MappedFileProducer producer, ReadOnlySpan<byte> message)
        {
            try
            {
                _lastOffset = producer.Produce(message);
            }
            catch (ArgumentException exception)
            {
                throw new ToolException($"{exception.Message} message={_count + 1}; those before it are in the store.");
            }

            if (_count++ == 0)
                _firstOffset = _lastOffset;
            _length += message.Length;
        }

        public int Print()
        {
            double seconds = Stopwatch.GetElapsedTime(_start).TotalSeconds;
            Console.Out.WriteLine(_count == 0
                ? "Nothing to produce: the input is empty."
                : string.Create(
                    CultureInfo.InvariantCulture,
                    $"Produced {_count} messages, {_length} bytes, offsets {_firstOffset} to {_lastOffset}, in {seconds:F3} s."));
            return ExitCodes.Success;
        }
    }
}
