using System.Text.RegularExpressions;

namespace MappedFileQueues.Tests.FastPaths;

/// <summary>What one message costs on a way through compiled code.</summary>
/// <param name="Instructions">The instructions that run.</param>
/// <param name="Loads">Those of them that read memory: shared words are among them.</param>
/// <param name="Locked">Those that lock the bus: locked ones and exchanges.</param>
internal readonly record struct PathCost(int Instructions, int Loads, int Locked)
{
    public static PathCost operator +(PathCost a, PathCost b) =>
        new(a.Instructions + b.Instructions, a.Loads + b.Loads, a.Locked + b.Locked);
}

/// <summary>
/// Reads the runtime's listing of optimised x64 code and finds the straight path: the shortest way from the start of a method to
/// its return that calls nothing, and computes so many steps of a checksum that a whole message was written or verified. A
/// listing does not say which branch is the usual one, but what gives up early checks no checksum, and what is rare is called.
/// </summary>
internal sealed partial class FastPathListing
{
    /// <summary>How the runtime is asked for a thread's own data: its code has no listing.</summary>
    public const string RuntimesThread = "call     r";

    private readonly Dictionary<string, Block[]> _methods = [];

    public FastPathListing(string text)
    {
        foreach (string method in text.Split("; Assembly listing for method ").Skip(1))
        {
            string name = method[..method.IndexOf('\n')];
            if (name.EndsWith("(Tier1)", StringComparison.Ordinal))
                _methods[name] = [.. Parse(method)];
        }
    }

    /// <summary>The straight path of a method; null when each way calls something, or checks no whole message.</summary>
    /// <param name="method">A piece of the method's name that no other one has.</param>
    /// <param name="checksumSteps">How many steps of the checksum have to be on it, at least.</param>
    /// <param name="locked">How many locked instructions have to be on it, no more and no less.</param>
    /// <param name="through">What it may call, by a piece of the text: a method whose listing is there counts as a part of it.
    /// </param>
    public PathCost? FindStraightPath(string method, int checksumSteps, int locked, params string[] through)
    {
        Block[] blocks = Find(method);
        var visited = new HashSet<(int Block, int Steps, int Locked)>();
        var queue = new PriorityQueue<(int Block, int Steps, PathCost Cost), int>();
        queue.Enqueue((0, 0, default), 0);
        while (queue.TryDequeue(out (int Block, int Steps, PathCost Cost) at, out _))
        {
            if (at.Block >= blocks.Length || at.Cost.Locked > locked || !visited.Add((at.Block, at.Steps, at.Cost.Locked)))
                continue;
            (int steps, PathCost cost) = (at.Steps, at.Cost);
            bool hasEnded = false;
            foreach (Instruction instruction in blocks[at.Block].Instructions)
            {
                cost += instruction.Cost;
                if (instruction.IsChecksumStep)
                    steps = Math.Min(steps + 1, checksumSteps);
                if (instruction.Called is { } called)
                {
                    if (through.FirstOrDefault(called.Contains) is not { } part)
                    {
                        hasEnded = true;
                        break;
                    }

                    if (part != RuntimesThread)
                    {
                        if (FindStraightPath(part, checksumSteps - steps, locked - cost.Locked, through) is not { } inside)
                        {
                            hasEnded = true;
                            break;
                        }

                        cost += inside;
                        steps = checksumSteps;
                    }
                }

                if (instruction.JumpsTo is { } label)
                {
                    // Two threads of the runtime may list at once: lines of one method then miss in the other.
                    int target = Array.FindIndex(blocks, block => block.Label == label);
                    if (target >= 0)
                        queue.Enqueue((target, steps, cost), cost.Instructions);
                }

                if (instruction.Returns && steps == checksumSteps && cost.Locked == locked)
                    return cost;
                hasEnded = instruction.EndsFlow;
            }

            if (!hasEnded)
                queue.Enqueue((at.Block + 1, steps, cost), cost.Instructions);
        }

        return null;
    }

    private Block[] Find(string method)
    {
        string[] names = [.. _methods.Keys.Where(name => name.Contains(method, StringComparison.Ordinal))];
        Assert.True(names.Length <= 1, $"{names.Length} listings of {method}: {string.Join(", ", names)}");
        return names.Length == 0 ? [] : _methods[names[0]];
    }

    private static IEnumerable<Block> Parse(string method)
    {
        Block? block = null;
        foreach (string line in method.Split('\n'))
        {
            if (Label().Match(line) is { Success: true } label)
            {
                if (block is not null)
                    yield return block;
                block = new Block(label.Groups[1].Value, []);
            }
            else if (line.StartsWith("       ", StringComparison.Ordinal) && line.Trim() is { Length: > 0 } text)
            {
                block?.Instructions.Add(Instruction.Of(text));
            }
        }

        if (block is not null)
            yield return block;
    }

    [GeneratedRegex(@"^(G_M\w+_IG\d+):")]
    private static partial Regex Label();

    private sealed record Block(string Label, List<Instruction> Instructions);

    private sealed partial record Instruction(
        PathCost Cost, bool IsChecksumStep, bool Returns, bool EndsFlow, string? JumpsTo, string? Called)
    {
        public static Instruction Of(string text)
        {
            string name = Regex.Match(text, @"^(lock\s+)?\S+").Value;
            bool isTailCall = name.StartsWith("tail.", StringComparison.Ordinal);
            bool isCall = isTailCall || name == "call";
            bool isJump = !isTailCall && name[0] == 'j';
            bool isLocked = name.StartsWith("lock", StringComparison.Ordinal) || (name == "xchg" && text.Contains('['));
            bool stores = name.Contains("mov", StringComparison.Ordinal) && text.IndexOf('[') is >= 0 and var bracket
                && bracket < text.IndexOf(',');
            bool loads = text.Contains('[') && name != "lea" && !isCall && !stores;
            return new Instruction(
                new PathCost(1, loads ? 1 : 0, isLocked ? 1 : 0),
                name == "crc32",
                name == "ret" || isTailCall,
                name is "ret" or "jmp" or "int3" || isTailCall,
                isJump ? Target().Match(text).Value : null,
                isCall ? text : null);
        }

        [GeneratedRegex(@"G_M\w+_IG\d+")]
        private static partial Regex Target();
    }
}
