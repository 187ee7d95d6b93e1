#!/bin/bash
# Runs a link command and keeps back one kind of warning: a static glibc warns of every function that would load
# name services ("Using 'getpwuid' in statically linked applications …"). libzmq, libpgm and libcrypto refer to them
# for transports and features that the agent does not use. (ld's own --no-warnings hides errors too.)
set -o pipefail
{ "$@" 2>&1 >&3 3>&-; } 3>&1 | awk "
  / in function \`[^']*':\$/ { held = \$0; next }
  /in statically linked applications requires at runtime the shared libraries/ { held = \"\"; next }
  { if (held != \"\") print held; held = \"\"; print }
  END { if (held != \"\") print held }" >&2
