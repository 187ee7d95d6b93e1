// Subcommands that are clients of a running gateway. argv[0] is the subcommand's own name. Each
// returns the exit code (0, 1, 2 for usage) and may print.
#pragma once

int ck_cmd_run(int argc, char **argv);     // cellkeep run FILE | -c CODE
int ck_cmd_session(int argc, char **argv); // cellkeep session create|list|delete …
int ck_cmd_token(int argc, char **argv);   // cellkeep token create|list|revoke
int ck_cmd_completion(int argc, char **argv); // cellkeep completion bash|zsh|fish
int ck_cmd_mcp(int argc, char **argv);     // cellkeep mcp
