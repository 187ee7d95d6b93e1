// The program's front door: finds the subcommand and hands over. The only file that knows every room,
// and besides the subcommands themselves the only one that prints.
#include "gateway/cli.h"
#include "gateway/serve.h"
#include "kernel-bridge/bridge_main.h"
#include "vmm/cmds.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; // NULL = internal
} COMMANDS[] = {
    {"serve", ck_cmd_serve, "run the gateway"},
    {"doctor", ck_cmd_doctor, "say what works on this host, and what does not"},
    {"image", ck_cmd_image, "build the guest image"},
    {"template", ck_cmd_template, "build the saved machine that sessions start from"},
    {"run", ck_cmd_run, "run a file or a line of Python in a session of a running gateway"},
    {"session", ck_cmd_session, "create, list, pause, fork and delete sessions of a running gateway"},
    {"token", ck_cmd_token, "create, list and revoke tokens of a running gateway"},
    {"mcp", ck_cmd_mcp, "speak MCP on standard input and output, for a running gateway"},
    {"completion", ck_cmd_completion, "print a script for your shell's Tab key"},
    {"bridge", ck_cmd_bridge, NULL},
};

static void usage(FILE *to)
{
    fprintf(to, "usage: cellkeep COMMAND [options]\n\n");
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++)
        if (COMMANDS[i].help)
            fprintf(to, "  %-10s %s\n", COMMANDS[i].name, COMMANDS[i].help);
    fprintf(to, "\ncellkeep COMMAND --help says more; cellkeep --version prints the version.\n");
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
        usage(stdout);
        return 0;
    }
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
        printf("cellkeep %s\n", CK_VERSION);
        return 0;
    }
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++)
        if (!strcmp(name, COMMANDS[i].name))
            return COMMANDS[i].run(argc - 1, argv + 1);
    if (*name)
        fprintf(stderr, "cellkeep: there is no command \"%.60s\"\n\n", name);
    usage(stderr);
    return 2;
}
