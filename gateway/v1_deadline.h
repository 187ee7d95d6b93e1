// One deadline of a request that waits for its session. Loop thread only.
#pragma once
#include "common/ck_error.h"

#include <uv.h>

#define V1_ANSWER_MS 60000 // for the next step of an operation: longer than any deadline of the bridge's own

struct v1_deadline; // opaque, owned by the request's object

// expired is called once when the time is over: with 504 "session_timeout". NULL when memory is out.
struct v1_deadline *v1_deadline_new(uv_loop_t *loop, void (*expired)(void *user, const struct ck_err *err), void *user);
void v1_deadline_arm(struct v1_deadline *d);  // the step begins anew
void v1_deadline_arm_after(struct v1_deadline *d, int64_t extra_ms); // the same, and so much more time
void v1_deadline_stop(struct v1_deadline *d); // nothing is waited for now
void v1_deadline_free(struct v1_deadline *d); // NULL is fine; no call after this
