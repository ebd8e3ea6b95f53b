namespace MappedFileQueues.Tool.Arguments;

/// <summary>Options that several commands have.</summary>
internal interface IOptionGroup
{
    void AddTo(Command command);
}

internal static class CommandExtensions
{
    extension(Command command)
    {
        /// <summary>For collection initializers.</summary>
        public void Add(IOptionGroup options) => options.AddTo(command);

        /// <summary>The command with what it does.</summary>
        public Command Does(Func<ParseResult, int> action)
        {
            command.SetAction(action);
            return command;
        }
    }
}
