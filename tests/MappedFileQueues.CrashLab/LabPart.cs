namespace MappedFileQueues.CrashLab;

/// <summary>One part of the laboratory: it makes runs, each from one seed.</summary>
internal abstract class LabPart
{
    /// <summary>As `--only` names it.</summary>
    public abstract string Name { get; }

    public abstract string Help { get; }

    /// <summary>How many runs may continue at the same time; parts that judge by the clock allow one.</summary>
    public virtual int JobsMax => int.MaxValue;

    /// <summary>Called once before the runs; false when nothing of it can be done here (the part has said why).</summary>
    public virtual bool Prepare(LabOptions options, PartResult result) => true;

    public virtual void Finish()
    {
    }

    /// <summary>One run; throws for a violation, or tells the result of it.</summary>
    public abstract void Run(int seed, LabOptions options, PartResult result);

    /// <summary>Whether the budget is used up, when neither runs nor time were asked for.</summary>
    public abstract bool IsEnough(int runs, LabOptions options, PartResult result);

    /// <summary>The command that makes one run again.</summary>
    public string Replay(int seed, LabOptions options) =>
        $"dotnet run --project tests/MappedFileQueues.CrashLab -c Release -- --only {Name} --seed {seed} --runs 1"
        + (options.Planted.Length > 0 ? $" --planted {options.Planted}" : "");
}
