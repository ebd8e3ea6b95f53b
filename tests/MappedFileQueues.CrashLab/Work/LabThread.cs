using MappedFileQueues.Memory;

namespace MappedFileQueues.CrashLab.Work;

/// <summary>
/// Several runs continue beside each other, each on one thread: the engine's steps and its background work are handed to the run
/// of the thread that comes to them.
/// </summary>
internal static class LabThread
{
    private static readonly string[] s_names = Enum.GetNames<ProtocolStep>();

    [ThreadStatic]
    private static Action<string>? t_point;

    [ThreadStatic]
    private static List<Action>? t_background;

    [ThreadStatic]
    private static LabProcess? t_process;

    [ThreadStatic]
    private static Dictionary<Action, LabProcess?>? t_owners;

    /// <summary>Called at each step of the protocol that this thread takes.</summary>
    public static Action<string>? Point
    {
        get => t_point;
        set => t_point = value;
    }

    /// <summary>Work that the engine would do on a thread of its own, for this thread to do when the seed says.</summary>
    public static List<Action> Background => t_background ??= [];

    /// <summary>The simulated process that this thread plays now.</summary>
    public static LabProcess? Process
    {
        get => t_process;
        set => t_process = value;
    }

    private static Dictionary<Action, LabProcess?> Owners => t_owners ??= [];

    /// <summary>The process for which work is done in the background.</summary>
    public static LabProcess? OwnerOf(Action work) => Owners.GetValueOrDefault(work);

    /// <summary>From here on the engine starts no threads, in the whole process.</summary>
    public static void TakeOver()
    {
        ProtocolSteps.Handler = step => t_point?.Invoke(s_names[(int)step]);
        ProtocolSteps.Background = work =>
        {
            if (Background.Contains(work))
                return;
            if (Background.Count == 0)
                Owners.Clear();
            Background.Add(work);
            Owners[work] = Process;
        };
    }

    /// <summary>The engine is on its own again.</summary>
    public static void LetGo()
    {
        ProtocolSteps.Handler = null;
        ProtocolSteps.Background = null;
    }
}
