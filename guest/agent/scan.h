// The `changes` operation: which files under /home/user appeared or changed since the last time.
// Runs in a worker's thread (its own, so that hashing delays no other file operation).
#pragma once
#include "guest/agent/worker.h"

struct ag_scan; // state of the worker
struct ag_scan *ag_scan_new(void);

ag_job_fn ag_op_changes;
ag_job_fn ag_op_watch;     // from now on, and without telling what was there before; folders to leave out
ag_job_fn ag_job_baseline; // takes the first picture; answers nothing
