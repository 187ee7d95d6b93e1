// Commands: programs that the bridge asks to be run as the user, next to the kernel. Main thread only.
#pragma once
#include "guest/agent/server.h"

#include <sys/types.h>

#define AG_COMMANDS_MAX 16

struct ag_commands;
struct ag_commands *ag_commands_new(struct ag_loop *loop, struct ag_server *server);
void ag_commands_free(struct ag_commands *c);

bool ag_commands_reaped(struct ag_commands *c, pid_t pid, int status); // true when it was one of them
void ag_commands_kill_all(struct ag_commands *c); // when a new host takes over

void ag_op_command(struct ag_commands *c, struct ag_request *req);
void ag_op_command_kill(struct ag_commands *c, struct ag_request *req);
