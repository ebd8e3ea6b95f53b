namespace MappedFileQueues.Tool.Top;

/// <summary>
/// A picture for a terminal that is too small for the table: the stores one below the other, what is wrong with one under its
/// name, and no line wider than the terminal.
/// </summary>
internal static class StackedPicture
{
    private const string Indent = "  ";

    /// <summary>What is wrong with one store takes no more lines than this.</summary>
    private const int StateLinesMax = 4;

    /// <summary>The lines, of text that a terminal may be given.</summary>
    /// <param name="height">The most lines; what has no room is counted on the last one.</param>
    public static IReadOnlyList<string> Lines(string title, IReadOnlyList<StorePicture> pictures, int width, int height)
    {
        List<string> lines = [KeepEnd(title, width), .. Wrap(Summary(pictures), width)];
        for (int i = 0; i < pictures.Count; i++)
        {
            List<string> store = StoreLines(pictures[i], width);
            int isMore = i + 1 < pictures.Count ? 1 : 0;
            int room = height - lines.Count - isMore;
            if (store.Count > room)
            {
                // The worst is named, however small the screen.
                if (i == 0)
                    lines.AddRange(store.Take(Math.Max(1, room)));
                int left = pictures.Count - Math.Max(1, i);
                if (left > 0 && lines.Count < height)
                    lines.Add(KeepStart($"… and {Report.Count(left, "store")} more", width));
                break;
            }

            lines.AddRange(store);
        }

        return [.. lines.Take(height)];
    }

    /// <summary>How many stores there are, and how many of each kind.</summary>
    private static string Summary(IReadOnlyList<StorePicture> all)
    {
        IEnumerable<string> kinds = all.GroupBy(one => one.Status).OrderBy(kind => kind.Key.Rank())
            .Select(kind => $"{kind.Count()} {kind.Key.Word()}");
        return $"{Report.Count(all.Count, "store")}: {string.Join(", ", kinds)}";
    }

    private static List<string> StoreLines(StorePicture one, int width)
    {
        string status = one.Status.Word();
        List<string> lines = [$"{status} {KeepEnd(TerminalText.Neutralise(one.Store), width - status.Length - 1)}"];
        if (one.Status != CheckStatus.Ok)
        {
            List<string> state = [.. Wrap(TerminalText.Neutralise(one.State), width - Indent.Length)];
            if (state.Count > StateLinesMax)
                state = [.. state.Take(StateLinesMax - 1), KeepStart($"{state[StateLinesMax - 1]} …", width - Indent.Length)];
            lines.AddRange(state.Select(line => Indent + line));
        }

        if (one.Status == CheckStatus.Unknown)
            return lines;
        string consumer = one.Consumer is { } name ? $" {ConsumerName.InBrackets(name)}" : "";
        List<string> facts = [$"end {Report.Number(one.Offset)}", $"lag {Report.Size(one.Lag)}{consumer}"];
        if (one.AgeSeconds is > 0 and var age)
            facts.Add($"oldest {age:N0} s");
        if (one.BytesPerSecond is { } grown)
            facts.Add($"{grown / 1e6:N1} MB/s in");
        if (one.ConsumedPerSecond is { } read)
            facts.Add($"{read / 1e6:N1} MB/s out");
        if (one.Unflushed > 0)
            facts.Add($"{Report.Size(one.Unflushed)} not on disk");
        if (one.Attached.Count > 0)
            facts.Add($"pid {string.Join(" ", one.Attached)}");
        lines.AddRange(Wrap(string.Join(", ", facts), width - Indent.Length).Select(line => Indent + line));
        return lines;
    }

    /// <summary>The text in lines; a word that is wider than a line is cut into several.</summary>
    private static IEnumerable<string> Wrap(string text, int width)
    {
        int end;
        while ((end = TerminalWidth.Fitting(text, width)) < text.Length)
        {
            int space = text.LastIndexOf(' ', end);
            yield return text[..(space > 0 ? space : end)];
            text = text[(space > 0 ? space + 1 : end)..];
        }

        yield return text;
    }

    private static string KeepStart(string text, int width) =>
        TerminalWidth.Of(text) <= width ? text : $"{text[..TerminalWidth.Fitting(text, width - 1)]}…";

    /// <summary>The end of a path tells stores apart.</summary>
    private static string KeepEnd(string text, int width)
    {
        if (TerminalWidth.Of(text) <= width)
            return text;
        // One column for the mark.
        while (text.Length > 0 && TerminalWidth.Of(text) >= width)
            text = text[(char.IsHighSurrogate(text[0]) ? 2 : 1)..];
        return $"…{text}";
    }
}
