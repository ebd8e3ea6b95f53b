namespace MappedFileQueues.Tool.Top;

/// <summary>`mfq top`: every store below a folder, live.</summary>
internal static class TopCommand
{
    /// <summary>Another screen and no cursor; at the end the screen from before.</summary>
    private const string EnterScreen = "\e[?1049h\e[?25l";
    private const string LeaveScreen = "\e[?25h\e[?1049l";
    private const string Home = "\e[H";
    private const string ClearToEnd = "\e[J";

    /// <summary>Smaller ones are laid out as these, and the terminal cuts.</summary>
    private const int WidthMin = 20;
    private const int HeightMin = 3;

    private static readonly TimeSpan s_intervalDefault = TimeSpan.FromSeconds(2);
    private static readonly TimeSpan s_intervalMin = TimeSpan.FromMilliseconds(100);

    /// <summary>How often a key is looked for.</summary>
    private static readonly TimeSpan s_keyPause = TimeSpan.FromMilliseconds(100);

    public static Command Create()
    {
        Argument<string> folder = ToolOptions.PathArgument(
            "DIR", "The folder whose stores are shown; without it, the current one.");
        folder.DefaultValueFactory = _ => ".";
        Option<bool> once = ToolOptions.Flag("--once", "One picture, then end.");
        Option<TimeSpan?> interval = ToolOptions.Wait(
            "--interval", "The time between two pictures, at least 100ms; default 2s.");
        return new Command(
            "top",
            "Watch every store below a folder: how fast it grows, how far consumers are behind, what is not on disk, who has it "
                + "open, who blocks it: `mfq top /data`. The worst come first. It only reads, and works while the programs hang. "
                + "q ends it.")
        {
            folder, once, interval,
        }.Does(parsed =>
        {
            string root = SystemPath.Full(parsed.GetRequiredValue(folder));
            if (!Directory.Exists(root))
                throw new ToolException($"There is no such folder: path={root}. Correct the path.");
            TimeSpan pause = parsed.GetValue(interval) is { } wanted && wanted > s_intervalMin ? wanted
                : parsed.GetValue(interval) is null ? s_intervalDefault : s_intervalMin;
            return Watch(root, parsed.GetValue(once), pause, OutputOption.IsJson(parsed));
        });
    }

    private static int Watch(string root, bool isOnce, TimeSpan pause, bool isJson)
    {
        using Interruption interruption = new();
        StoreFolder folder = new(root);
        bool isScreen = !isOnce && !isJson && !ToolConsole.IsOutputRedirected;
        if (isScreen)
            ToolConsole.Out.Write(EnterScreen);
        try
        {
            while (true)
            {
                IReadOnlyList<StorePicture> pictures = folder.Take();
                if (isJson)
                    Result.WriteJson(new TopPicture(pictures), ToolJson.Lines.TopPicture);
                else
                    Show(root, pictures, isScreen);
                if (isOnce)
                    return ExitCodes.Success;
                if (!WaitForNext(pause, isScreen, interruption.Token))
                    return interruption.ExitCode;
            }
        }
        finally
        {
            if (isScreen)
                ToolConsole.Out.Write(LeaveScreen);
        }
    }

    /// <summary>False when a signal came, or the key q, which is no signal, or nothing reads the output any longer.</summary>
    private static bool WaitForNext(TimeSpan pause, bool isScreen, CancellationToken stopped)
    {
        for (TimeSpan waited = TimeSpan.Zero; waited < pause; waited += s_keyPause)
        {
            TimeSpan step = pause - waited < s_keyPause ? pause - waited : s_keyPause;
            if (stopped.WaitHandle.WaitOne(step) || StandardOutput.HasLostItsReader())
                return false;
            bool hasKey = isScreen && !ToolConsole.IsInputRedirected && Console.KeyAvailable;
            if (hasKey && Console.ReadKey(intercept: true).KeyChar is 'q' or 'Q')
                return false;
        }

        return true;
    }

    private static void Show(string root, IReadOnlyList<StorePicture> pictures, bool isScreen)
    {
        string title = $"{TerminalText.ForOutput(root)}  {DateTime.UtcNow:HH:mm:ss} UTC";
        Report report = new(
            title, "store", "end", "MB/s", "lag", "read MB/s", "consumer", "oldest unread", "not on disk", "producers",
            "attached", "state");
        foreach (StorePicture one in pictures)
        {
            report.Add(
                one.Store, Report.Number(one.Offset), Rate(one.BytesPerSecond), Report.Number(one.Lag),
                Rate(one.ConsumedPerSecond), one.Consumer is { } name ? ConsumerName.Show(name) : "-",
                one.AgeSeconds is { } age ? $"{age:N0} s" : "-", Report.Number(one.Unflushed), Ids(one.Producers),
                Ids(one.Attached), one.Status == CheckStatus.Ok ? one.State : $"{one.Status.Word()}: {one.State}");
        }

        if (isScreen)
            ToolConsole.Out.Write(Home + ClearToEnd);
        if (pictures.Count == 0)
            OutputLine.Write($"No store below {root}.");
        // A file has room for every table. A screen that is drawn anew has none for what is lower than it.
        else if (ToolConsole.IsOutputRedirected
            || (report.TableWidth <= Console.WindowWidth && (!isScreen || report.TableHeight < Console.WindowHeight)))
            report.Write();
        else
            WriteStacked(title, pictures, isScreen);
    }

    private static void WriteStacked(string title, IReadOnlyList<StorePicture> pictures, bool isScreen)
    {
        int width = Math.Max(Console.WindowWidth, WidthMin);
        int height = isScreen ? Math.Max(Console.WindowHeight, HeightMin) : int.MaxValue;
        // The end of the last line would move everything up.
        ToolConsole.Out.Write(string.Join('\n', StackedPicture.Lines(title, pictures, width, height)) + (isScreen ? "" : "\n"));
        ToolConsole.Out.Flush();
    }

    private static string Rate(double? bytes) => bytes is { } value ? $"{value / 1e6:N1}" : "-";

    private static string Ids(IReadOnlyList<int> ids) => ids.Count == 0 ? "-" : string.Join(",", ids);
}
