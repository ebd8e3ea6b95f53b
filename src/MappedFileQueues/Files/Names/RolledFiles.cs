using MappedFileQueues.Platform;

namespace MappedFileQueues.Files.Names;

/// <summary>The closed files of a stream that are there, oldest first. Numbers are never used again.</summary>
internal sealed class RolledFiles(HeldDirectory directory, RolledNames names)
{
    private readonly List<long> _numbers = [.. directory.List("").Select(names.NumberOf).Where(number => number > 0).Order()];

    /// <summary>How many there are.</summary>
    public int Count => _numbers.Count;

    /// <summary>The name of the oldest one.</summary>
    public string Oldest => names.NameOf(_numbers[0]);

    /// <summary>Gives a file the next number, and returns its new name.</summary>
    public string Add(string name)
    {
        long number = _numbers.Count > 0 ? _numbers[^1] : 0;
        string rolled;
        do
            rolled = names.NameOf(++number);
        while (!directory.RenameWithoutReplacing(name, rolled));
        _numbers.Add(number);
        return rolled;
    }

    /// <summary>Removes the oldest one from the list, and returns its name; the file stays.</summary>
    public string TakeOldest()
    {
        string name = Oldest;
        _numbers.RemoveAt(0);
        return name;
    }
}
