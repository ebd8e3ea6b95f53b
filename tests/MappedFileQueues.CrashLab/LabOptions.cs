namespace MappedFileQueues.CrashLab;

/// <summary>What the command line says.</summary>
internal sealed record LabOptions
{
    /// <summary>The first run's seed; run i of a part has this seed plus i.</summary>
    public required int Seed { get; init; }

    /// <summary>Runs of each part; null: as many as its budget takes.</summary>
    public int? Runs { get; init; }

    /// <summary>How long each part continues; null: as long as its budget takes.</summary>
    public TimeSpan? Time { get; init; }

    /// <summary>Where failing images are kept.</summary>
    public required string KeepFolder { get; init; }

    /// <summary>Runs that continue at the same time.</summary>
    public required int Jobs { get; init; }

    /// <summary>Images that the cut part makes when neither runs nor time is given.</summary>
    public int Images { get; init; } = 20_000;

    /// <summary>Kills of the kill part when neither runs nor time is given.</summary>
    public int Kills { get; init; } = 200;

    /// <summary>The name of the planted fault; empty: none.</summary>
    public string Planted { get; init; } = "";

    /// <summary>The first violation ends the part.</summary>
    public bool StopsAtFirst { get; init; }

    /// <summary>A part that has found something is not the last one.</summary>
    public bool GoesOn { get; init; }
}
