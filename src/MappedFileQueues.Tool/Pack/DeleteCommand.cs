using System.CommandLine;
using MappedFileQueues.Packs;
using MappedFileQueues.Tool.Arguments;
using MappedFileQueues.Tool.Output;

namespace MappedFileQueues.Tool.Pack;

/// <summary>`mfq pack delete`: removes objects by their keys.</summary>
internal static class DeleteCommand
{
    public static Command Create()
    {
        Argument<string> pack = PackCommand.PackArgument();
        Argument<string[]> keys = new("KEY") { Description = "The objects' keys.", Arity = ArgumentArity.OneOrMore };
        Option<bool> durable = new("--durable") { Description = "Return only when everything is on disk." };
        Command command = new(
            "delete", "Remove objects, damaged or not. Compaction frees their room: `mfq pack delete texts.pack README.md`.")
        {
            pack, keys, durable,
        };
        command.SetAction(parsed => Run(
            parsed.GetRequiredValue(pack), parsed.GetRequiredValue(keys), parsed.GetValue(durable),
            OutputOption.IsJson(parsed)));
        return command;
    }

    private static int Run(string packPath, string[] keys, bool isDurable, bool isJson)
    {
        long deleted = 0;
        long missing = 0;
        using (PackStore pack = PackStore.Open(packPath, new PackOptions { CreateIfMissing = false }))
        {
            foreach (string key in keys)
            {
                if (pack.Delete(key))
                {
                    deleted++;
                    continue;
                }

                missing++;
                ErrorLine.Write($"There is no such object: key={PrintableKey.Of(key)}.", ExitCodes.Failure);
            }

            if (isDurable)
                pack.Flush();
        }

        if (isJson)
            OutputOption.WriteJson(new DeleteResult(deleted, missing), PackJsonContext.Default.DeleteResult);
        else
            OutputLine.Write($"deleted {Report.Count(deleted, "object")}");
        return missing == 0 ? ExitCodes.Success : ExitCodes.Failure;
    }
}
