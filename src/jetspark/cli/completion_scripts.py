"""How each shell asks what may follow on a line, and how it takes the answer.

Decided here: every shell hands over the line up to the cursor, and gets whole words back. click's own scripts do not
fit a command whose lines hold addresses: bash splits words at colons and equals signs, so that nothing was offered
after `--server nats://host:4222`; zsh and fish lost the option's name in `--acks=ex`; fish cut descriptions at a comma.
Not known here: what is offered.
"""

from __future__ import annotations

import os
from typing import Any, Final

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class, split_arg_string

# The name click derives from that of the command; `main` looks for it too, before it loads this.
VARIABLE: Final = "_JETSPARK_COMPLETE"
# Kept on the word by bash when it replaces its end: what is before the last of its word breaks. Quoted by us when the
# value needs it, unless the word begins with a quote: then bash does it.
BASH: Final = r"""
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" type value kept="" word answer
    word="${line##*[[:space:]]}"
    COMPREPLY=()
    if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
        kept="${word%%"${word##*:}"}"
    elif [[ $word == *=* && $COMP_WORDBREAKS == *=* ]]; then
        kept="${word%%"${word##*=}"}"
    fi
    answer=$(COMP_WORDS="$line" %(complete_var)s=bash_complete "$1")
    while IFS=$'\t' read -r type value; do
        if [[ $type == dir ]]; then
            compopt -o dirnames
        elif [[ $type == file ]]; then
            compopt -o default
        elif [[ $type == plain ]]; then
            value="${value#"$kept"}"
            if [[ $value == *[!A-Za-z0-9_./:=@+,-]* && ${COMP_WORDS[COMP_CWORD]} != [\"\']* ]]; then
                printf -v value '%%q' "$value"
            fi
            COMPREPLY+=("$value")
        fi
    done <<< "$answer"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

ZSH: Final = r"""
#compdef %(prog_name)s

%(complete_func)s() {
    local -a plain described response
    local type key descr
    response=("${(@f)$(COMP_WORDS="${words[1,CURRENT]}" %(complete_var)s=zsh_complete ${words[1]})}")
    for type key descr in "${(@)response}"; do
        if [[ $type == plain && $descr == _ ]]; then
            plain+=("$key")
        elif [[ $type == plain ]]; then
            described+=("$key:$descr")
        elif [[ $type == dir ]]; then
            compset -P '--*='
            _path_files -/
        elif [[ $type == file ]]; then
            compset -P '--*='
            _path_files -f
        fi
    done
    (( $#described )) && _describe -V unsorted described -U
    (( $#plain )) && compadd -U -V unsorted -a plain
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    # Found in the fpath: this call is already a question.
    %(complete_func)s "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
    compdef %(complete_func)s %(prog_name)s
fi
"""

FISH: Final = r"""
function %(complete_func)s
    set -l line (commandline -cp | string join " ")
    set -l option (commandline -ct | string match -r -- '^--[^=]*=')
    for completion in (env COMP_WORDS="$line" %(complete_var)s=fish_complete %(prog_name)s)
        set -l parts (string split -m 2 \t -- $completion)
        switch $parts[1]
            case dir
                printf "$option%%s\n" (__fish_complete_directories $parts[2])
            case file
                printf "$option%%s\n" (__fish_complete_path $parts[2])
            case plain
                printf '%%s\t%%s\n' $parts[2] "$parts[3]"
        end
    end
end

complete --no-files --command %(prog_name)s --arguments "(%(complete_func)s)"
"""


class _Completion(ShellComplete):
    """What the three have in common."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the unfinished one, and that one."""
        # One letter more: the last word is the unfinished one even after a space or inside an open quote.
        words = split_arg_string(os.environ["COMP_WORDS"] + "_")
        return words[1:-1], words[-1][:-1]

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """Whole words: with the option's name where the value is joined to it. None that would break a line."""
        option, joined, _ = incomplete.partition("=")
        lead = option + joined if option.startswith("--") and joined else ""
        return [
            CompletionItem(lead + item.value if item.type == "plain" else item.value, item.type, item.help)
            for item in super().get_completions(args, incomplete)
            if str(item.value).isprintable()
        ]


class BashCompletion(_Completion):
    """A line an item: its kind and its value."""

    name = "bash"
    source_template = BASH

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """As the script reads it."""
        return f"{item.type}\t{item.value}"


class ZshCompletion(_Completion):
    """Three lines an item: its kind, its value, its description."""

    name = "zsh"
    source_template = ZSH

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """As the script reads it: a colon ends the value only where a description follows."""
        value = item.value.replace(":", r"\:") if item.help else item.value
        return f"{item.type}\n{value}\n{' '.join((item.help or '_').split())}"


class FishCompletion(_Completion):
    """A line an item: its kind, its value, its description."""

    name = "fish"
    source_template = FISH

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """As the script reads it."""
        return f"{item.type}\t{item.value}\t{' '.join((item.help or '').split())}"


SHELLS: Final = {made.name: made for made in (BashCompletion, ZshCompletion, FishCompletion)}


def register() -> None:
    """Have click use these, and not its own, when a shell asks."""
    for made in SHELLS.values():
        add_completion_class(made)
