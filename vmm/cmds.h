// Subcommands of the vmm room. Each prints to stdout (results) and stderr (progress, errors) and
// returns the exit code: 0, 1 failed, 2 usage. argv[0] is the subcommand's name. Called by main only.
#pragma once

int ck_cmd_doctor(int argc, char **argv);
int ck_cmd_template(int argc, char **argv); // build | ensure --json
int ck_cmd_image(int argc, char **argv);    // build
