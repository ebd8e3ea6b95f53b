namespace MappedFileQueues.Tool.Demo;

/// <summary>Where a demo keeps its files. Parent and children know the folder and nothing else of each other's places.</summary>
internal sealed class DemoFolder(string root)
{
    /// <summary>The folder itself, as a full path.</summary>
    public string Root { get; } = System.IO.Path.GetFullPath(root);

    /// <summary>The store.</summary>
    public string StorePath => Of("store");

    /// <summary>The lines as they came out.</summary>
    public string OutputPath => Of("output.txt");

    /// <summary>What is sent.</summary>
    public string PlanPath => Of("demo.plan");

    /// <summary>How much of the output belongs to which committed offset.</summary>
    public string LedgerPath => Of("demo.ledger");

    /// <summary>When sampled messages were sent.</summary>
    public string SentTimesPath => Of("demo.sent");

    /// <summary>When they were received.</summary>
    public string ReceivedTimesPath => Of("demo.received");

    /// <summary>Makes the folder, unless it already holds a store or an output that a demo would overwrite.</summary>
    public void Prepare()
    {
        if (File.Exists(Of("queue.meta")) || Directory.Exists(StorePath) || File.Exists(OutputPath))
        {
            throw new ToolException(
                $"The folder already holds a store or a demo's output: path={Root}. Name an empty or a new folder for --dir.");
        }

        Directory.CreateDirectory(Root);
        RemoveSideFiles();
    }

    /// <summary>Removes what only the run itself needed, and leaves store and output.</summary>
    public void RemoveSideFiles()
    {
        foreach (string path in new[] { PlanPath, LedgerPath, SentTimesPath, ReceivedTimesPath })
            File.Delete(path);
    }

    private string Of(string name) => System.IO.Path.Combine(Root, name);
}
