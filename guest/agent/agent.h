// The agent's parts, put together by main.c and used by the operations of dispatch.c.
#pragma once
#include "guest/agent/command.h"
#include "guest/agent/kernel.h"
#include "guest/agent/scan.h"
#include "guest/agent/upload.h"
#include "guest/agent/worker.h"
#include "guest/agent/zygote.h"

struct ag_agent {
    struct ag_loop *loop;
    struct ag_server *server;
    struct ag_zygote *zygote;
    struct ag_kernel *kernel;
    struct ag_commands *commands;
    struct ag_worker *files, *scans;
    struct ag_kmsg *kmsg;
    char boot_id[40];
};

// Handles a verified request; agent of the request is a struct ag_agent.
void ag_dispatch(struct ag_request *req);
