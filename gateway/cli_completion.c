// `cellkeep completion bash|zsh|fish`: a script for the shell to source. A test asks bash what it makes of
// it, and holds its words against the help texts. Prints, and touches nothing.
#include "gateway/cli.h"

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: cellkeep completion bash|zsh|fish\n"
    "\n"
    "Prints a script that makes the shell complete cellkeep's commands, options and sessions:\n"
    "\n"
    "  bash   source <(cellkeep completion bash)      in ~/.bashrc\n"
    "  zsh    source <(cellkeep completion zsh)       in ~/.zshrc\n"
    "  fish   cellkeep completion fish | source       in ~/.config/fish/config.fish\n";

static const char bash_script[] =
    "_cellkeep_names() {\n"
    "  \"${COMP_WORDS[0]}\" \"$1\" list --json 2>/dev/null </dev/null | sed -n 's/^ *\"name\": "
    "\"\\([A-Za-z0-9._-]*\\)\",*$/\\1/p'\n"
    "}\n"
    "_cellkeep() {\n"
    "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words= common='--url --token --help'\n"
    "  COMPREPLY=()\n"
    "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
    "    COMPREPLY=($(compgen -W 'serve doctor image template run session token mcp completion --help --version' -- "
    "\"$cur\"))\n"
    "    return\n"
    "  fi\n"
    "  case $prev in\n"
    "    -u|--upload|--config|--tls-cert|--tls-key) COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n"
    "    -o|--out|--state-dir|--cache-dir) COMPREPLY=($(compgen -d -- \"$cur\")); return ;;\n"
    "    -s|--session) COMPREPLY=($(compgen -W \"$(_cellkeep_names session)\" -- \"$cur\")); return ;;\n"
    "    --accel) COMPREPLY=($(compgen -W 'auto kvm tcg' -- \"$cur\")); return ;;\n"
    "    --on-exit) COMPREPLY=($(compgen -W 'keep pause kill' -- \"$cur\")); return ;;\n"
    "    -c|--code|-t|--timeout|-n|--name|--count|--checkpoint|--max-sessions|--url|--token|--host|--port) return ;;\n"
    "  esac\n"
    "  case ${COMP_WORDS[1]} in\n"
    "    run) words=\"--code --session --upload --out --timeout --json $common\" ;;\n"
    "    mcp) words=\"--session $common\" ;;\n"
    "    completion) words='bash zsh fish' ;;\n"
    "    image|template) words='build --help' ;;\n"
    "    serve) words='--host --port --token --state-dir --cache-dir --accel --memory-mb --pool-size --spare --max-sessions "
    "--allow-origin --tls-cert --tls-key --base-url --on-exit --config --help' ;;\n"
    "    session|token)\n"
    "      if [[ $cur == -* ]]; then words=\"--name --json $common\"\n"
    "        [ \"${COMP_WORDS[1]}\" = session ] && words+=' --count --checkpoint' || words+=' --max-sessions'\n"
    "      elif [ \"$COMP_CWORD\" = 2 ] && [ \"${COMP_WORDS[1]}\" = session ]; then\n"
    "        words='create list get delete interrupt restart pause resume fork checkpoint checkpoints rollback'\n"
    "      elif [ \"$COMP_CWORD\" = 2 ]; then words='create list revoke'\n"
    "      else words=$(_cellkeep_names \"${COMP_WORDS[1]}\"); fi ;;\n"
    "  esac\n"
    "  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
    "  [ \"${COMP_WORDS[1]}\" = run ] && [[ $cur != -* ]] && COMPREPLY+=($(compgen -f -- \"$cur\"))\n"
    "}\n"
    "complete -o filenames -F _cellkeep cellkeep\n";

static const char zsh_before[] = "autoload -U +X bashcompinit && bashcompinit\n";

static const char fish_script[] =
    "function __cellkeep_names\n"
    "  cellkeep $argv[1] list --json 2>/dev/null </dev/null | string match -rg '^ *\"name\": "
    "\"([A-Za-z0-9._-]*)\",?$'\n"
    "end\n"
    "complete -c cellkeep -f\n"
    "complete -c cellkeep -n __fish_use_subcommand -a 'serve doctor image template run session token mcp completion'\n"
    "complete -c cellkeep -n '__fish_seen_subcommand_from session; and test (count (commandline -opc)) -eq 2' "
    "-a 'create list get delete interrupt restart pause resume fork checkpoint checkpoints rollback'\n"
    "complete -c cellkeep -n '__fish_seen_subcommand_from session; and test (count (commandline -opc)) -gt 2' -a "
    "'(__cellkeep_names session)'\n"
    "complete -c cellkeep -n '__fish_seen_subcommand_from token; and test (count (commandline -opc)) -eq 2' -a 'create "
    "list revoke'\n"
    "complete -c cellkeep -n '__fish_seen_subcommand_from token; and test (count (commandline -opc)) -gt 2' -a "
    "'(__cellkeep_names token)'\n"
    "complete -c cellkeep -n '__fish_seen_subcommand_from run' -F\n"
    "complete -c cellkeep -n '__fish_seen_subcommand_from run mcp' -s s -l session -x -a '(__cellkeep_names session)'\n"
    "complete -c cellkeep -n '__fish_seen_subcommand_from run' -s c -l code -x\n"
    "complete -c cellkeep -n '__fish_seen_subcommand_from run' -s o -l out -r -F\n"
    "complete -c cellkeep -n '__fish_seen_subcommand_from run' -s u -l upload -r -F\n"
    "complete -c cellkeep -n '__fish_seen_subcommand_from run' -s t -l timeout -x\n"
    "complete -c cellkeep -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n"
    "complete -c cellkeep -l json -l url -l token -s h -l help\n";

int ck_cmd_completion(int argc, char **argv)
{
    const char *shell = argc == 2 ? argv[1] : "";
    if (!strcmp(shell, "bash")) {
        fputs(bash_script, stdout);
    } else if (!strcmp(shell, "zsh")) {
        fputs(zsh_before, stdout);
        fputs(bash_script, stdout);
    } else if (!strcmp(shell, "fish")) {
        fputs(fish_script, stdout);
    } else if (!strcmp(shell, "--help") || !strcmp(shell, "-h")) {
        fputs(help, stdout);
    } else {
        fputs(help, stderr);
        return 2;
    }
    return 0;
}
