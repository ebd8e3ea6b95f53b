namespace MappedFileQueues.Tool.Consume;

/// <summary>The options that say how messages are written, for the commands that write them.</summary>
internal sealed class FormatOptions : IOptionGroup
{
    private readonly Option<string> _format = ToolOptions.OneOf(
        "--format",
        "text: the bytes and a newline; hex: two digits per byte; json: a line with offset, length, and `text` or, if the "
            + "message is not UTF-8, `base64`; the default with --output json. struct: the fields that --struct names.",
        "text", "hex", "json", "struct");

    private readonly Option<string?> _struct = new("--struct")
    {
        Description = "The fields of each message, such as `id:i32,price:f64,name:utf8[16]`, laid out as C# does; `@N` places a "
            + $"field, `_` skips one. Types: {StructFields.TypeNames}.",
        HelpName = "FIELDS",
    };

    private readonly Option<bool> _headers = ToolOptions.Flag(
        "--headers",
        "Put time, key and trace before each message, with a tab after each, and - where there is none. JSON has them always.");

    public void AddTo(Command command)
    {
        command.Add(_format);
        command.Add(_struct);
        command.Add(_headers);
        command.Validators.Add(result =>
        {
            string? format = result.GetResult(_format) is { Tokens: [{ Value: { } word }] } ? word : null;
            string? fields = result.GetResult(_struct) is { Tokens: [{ Value: { } text }] } ? text : null;
            if (fields is not null && StructFields.TryParse(fields, out string error) is null)
                result.AddError($"--struct: {error}.");
            if (format == "struct" && fields is null)
                result.AddError("--format struct needs --struct, which names the fields.");
            if (fields is not null && format is "text" or "hex")
                result.AddError("--struct goes with --format struct or json.");
        });
    }

    /// <summary>The format that was asked for; refuses fields that the store's structs do not have.</summary>
    public MessageFormat Of(ParseResult parsed, string storePath)
    {
        bool isGiven = parsed.GetResult(_format) is { Implicit: false };
        StructFields? fields = parsed.GetValue(_struct) is { } text ? StructFields.TryParse(text, out _) : null;
        string form = isGiven ? parsed.GetRequiredValue(_format)
            : OutputOption.IsJson(parsed) ? "json"
            : fields is not null ? "struct"
            : parsed.GetRequiredValue(_format);
        if (fields is not null && StoreInspector.Inspect(storePath).StructSize is > 0 and var size && size < fields.Length)
        {
            throw new ToolException(
                $"The fields need {fields.Length} bytes, and the store's structs have {size}: path={storePath}. "
                    + "Correct --struct.");
        }

        return new MessageFormat(Enum.Parse<MessageForm>(form, ignoreCase: true), fields, parsed.GetValue(_headers));
    }
}
