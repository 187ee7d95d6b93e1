// Uploads: write_open, write, write_commit, write_abort. Run in the file worker's thread.
// An upload is a temporary file in the target's folder that replaces the target at commit.
#pragma once
#include "guest/agent/worker.h"

#define AG_UPLOADS_MAX 16

struct ag_uploads; // the file worker's state
struct ag_uploads *ag_uploads_new(void);

ag_job_fn ag_op_write_open, ag_op_write, ag_op_write_commit, ag_op_write_abort;
ag_job_fn ag_job_abort_all; // when a new host takes over, what the old one had begun is nobody's
