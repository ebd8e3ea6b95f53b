namespace MappedFileQueues.CrashLab.Sim;

internal enum NameChangeKind
{
    /// <summary>A file appears under <see cref="NameChange.To"/>.</summary>
    Add,

    /// <summary>A file goes from one name to another of the same folder, in one step.</summary>
    Move,

    /// <summary>A file loses its name.</summary>
    Remove,

    /// <summary>A folder appears.</summary>
    MakeFolder,
}

/// <summary>
/// A change of a folder that no flush of that folder has made durable yet: after a power loss it was done or it was not.
/// </summary>
/// <param name="Kind">What changes.</param>
/// <param name="Folder">Whose flush makes it durable.</param>
/// <param name="From">The name that goes.</param>
/// <param name="To">The name that appears.</param>
/// <param name="File">The file.</param>
/// <param name="After">A change that must have been done before: a file that moves between folders is never in none.</param>
internal sealed record NameChange(
    NameChangeKind Kind, string Folder, string From, string To, SimFile? File, NameChange? After = null)
{
    /// <summary>Applies it to names and folders; what it needs may be missing, because an earlier change was not done.</summary>
    public void Apply(IDictionary<string, SimFile> names, ISet<string> folders)
    {
        switch (Kind)
        {
            case NameChangeKind.Add:
                names[To] = File!;
                break;
            case NameChangeKind.Move:
                if (names.TryGetValue(From, out SimFile? moved) && moved == File)
                {
                    names.Remove(From);
                    names[To] = File!;
                }

                break;
            case NameChangeKind.Remove:
                if (names.TryGetValue(From, out SimFile? removed) && removed == File
                    && (After is null || (names.TryGetValue(After.To, out SimFile? there) && there == File)))
                    names.Remove(From);
                break;
            default:
                folders.Add(To);
                break;
        }
    }
}
