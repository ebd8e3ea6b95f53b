namespace MappedFileQueues.Demo;

/// <summary>The directory of a demo's files. Parent and children share only this directory.</summary>
internal sealed class DemoFolder(string root)
{
    /// <summary>The directory itself, as a full path.</summary>
    public string Root { get; } = System.IO.Path.GetFullPath(root);

    /// <summary>The store.</summary>
    public string StorePath => Of("store");

    /// <summary>The received lines.</summary>
    public string OutputPath => Of("output.txt");

    /// <summary>The plan of what is sent.</summary>
    public string PlanPath => Of("demo.plan");

    /// <summary>The ledger: how much of the output belongs to which committed offset.</summary>
    public string LedgerPath => Of("demo.ledger");

    /// <summary>The times at which sampled messages were sent.</summary>
    public string SentTimesPath => Of("demo.sent");

    /// <summary>The times at which they were received.</summary>
    public string ReceivedTimesPath => Of("demo.received");

    /// <summary>Refuses a directory that already holds a store or an output, which a demo would overwrite.</summary>
    public void ThrowIfUsed()
    {
        if (File.Exists(Of("queue.meta")) || Directory.Exists(StorePath) || File.Exists(OutputPath))
        {
            throw new ToolException(
                $"The directory already holds a store or a demo's output: path={Root}. Name an empty or new one for --dir.");
        }
    }

    /// <summary>Creates the directory.</summary>
    public void Prepare()
    {
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
