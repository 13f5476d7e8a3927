# sh hook.sh HOOK PROGRAM: calls the hook where it may have something to do; no Python elsewhere.
#
# There is nothing to do outside of repositories and of folders with an `.agentforge`, nor in a
# repository in which the person has no sessions and lets none begin but by a command of ours. In
# doubt the hook is called.
# No file of a project is read.

drain() { exec cat >/dev/null 2>&1; }
call() { exec "$hook" "$program"; }

# Whether the person's own file says that no session begins, and names no other place of sessions.
none_begins() {
    section='' none=''
    [ -f "$1" ] && [ -r "$1" ] || return 1
    while IFS= read -r line; do
        case $line in
        *directory* | *store* | *'"""'* | *"'''"*) return 1 ;;
        '['*) section=$line ;;
        'create = false' | 'create=false') [ "$section" = '[agents]' ] && none=1 ;;
        esac
    done <"$1"
    [ -n "$none" ]
}

# Whether the person may have sessions of the repository at a root: by the name of their folder.
has_sessions() {
    [ -d "$1/.git" ] && [ ! -L "$1/.git" ] || return 0
    name=${1##*/}
    case $name in
    '' | .* | *[!abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-]*) return 0 ;;
    ????????????????????????????????????????*) return 0 ;; # their folder has another name
    esac
    for one in "$state/agentforge/projects/$name"-*; do
        [ -e "$one" ] && return 0
    done
    return 1
}

hook=$1 program=$2
[ -z "$AGENTFORGE_CALL" ] || drain
[ -z "$AGENTFORGE_SESSION$AGENTFORGE_BASE$AGENTFORGE_STORE$AGENTFORGE_CONFIG" ] || call
case $XDG_CONFIG_HOME in /*) configuration=$XDG_CONFIG_HOME ;; *) configuration=$HOME/.config ;; esac
case $XDG_STATE_HOME in /*) state=$XDG_STATE_HOME ;; *) state=$HOME/.local/state ;; esac
physical=$(pwd -P) || call
roots=
for folder in "$CLAUDE_PROJECT_DIR" "$PWD" "$physical"; do
    case $folder in /*) ;; *) continue ;; esac
    while :; do
        [ ! -e "$folder/.agentforge" ] && [ ! -L "$folder/.agentforge" ] || call
        if [ -e "$folder/.git" ] || [ -L "$folder/.git" ]; then
            roots=1
            has_sessions "$folder" && call
        fi
        [ -n "$folder" ] || break
        folder=${folder%/*}
    done
done
[ -n "$roots" ] || drain
none_begins "$configuration/agentforge/config.toml" || call
input=$(cat)
case $input in
*agentforge:*) printf '%s\n' "$input" | call ;; # perhaps a command by which the person begins one
esac
