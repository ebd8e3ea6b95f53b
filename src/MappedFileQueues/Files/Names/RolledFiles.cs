using MappedFileQueues.Platform;

namespace MappedFileQueues.Files.Names;

/// <summary>The closed files of a stream that are there, oldest first. Numbers are never used again.</summary>
internal sealed class RolledFiles(HeldDirectory directory, RolledNames names)
{
    private readonly List<long> _numbers = [.. directory.List("").Select(names.NumberOf).Where(number => number > 0).Order()];

    /// <summary>How many there are.</summary>
    public int Count => _numbers.Count;

    /// <summary>The names of all of them as they are now.</summary>
    public IReadOnlyList<string> Names => [.. _numbers.Select(names.NameOf)];

    /// <summary>Gives a file the next number, and returns its new name.</summary>
    public string Add(string name)
    {
        long number = _numbers.Count > 0 ? _numbers[^1] : 0;
        string rolled;
        do
        {
            if (++number > RolledNames.NumberMax)
            {
                throw new QueueDiskException(
                    $"No number is left for a closed file: path={Path.Combine(directory.Path, name)}. Move the file away that has"
                        + " the highest one.",
                    DiskErrors.EEXIST,
                    name);
            }

            rolled = names.NameOf(number);
        }
        while (!directory.RenameWithoutReplacing(name, rolled));
        _numbers.Add(number);
        return rolled;
    }

    /// <summary>Takes one off the list; the file stays.</summary>
    public void Remove(string rolled) => _numbers.Remove(names.NumberOf(rolled));

    /// <summary>Removes the oldest one from the list, and returns its name; the file stays.</summary>
    public string TakeOldest()
    {
        string name = names.NameOf(_numbers[0]);
        _numbers.RemoveAt(0);
        return name;
    }
}
