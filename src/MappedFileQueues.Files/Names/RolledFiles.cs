using MappedFileQueues.Platform;

namespace MappedFileQueues.Files.Names;

/// <summary>
/// The closed files of a stream that are there, oldest first. A stream gives no number twice: a file that could not be deleted is
/// remembered by its name, and would pass its deletion on to the next file of that name.
/// </summary>
internal sealed class RolledFiles
{
    private readonly HeldDirectory _directory;
    private readonly RolledNames _rolledNames;
    private readonly List<long> _numbers;
    private long _last;

    public RolledFiles(HeldDirectory directory, RolledNames names)
    {
        (_directory, _rolledNames) = (directory, names);
        _numbers = [.. directory.List("").Select(names.NumberOf).Where(number => number > 0).Order()];
        _last = _numbers.LastOrDefault();
    }

    /// <summary>How many there are.</summary>
    public int Count => _numbers.Count;

    /// <summary>The names of all of them as they are now.</summary>
    public IReadOnlyList<string> Names => [.. _numbers.Select(_rolledNames.NameOf)];

    /// <summary>Gives a file the next number, and returns its new name.</summary>
    public string Add(string name)
    {
        long number = _last;
        string rolled;
        do
        {
            if (++number > RolledNames.NumberMax)
            {
                throw new QueueDiskException(
                    $"No number is left for a closed file: path={Path.Combine(_directory.Path, name)}. Move the file away that"
                        + " has the highest one.",
                    DiskErrors.EEXIST,
                    name);
            }

            rolled = _rolledNames.NameOf(number);
        }
        while (!_directory.RenameWithoutReplacing(name, rolled));
        _last = number;
        _numbers.Add(number);
        return rolled;
    }

    /// <summary>Takes one off the list; the file stays.</summary>
    public void Remove(string rolled) => _numbers.Remove(_rolledNames.NumberOf(rolled));

    /// <summary>Removes the oldest one from the list, and returns its name; the file stays.</summary>
    public string TakeOldest()
    {
        string name = _rolledNames.NameOf(_numbers[0]);
        _numbers.RemoveAt(0);
        return name;
    }
}
