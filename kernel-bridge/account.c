// What a session has used, as the host counts it: processor time of its VMs, time that it ran, cells by their
// endings. A guest cannot lie about it. Grows for as long as the session lives, over pauses and
// rollbacks; what a pooled VM used before it became a session is nobody's.
#include "common/ck_json.h"
#include "common/ck_time.h"
#include "kernel-bridge/bridge.h"

#include <time.h>

// Of the VM that is there: processor time since it was started, all of its threads.
static int64_t vm_cpu_us(const struct bridge *b)
{
    struct timespec t;
    clockid_t clock;
    pid_t pid = b->machine ? ck_machine_proc(b->machine).pid : 0;
    if (pid <= 0 || clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
        return 0;
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void look(struct bridge *b)
{
    struct account *a = &b->account;
    int64_t now = a->cpu_before_us + vm_cpu_us(b);
    if (now > a->cpu_us) // of a VM that is gone the last look counts
        a->cpu_us = now;
}

void br_account_begin(struct bridge *b)
{
    b->account = (struct account){.cpu_before_us = -vm_cpu_us(b), .since_ms = ck_mono_ms()};
}

void br_account_vm_goes(struct bridge *b)
{
    look(b);
    b->account.cpu_before_us = b->account.cpu_us;
}

void br_account_cell(struct bridge *b, enum cell_status status, int64_t wall_ms, int64_t cpu_ms)
{
    b->account.cells[status]++;
    b->account.cell_wall_ms += wall_ms > 0 ? wall_ms : 0;
    b->account.cell_cpu_ms += cpu_ms > 0 ? cpu_ms : 0;
}

json_t *br_account_json(struct bridge *b)
{
    struct account *a = &b->account;
    json_t *cells = json_object();
    look(b);
    for (int i = 0; i < CELL_STATUSES; i++)
        if (a->cells[i])
            json_object_set_new(cells, cell_status_name((enum cell_status)i), json_integer(a->cells[i]));
    int64_t ran_ms = a->wall_before_ms + (a->since_ms ? ck_mono_ms() - a->since_ms : 0), cpu_ms = a->cpu_us / 1000;
    return json_pack("{s:I,s:I,s:I,s:I,s:o}", "vm_cpu_ms", (json_int_t)cpu_ms, "wall_ms",
                     (json_int_t)ran_ms, "cell_wall_ms", (json_int_t)a->cell_wall_ms,
                     "cell_cpu_ms", (json_int_t)a->cell_cpu_ms, "cells", cells);
}

void br_account_read(struct bridge *b, const json_t *o)
{
    struct account *a = &b->account;
    const json_t *cells = json_object_get(o, "cells");
    a->cpu_us = 1000 * ck_json_int(o, "vm_cpu_ms", 0, NULL);
    a->cpu_before_us += a->cpu_us; // less what the VM used while it waited as a spare
    a->wall_before_ms = ck_json_int(o, "wall_ms", 0, NULL);
    a->cell_wall_ms = ck_json_int(o, "cell_wall_ms", 0, NULL);
    a->cell_cpu_ms = ck_json_int(o, "cell_cpu_ms", 0, NULL);
    for (int i = 0; i < CELL_STATUSES; i++)
        a->cells[i] = ck_json_int(cells, cell_status_name((enum cell_status)i), 0, NULL);
}

json_t *br_usage_json(struct bridge *b)
{
    const struct usage *u = &b->usage;
    json_t *all = br_account_json(b);
    json_t *o = json_pack("{s:I,s:I,s:I,s:I}", "cpu_ms", (json_int_t)u->cpu_ms, "memory_bytes", (json_int_t)u->memory_bytes,
                          "peak_memory_bytes", (json_int_t)u->peak_memory_bytes, "disk_bytes", (json_int_t)u->disk_bytes);
    if (o && all)
        json_object_update(o, all);
    json_decref(all);
    return o;
}
