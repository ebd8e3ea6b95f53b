namespace MappedFileQueues.Tool.Completion;

/// <summary>
/// `mfq completion`: a script for a shell. It asks the program itself what may follow, by the directive `[suggest:POSITION]`, so
/// it never has to be renewed.
/// </summary>
internal static class CompletionCommand
{
    private const string Bash = """
        _mfq_complete() {
            local IFS=$'\n'
            COMPREPLY=($(compgen -W "$(mfq "[suggest:${COMP_POINT}]" "${COMP_LINE}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
        }
        complete -o default -F _mfq_complete mfq
        """;

    private const string Zsh = """
        #compdef mfq
        _mfq_complete() {
            local -a found
            found=("${(@f)$(mfq "[suggest:${CURSOR}]" "${BUFFER}" 2>/dev/null)}")
            compadd -- $found || _files
        }
        compdef _mfq_complete mfq
        """;

    private const string Pwsh = """
        Register-ArgumentCompleter -Native -CommandName mfq -ScriptBlock {
            param($word, $line, $position)
            mfq "[suggest:$position]" "$line" 2>$null | Where-Object { $_ -like "$word*" } | ForEach-Object {
                [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
            }
        }
        """;

    public static Command Create()
    {
        Argument<string> shell = new("SHELL") { Description = "bash, zsh or pwsh." };
        shell.AcceptOnlyFromAmong("bash", "zsh", "pwsh");
        return new Command(
            "completion", "Print what makes a shell complete this command: `source <(mfq completion bash)`.")
        {
            shell,
        }.Does(parsed =>
        {
            OutputLine.Write(parsed.GetRequiredValue(shell) switch { "bash" => Bash, "zsh" => Zsh, _ => Pwsh });
            return ExitCodes.Success;
        });
    }
}
