using System.Diagnostics;
using System.Reflection;

namespace MappedFileQueues.Demo;

/// <summary>
/// Starts this program again, however it was started: by its own executable, as an installed tool, or by `dotnet mfq.dll`.
/// </summary>
internal static class SelfLauncher
{
    /// <summary>
    /// The information to start this program with other arguments, with its three standard streams connected to the caller.
    /// </summary>
    public static ProcessStartInfo StartInfo(params IEnumerable<string> arguments)
    {
        string program = Environment.ProcessPath
            ?? throw new ToolException("The system does not tell the path of this program, so it cannot start itself.");
        List<string> all = [];

        // The executable of an app and the shim of an installed tool know their dll; the `dotnet` command has to be told.
        if (Path.GetFileNameWithoutExtension(program).Equals("dotnet", StringComparison.OrdinalIgnoreCase))
            all.AddRange(["exec", Path.Combine(AppContext.BaseDirectory, Assembly.GetEntryAssembly()!.GetName().Name + ".dll")]);
        if (AppContext.TryGetSwitch(ToolProgram.PortableSwitch, out bool isPortable) && isPortable)
            all.Add(ToolProgram.PortableArgument);

        return new ProcessStartInfo(program, all.Concat(arguments))
        {
            UseShellExecute = false,
            RedirectStandardInput = true,
            RedirectStandardOutput = true,
            RedirectStandardError = true,
            // A killed child would leave the debugger's pipes and the diagnostics socket in the temporary directory.
            Environment = { ["DOTNET_EnableDiagnostics"] = "0" },
        };
    }
}
