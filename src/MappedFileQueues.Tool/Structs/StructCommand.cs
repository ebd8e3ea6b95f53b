using System.CommandLine.Parsing;
using System.Diagnostics.CodeAnalysis;
using System.Reflection;
using System.Runtime.CompilerServices;
using System.Runtime.Loader;

namespace MappedFileQueues.Tool.Structs;

/// <summary>`mfq struct`: prints a C# struct as C or Python has it.</summary>
internal static class StructCommand
{
    private const string WhyNotNative = "It loads an assembly and looks at its types.";

    /// <summary>False in mfq as native code, which has nothing that could load an assembly. No other mfq is trimmed.</summary>
    [FeatureGuard(typeof(RequiresUnreferencedCodeAttribute))]
    [SuppressMessage("AOT", "IL4000", Justification = "What is trimmed is native code, and dynamic code is not supported there.")]
    private static bool LoadsAssemblies => RuntimeFeature.IsDynamicCodeSupported;

    public static Command Create()
    {
        Argument<string> assembly = ToolOptions.PathArgument("ASSEMBLY", "The compiled program or library (.dll).");
        Argument<string> type = ToolOptions.ValueArgument(
            "TYPE", "The struct's name, with its namespace where that is needed.", "a name",
            text => string.IsNullOrWhiteSpace(text) ? null : text);
        Option<bool> c = ToolOptions.Flag("--c", "Print a struct of C11 or C++17, with assertions on its size and offsets.");
        Option<bool> python = ToolOptions.Flag("--python", "Print a class of ctypes, and what `numpy.dtype` makes a type of.");
        Command command = new(
            "struct",
            "Print a struct of a compiled program for another language, as it is in a store: "
                + "`mfq struct Orders.dll Quote --c`. It loads the assembly, and runs none of its methods.")
        {
            assembly, type, c, python,
        };
        command.Validators.Add(result => RequireOne(result, c, python));
        return command.Does(parsed =>
        {
            if (!LoadsAssemblies)
            {
                throw new ToolException("This mfq is native code, which loads no assembly. Use the tool of .NET: "
                    + "`dotnet tool install --global MappedFileQueues.Tool`.");
            }

            StructShape shape = Load(SystemPath.Full(parsed.GetRequiredValue(assembly)), parsed.GetRequiredValue(type));
            string text = parsed.GetValue(c) ? CStruct.Write(shape) : PythonStruct.Write(shape);
            return Result.Write(
                parsed, new StructText(shape.Source, shape.Size, text), ToolJson.Default.StructText, text.TrimEnd('\n'));
        });
    }

    private static void RequireOne(CommandResult result, Option c, Option python)
    {
        if (result.GetResult(c) is null == result.GetResult(python) is null)
            result.AddError("Give --c or --python.");
    }

    [RequiresUnreferencedCode(WhyNotNative)]
    private static StructShape Load(string path, string name)
    {
        if (!File.Exists(path))
            throw new ToolException($"There is no assembly: path={path}. Build the program, and name its .dll.");
        AssemblyLoadContext context = new("mfq struct", isCollectible: true);
        try
        {
            AssemblyDependencyResolver resolver = new(path);
            context.Resolving += (_, needed) =>
                resolver.ResolveAssemblyToPath(needed) is { } found ? context.LoadFromAssemblyPath(found) : null;
            return new ShapeReader().Read(Find(context.LoadFromAssemblyPath(path), name));
        }
        catch (Exception error) when (error is BadImageFormatException or TypeLoadException or FileNotFoundException
            or FileLoadException or ReflectionTypeLoadException or InvalidOperationException)
        {
            throw new ToolException($"The struct cannot be loaded: path={path}, type={name}: {error.Message} Name the .dll of a "
                + "program that runs on this version of .NET, with what it needs beside it.");
        }
        finally
        {
            context.Unload();
        }
    }

    [RequiresUnreferencedCode(WhyNotNative)]
    [UnconditionalSuppressMessage("SingleFile", "IL3000", Justification = "The assembly was loaded from a file.")]
    private static Type Find(Assembly assembly, string name)
    {
        if (assembly.GetType(name) is { } exact)
            return exact;
        Type[] found =
        [
            .. assembly.GetTypes().Where(type => type.IsValueType && (type.Name == name
                || type.FullName?.Replace('+', '.') == name
                || type.FullName?.Replace('+', '.').EndsWith($".{name}", StringComparison.Ordinal) == true)),
        ];
        return found switch
        {
            [var one] => one,
            [] => throw new ToolException($"There is no such struct: path={assembly.Location}, type={name}. Write its name as "
                + "Namespace.Name."),
            _ => throw new ToolException($"Several structs have that name: path={assembly.Location}, type={name}. Name one of "
                + $"{string.Join(", ", found.Select(type => type.FullName))}."),
        };
    }
}

/// <summary>The result of `mfq struct`.</summary>
internal sealed record StructText(string Type, int Size, string Text);
